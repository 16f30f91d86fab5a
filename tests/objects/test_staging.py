"""Temporary files: whose they are, when they go, and what they are never mistaken for."""

from __future__ import annotations

import errno
import io
import json
import os
from pathlib import Path
from typing import Any, NoReturn

import pytest

from attachstore.disk import Disk
from attachstore.errors import (
    StorageIOError,
)
from attachstore.objects.backend import EntryKind
from attachstore.objects.filesystem import FilesystemBackend
from attachstore.objects.store import CommitOutcome
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
)


@pytest.fixture
def root(memory_path: Path) -> Path:
    root = memory_path / "store"
    make_store(root)
    return root


class TestStaging:
    def test_a_live_writers_file_is_not_stale_and_not_swept(self, root: Path) -> None:
        store = open_store(root, PlainDisk())
        spool = store.spool()
        spool.write(DATA)

        others = open_store(root)
        assert [entry.stale for entry in others.entries()] == [False]
        assert others.sweep() == 0

        content = spool.finish()
        assert store.commit(attachment(content=content)).outcome is CommitOutcome.STORED
        content.close()
        assert names_in(root / "staging") == []

    def test_an_abandoned_file_is_stale_and_swept(self, root: Path) -> None:
        (root / "staging" / f"spool-{'1' * 32}").write_bytes(DATA)
        (root / "staging" / "marker-not-ours").write_bytes(DATA)
        store = open_store(root)

        assert store.sweep() == 1
        assert store.sweep() == 0

        assert names_in(root / "staging") == ["marker-not-ours"]

    def test_a_sweeper_that_is_faster_than_the_lock_makes_the_writer_start_again(
        self, root: Path
    ) -> None:
        """Between creating its file and locking it a writer owns nothing."""

        class Swept(PlainDisk):
            swept = 0

            def lock(self, descriptor: int, *, exclusive: bool, wait: bool) -> None:
                if self.swept < 2:
                    self.swept += open_store(root).sweep()
                super().lock(descriptor, exclusive=exclusive, wait=wait)

        disk = Swept()

        assert open_store(root, disk).commit(attachment()).outcome is CommitOutcome.STORED
        assert disk.swept == 2
        assert names_in(root / "staging") == []

    def test_a_writer_whose_file_a_sweeper_holds_makes_another(self, root: Path) -> None:
        class Held(PlainDisk):
            def __init__(self) -> None:
                self.held: list[int] = []

            def lock(self, descriptor: int, *, exclusive: bool, wait: bool) -> None:
                if not self.held:
                    (name,) = names_in(root / "staging")
                    self.held.append(self.open_read(root / "staging" / name))
                    super().lock(self.held[0], exclusive=True, wait=False)
                super().lock(descriptor, exclusive=exclusive, wait=wait)

        disk = Held()
        assert open_store(root, disk).commit(attachment()).outcome is CommitOutcome.STORED
        os.close(disk.held[0])
        assert names_in(root / "staging") == []

    def test_a_file_that_its_writer_gives_up_under_the_sweeper_is_no_error(
        self, root: Path
    ) -> None:
        """The writer found it locked, by this sweeper, and removes it before the sweeper does."""
        (root / "staging" / f"spool-{'1' * 32}").write_bytes(b"")

        class GivenUp(Disk):
            def unlink(self, path: Path) -> None:
                path.unlink()
                super().unlink(path)

        assert open_store(root, GivenUp()).sweep() == 0
        assert names_in(root / "staging") == []

    def test_what_a_crashed_healer_left_goes_to_the_quarantine(self, root: Path) -> None:
        """It may be the only evidence, or the only whole copy: sweeping never removes it."""
        left = root / "staging" / f"heal-{DIGEST.hex}-{'2' * 16}"
        left.write_bytes(b"rotten")
        store = open_store(root)
        assert [entry.stale for entry in store.entries()] == [True]

        assert store.sweep() == 1

        assert names_in(root / "staging") == []
        bad, note = names_in(root / "quarantine")
        assert (root / "quarantine" / bad).read_bytes() == b"rotten"
        assert json.loads((root / "quarantine" / note).read_bytes())["found_by"] == "sweep"

    def test_a_live_healers_file_is_left_alone(self, root: Path) -> None:
        store = open_store(root)
        store.commit(attachment())
        damage(object_path(root))
        seen: list[tuple[bool, int]] = []

        class Watched(Disk):
            def exchange(self, path: Path, other_path: Path) -> None:
                entries = [it for it in store.entries() if it.kind is EntryKind.STAGING]
                seen.append((entries[0].stale, store.sweep()))
                super().exchange(path, other_path)

        open_store(root, Watched()).commit(attachment())

        assert seen == [(False, 0)]

    def test_without_proc_files_have_names(self, root: Path) -> None:
        """An unnamed file is linked through /proc/self/fd; a container may lack it."""

        class NoProc(Disk):
            def status_followed(self, path: Path) -> os.stat_result:
                raise FileNotFoundError(errno.ENOENT, "not here", str(path))

            def link_open_file(self, descriptor: int, path: Path) -> NoReturn:
                raise FileNotFoundError(errno.ENOENT, "not here", str(path))

        assert open_store(root, NoProc()).commit(attachment()).outcome is CommitOutcome.STORED

    def test_content_of_another_store_is_copied_and_hashed(
        self, root: Path, memory_path: Path
    ) -> None:
        other = make_store(memory_path / "other")
        spool = other.spool()
        spool.write(DATA)
        content = spool.finish()

        reference = open_store(root).commit(attachment(content=content)).reference
        content.close()

        assert open_store(root).read(reference) == DATA
        assert not object_path(memory_path / "other").exists()

    def test_bytes_that_changed_on_their_way_in_get_no_name(self, root: Path) -> None:
        class Lying:
            digest = DIGEST
            size = 3

            def open(self) -> Any:
                return io.BytesIO(b"lie")

        backend = FilesystemBackend(root, Disk())

        with pytest.raises(StorageIOError, match="changed on their way"):
            backend.publish(DIGEST, Lying())  # type: ignore[arg-type] - all that is used of it

        assert backend.size(DIGEST) is None
