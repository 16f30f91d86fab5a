"""Media that change under a reader, misread, go stale, or may not be written to."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attachstore.digest import Digest
from attachstore.disk import Disk, ReadOnlyDisk
from attachstore.errors import (
    ObjectCorruptError,
    StorageIOError,
    StorageReadOnlyError,
    StorageUnsupportedError,
)
from attachstore.objects.store import CommitOutcome
from tests.faults import FailingDisk, InterceptedDisk
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


class TestChangesWhileReading:
    BIG = bytes(9 << 20)

    def test_bytes_that_change_after_verification_are_not_handed_out(self, root: Path) -> None:
        store = open_store(root)
        found = store.stream(store.commit(attachment(self.BIG)).reference)
        path = object_path(root, self.BIG)
        path.chmod(0o644)
        with path.open("r+b") as file:
            file.seek(5 << 20)
            file.write(b"\1")

        for _ in range(5):
            assert found.read_block() == bytes(1 << 20)
        with pytest.raises(ObjectCorruptError) as caught:
            found.read_block()

        assert caught.value.digest == str(Digest.of(self.BIG))
        assert caught.value.actual != caught.value.digest
        found.close()

    def test_a_file_that_is_cut_while_it_is_streamed_is_corrupt(self, root: Path) -> None:
        store = open_store(root)
        found = store.stream(store.commit(attachment(self.BIG)).reference)
        os.truncate(object_path(root, self.BIG), 1 << 20)

        found.read_block()
        with pytest.raises(ObjectCorruptError) as caught:
            found.read_block()

        assert caught.value.size_bytes == 1 << 20
        found.close()

    def test_a_block_that_was_misread_once_is_read_again(self, root: Path) -> None:
        disk = MisreadingDisk()
        store = open_store(root, disk)
        found = store.stream(store.commit(attachment(self.BIG)).reference)
        disk.misread = 1

        assert b"".join(iter(found.read_block, b"")) == self.BIG
        found.close()

    def test_a_reader_keeps_the_file_it_opened(self, root: Path) -> None:
        """Quarantine and heal rename; they change no byte under a reader."""
        store = open_store(root)
        found = store.stream(store.commit(attachment(self.BIG)).reference)
        object_path(root, self.BIG).unlink()

        assert b"".join(iter(found.read_block, b"")) == self.BIG
        found.close()


class MisreadingDisk(Disk):
    """Flips a bit in the next `misread` reads."""

    misread = 0

    def read_into(self, descriptor: int, buffer: memoryview | bytearray, offset_bytes: int) -> int:
        got = super().read_into(descriptor, buffer, offset_bytes)
        if self.misread and got:
            self.misread -= 1
            buffer[0] ^= 1
        return got

    def read(self, descriptor: int, size_bytes: int, offset_bytes: int) -> bytes:
        buffer = bytearray(size_bytes)
        return bytes(buffer[: self.read_into(descriptor, buffer, offset_bytes)])


def test_one_misread_is_no_corruption_and_two_are(root: Path) -> None:
    disk = MisreadingDisk()
    store = open_store(root, disk)
    store.commit(attachment())

    disk.misread = 1
    assert store.read(reference()) == DATA
    disk.misread = 3
    with pytest.raises(ObjectCorruptError):
        store.read(reference())


def test_a_misread_duplicate_is_looked_at_again_before_it_is_replaced(root: Path) -> None:
    """Healing good bytes would be harmless, but a note in quarantine would be a lie."""
    disk = MisreadingDisk()
    store = open_store(root, disk)
    store.commit(attachment())
    disk.misread = 1

    assert store.commit(attachment()).outcome is CommitOutcome.DUPLICATE
    assert names_in(root / "quarantine") == []


def test_the_second_reading_goes_past_the_page_cache(root: Path) -> None:
    calls: list[str] = []

    class Watched(InterceptedDisk):
        def intercept(
            self, method: str, call: Callable[[], Any], arguments: tuple[Any, ...]
        ) -> Any:
            calls.append(method)
            return call()

    store = open_store(root, Watched())
    store.commit(attachment())
    damage(object_path(root))
    calls.clear()

    with pytest.raises(ObjectCorruptError):
        store.read(reference())

    assert calls.count("drop_cache") == 1
    assert calls.index("drop_cache") > calls.index("read_into")


class TestStaleHandles:
    """ESTALE: another NFS client has renamed over the file that we have open."""

    @pytest.mark.parametrize("method", ["open_read", "read_into", "status"])
    def test_once_is_answered_by_looking_again(self, root: Path, method: str) -> None:
        open_store(root).commit(attachment())
        disk = FailingDisk(1, error=errno.ESTALE, methods={method})
        store = open_store(root, disk)

        assert store.stream(reference()).read_block() == DATA
        assert store.size(DIGEST) == len(DATA)
        assert disk.landed == [method]

    @pytest.mark.parametrize("method", ["open_read", "read_into", "status"])
    def test_again_and_again_is_an_error_of_the_disk(self, root: Path, method: str) -> None:
        open_store(root).commit(attachment())
        disk = FailingDisk(1, error=errno.ESTALE, methods={method}, sticky=True)

        with pytest.raises(StorageIOError, match="ESTALE"):
            open_store(root, disk).stream(reference())

    def test_no_good_object_is_ever_replaced(self, root: Path) -> None:
        """So readers keep valid handles."""
        store = open_store(root)
        store.commit(attachment())
        before = object_path(root).stat()

        store.commit(attachment())

        after = object_path(root).stat()
        assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


class TestOtherFileSystems:
    @pytest.mark.parametrize("disk", [Disk(), PlainDisk()], ids=["linux", "plain"])
    def test_a_shard_on_another_file_system_is_refused_with_nothing_left(
        self, root: Path, disk: Disk
    ) -> None:
        failing = FailingDisk(
            1, error=errno.EXDEV, methods={"link", "link_open_file"}, sticky=True, disk=disk
        )

        with pytest.raises(StorageUnsupportedError, match="another file system"):
            open_store(root, failing).commit(attachment())

        assert not object_path(root).exists()
        assert names_in(root / "staging") == []

    def test_the_systems_temporary_directory_does_not_matter(
        self, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TMPDIR", str(tmp_path))

        open_store(root).commit(attachment())

        assert names_in(tmp_path) == []


class TestReadOnly:
    def test_reading_works_and_writing_is_refused_without_a_trace(self, root: Path) -> None:
        open_store(root).commit(attachment())
        before = sorted(root.rglob("*"))
        store = open_store(root, ReadOnlyDisk())

        assert store.read(reference()) == DATA
        assert store.stream(reference()).read_block() == DATA
        assert store.verify(DIGEST).error is None
        assert list(store.digests()) == [DIGEST]
        assert len(list(store.entries())) == 1
        with pytest.raises(StorageReadOnlyError):
            store.commit(attachment(b"new"))
        with pytest.raises(StorageReadOnlyError):
            store.spool()
        assert sorted(root.rglob("*")) == before

    @pytest.mark.root
    def test_a_read_only_mount_is_read(self, tmp_path: Path) -> None:
        """Really mounted read-only, in a mount namespace of its own."""
        root = tmp_path / "store"
        make_store(root).commit(attachment())
        mount = "mount --bind $0 $0 && mount -o remount,ro,bind $0 && exec "
        program = (
            "import sys; from pathlib import Path\n"
            "from tests.objects.samples import *\n"
            "from attachstore.errors import StorageReadOnlyError\n"
            "store = open_store(Path(sys.argv[1]))\n"
            "assert store.read(reference()) == DATA\n"
            "try: store.commit(attachment(b'new'))\n"
            "except StorageReadOnlyError: print('refused')\n"
        )

        done = subprocess.run(
            [
                "unshare",
                "-m",
                "sh",
                "-c",
                f'{mount}"$1" -c "$2" $0',
                str(root),
                sys.executable,
                program,
            ],
            capture_output=True,
            text=True,
            check=False,
        )

        if "unshare failed" in done.stderr or "permission denied" in done.stderr.lower():
            pytest.skip(f"no mount namespace here: {done.stderr.strip()}")
        assert done.stdout == "refused\n", done.stderr
