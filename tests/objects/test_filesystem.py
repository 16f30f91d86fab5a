"""FilesystemBackend: what is on the disk, and what happens when something else is."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attachstore.digest import Digest
from attachstore.disk import Disk
from attachstore.errors import (
    StoreLayoutError,
)
from attachstore.objects.backend import EntryKind
from attachstore.objects.filesystem import FilesystemBackend
from attachstore.objects.memory import MemoryBackend
from attachstore.objects.store import CommitOutcome, ObjectStore
from tests.descriptors import open_descriptors
from tests.objects.samples import (
    DATA,
    DIGEST,
    PlainDisk,
    attachment,
    damage,
    make_store,
    names_in,
    object_path,
    open_store,
    reference,
)


@pytest.fixture
def root(memory_path: Path) -> Path:
    root = memory_path / "store"
    make_store(root)
    return root


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


class TestLayout:
    def test_an_object_is_a_file_of_its_bytes_named_by_their_digest(self, root: Path) -> None:
        open_store(root).commit(attachment())

        path = root / "objects" / "blake3" / DIGEST.hex[:2] / DIGEST.hex
        assert path.read_bytes() == DATA
        assert path.stat().st_nlink == 1
        assert names_in(root / "staging") == names_in(root / "quarantine") == []

    def test_opening_touches_nothing(self, tmp_path: Path) -> None:
        FilesystemBackend(tmp_path / "absent", Disk()).close()

        assert names_in(tmp_path) == []

    def test_creation_may_be_repeated_on_a_store_in_use(self, root: Path) -> None:
        open_store(root).commit(attachment())

        store = make_store(root)

        assert store.read(reference()) == DATA

    @pytest.mark.parametrize("name", ["objects", "objects/blake3", "objects/blake3/00", "staging"])
    def test_creation_refuses_a_file_in_the_place_of_a_directory(
        self, tmp_path: Path, name: str
    ) -> None:
        path = tmp_path / "store" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(b"")

        with pytest.raises(StoreLayoutError):
            make_store(tmp_path / "store")

    def test_directories_that_a_tool_did_not_restore_are_made_again(self, root: Path) -> None:
        """Git, and some copying tools, know no empty directories."""
        for directory in (object_path(root).parent, root / "staging", root / "quarantine"):
            directory.rmdir()
        store = open_store(root)

        assert store.read(store.commit(attachment()).reference) == DATA
        damage(object_path(root))
        assert store.commit(attachment()).outcome is CommitOutcome.HEALED

    def test_all_that_holds_no_file_may_be_missing(self, root: Path) -> None:
        """And a store without objects holds none at all."""
        shutil.rmtree(root)
        root.mkdir()
        store = open_store(root)

        assert list(store.digests()) == []
        assert store.read(store.commit(attachment()).reference) == DATA
        assert store.commit(attachment()).outcome is CommitOutcome.DUPLICATE

    def test_a_shard_that_is_removed_under_an_open_store_is_made_again(self, root: Path) -> None:
        store = open_store(root)
        store.commit(attachment())
        object_path(root).unlink()
        object_path(root).parent.rmdir()

        assert store.commit(attachment()).outcome is CommitOutcome.STORED

    def test_a_changed_working_directory_changes_nothing(
        self, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = open_store(root)
        monkeypatch.chdir(tmp_path)

        assert store.read(store.commit(attachment()).reference) == DATA

    @pytest.mark.parametrize("umask", [0o000, 0o022, 0o027, 0o077])
    @pytest.mark.parametrize("disk", [Disk(), PlainDisk()], ids=["linux", "plain"])
    def test_modes_follow_the_umask_and_never_let_others_write(
        self, memory_path: Path, umask: int, disk: Disk
    ) -> None:
        before = os.umask(umask)
        try:
            store = make_store(memory_path / "store", disk)
            store.commit(attachment())
            damage(object_path(memory_path / "store"))
            store.commit(attachment())
            damage(object_path(memory_path / "store"))
            store.quarantine(DIGEST, "test")
            store.commit(attachment())
            store.copy_out(reference(), memory_path / "copy")
        finally:
            os.umask(before)

        for path in (memory_path / "store").rglob("*"):
            is_own = (
                path.is_dir()
                or path.suffix == ".json"
                or path == object_path(memory_path / "store")
            )
            if is_own:  # quarantined files keep the mode that the test gave them
                assert mode(path) == (0o755 if path.is_dir() else 0o444) & ~umask, path
        assert mode(memory_path / "copy") == 0o644 & ~umask

    def test_the_note_in_quarantine_says_when_who_and_what(self, root: Path) -> None:
        store = open_store(root)
        store.commit(attachment())
        damage(object_path(root), b"rotten")
        store.commit(attachment())

        bad, note = names_in(root / "quarantine")
        assert note == f"{bad}.json"
        assert (root / "quarantine" / bad).read_bytes() == b"rotten"
        fields = json.loads((root / "quarantine" / note).read_bytes())
        assert fields.pop("when").endswith("Z")
        assert fields == {
            "found_by": "commit",
            "expected": str(DIGEST),
            "actual": str(Digest.of(b"rotten")),
            "size_bytes": 6,
        }


def _link_to_good_bytes(path: Path) -> None:
    (path.parent / "elsewhere").write_bytes(DATA)
    path.symlink_to("elsewhere")


IRREGULAR: dict[str, Callable[[Path], Any]] = {
    "directory": Path.mkdir,
    "link": lambda path: path.symlink_to("nowhere"),
    "link to good bytes": _link_to_good_bytes,
    "fifo": os.mkfifo,
    "socket": lambda path: os.mknod(path, stat.S_IFSOCK | 0o600),
}


@pytest.mark.parametrize("make", IRREGULAR.values(), ids=IRREGULAR)
class TestSomethingElseUnderAnObjectsName:
    def test_every_call_says_so_at_once(self, root: Path, make: Callable[[Path], Any]) -> None:
        make(object_path(root))
        store = open_store(root)

        for call in (
            lambda: store.read(reference()),
            lambda: store.stream(reference()),
            lambda: store.size(DIGEST),
            lambda: store.confirm(reference()),
            lambda: store.commit(attachment()),
            lambda: store.quarantine(DIGEST, "test"),
        ):
            with pytest.raises(StoreLayoutError) as caught:
                call()
            assert DIGEST.hex in caught.value.where
        assert isinstance(store.verify(DIGEST).error, StoreLayoutError)

    def test_a_scan_sees_it(self, root: Path, make: Callable[[Path], Any]) -> None:
        make(object_path(root))

        found = [entry for entry in open_store(root).entries() if entry.digest == DIGEST]

        assert [entry.kind for entry in found] == [EntryKind.IRREGULAR]
        assert found[0].reason
        assert found[0].size_bytes == 0


def test_a_shard_that_leads_out_of_the_store_is_refused(root: Path, tmp_path: Path) -> None:
    shard = object_path(root).parent
    shard.rmdir()
    shard.symlink_to(tmp_path)

    with pytest.raises(StoreLayoutError, match="symbolic link"):
        open_store(root).commit(attachment())

    assert names_in(tmp_path) == []
    kinds = [entry.kind for entry in open_store(root).entries()]
    assert kinds == [EntryKind.IRREGULAR]


def test_a_file_in_the_place_of_the_quarantine_is_a_broken_layout(root: Path) -> None:
    open_store(root).commit(attachment())
    object_path(root).chmod(0o644)
    object_path(root).write_bytes(b"rot")
    (root / "quarantine").rmdir()
    (root / "quarantine").write_bytes(b"")

    with pytest.raises(StoreLayoutError, match="not a directory") as caught:
        open_store(root).commit(attachment())

    assert caught.value.where.startswith(str(root / "quarantine"))
    assert object_path(root).read_bytes() == b"rot", "it is left as it was found"


def test_a_file_in_the_place_of_a_shard_is_refused(root: Path) -> None:
    shard = object_path(root).parent
    shard.rmdir()
    shard.write_bytes(b"")
    store = open_store(root)

    for call in (
        lambda: store.commit(attachment()),
        lambda: store.read(DIGEST),
        lambda: store.size(DIGEST),
        lambda: store.quarantine(DIGEST, "test"),
        lambda: list(store.digests(DIGEST.hex[:6])),
    ):
        with pytest.raises(StoreLayoutError):
            call()


class TestInventory:
    def test_everything_is_called_what_it_is(self, root: Path) -> None:
        store = open_store(root)
        store.commit(attachment())
        other = Digest.of(b"other").hex
        shards = root / "objects" / "blake3"
        wrong_shard = "00" if other[:2] != "00" else "01"
        (shards / wrong_shard / other).write_bytes(b"other")
        (shards / other).write_bytes(b"other")
        (shards / "00" / "notes.txt").write_bytes(b"12")
        (shards / "00" / DIGEST.hex.upper()).write_bytes(b"")
        (shards / "00" / "folder").mkdir()
        (shards / "zz").mkdir()
        (root / "objects" / "sha256").mkdir()
        (root / "staging" / "mine").write_bytes(b"1")
        (root / "staging" / f"spool-{'0' * 32}").write_bytes(b"123")
        (root / "quarantine" / "README").write_bytes(b"")
        (shards / "00" / os.fsdecode(b"\xff\n")).write_bytes(b"")

        found = {entry.path: entry for entry in store.entries()}

        kinds = {path: entry.kind.value for path, entry in found.items()}
        assert kinds == {
            f"objects/blake3/{DIGEST.hex[:2]}/{DIGEST.hex}": "object",
            f"objects/blake3/{wrong_shard}/{other}": "misplaced",
            f"objects/blake3/{other}": "misplaced",
            "objects/blake3/00/notes.txt": "foreign",
            f"objects/blake3/00/{DIGEST.hex.upper()}": "foreign",
            "objects/blake3/00/folder": "foreign",
            "objects/blake3/00/\\udcff\\n": "foreign",
            "objects/blake3/zz": "foreign",
            "objects/sha256": "foreign",
            "staging/mine": "foreign",
            f"staging/spool-{'0' * 32}": "staging",
            "quarantine/README": "foreign",
        }
        assert found["objects/blake3/00/notes.txt"].size_bytes == 2
        assert found[f"objects/blake3/{other}"].digest == Digest(other)
        assert found[f"staging/spool-{'0' * 32}"].stale
        assert not found["staging/mine"].stale

    def test_a_write_bit_is_seen(self, root: Path) -> None:
        store = open_store(root)
        store.commit(attachment())
        object_path(root).chmod(0o464)

        assert [entry.mode for entry in store.entries()] == [0o464]

    def test_what_vanishes_meanwhile_is_left_out(self, root: Path) -> None:
        """Another process has removed it between the listing and the question."""

        class Vanishing(Disk):
            def names(self, path: Path) -> list[str]:
                return [*super().names(path), "gone"]

        assert list(open_store(root, Vanishing()).entries()) == []

    def test_an_object_that_vanishes_hides_no_other(self, root: Path) -> None:
        store = open_store(root)
        digest = store.commit(attachment()).reference.digest

        class Vanishing(Disk):
            def names(self, path: Path) -> list[str]:
                found = super().names(path)
                return [f"{digest.hex[:2]}{'f' * 62}", *found] if digest.hex in found else found

        listed = [entry.digest for entry in open_store(root, Vanishing()).entries()]

        assert listed == [digest]

    def test_a_name_that_is_listed_twice_is_one_object(self, root: Path) -> None:
        """As file systems on a network do while others change the directory."""
        digest = open_store(root).commit(attachment()).reference.digest

        class Repeating(Disk):
            def names(self, path: Path) -> list[str]:
                return sorted(super().names(path) * 2)

        store = open_store(root, Repeating())

        assert [entry.digest for entry in store.entries()] == [digest]
        assert [*store.digests()] == [digest]

    def test_what_is_no_file_hides_no_object_beside_it(self, root: Path) -> None:
        store = open_store(root)
        path = object_path(root)
        store.commit(attachment())
        (path.parent / f"{path.name[:2]}{'0' * 62}").mkdir()

        found = [(entry.kind, entry.size_bytes) for entry in store.entries()]

        assert found == [(EntryKind.IRREGULAR, 0), (EntryKind.OBJECT, path.stat().st_size)]


def test_descriptors_do_not_leak(root: Path) -> None:
    store = open_store(root)
    store.commit(attachment())
    before = open_descriptors()

    for number in range(20):
        data = str(number).encode()
        store.read(store.commit(attachment(data)).reference)
        damage(object_path(root, data))
        store.commit(attachment(data))
        list(store.entries())
        store.verify(Digest.of(data))
        for copy in store.backend.quarantined(Digest.of(data)):
            copy.close()

    assert open_descriptors() <= before


def test_an_object_of_another_medium_is_not_confirmed(root: Path) -> None:
    memory = ObjectStore(MemoryBackend())
    memory.commit(attachment())

    with pytest.raises(TypeError):
        open_store(root).backend.confirm(DIGEST, memory.backend.open(DIGEST))
