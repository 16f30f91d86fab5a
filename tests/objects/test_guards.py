"""What happens between two calls of ours: files change hands, names change what they lead to.

Each test turns red without one guard of objects/ that no other test needs (tests/rigs, rig 11).
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attachstore.attachment import BytesContent
from attachstore.digest import Digest
from attachstore.disk import Disk
from attachstore.errors import StorageIOError, StorePoisonedError
from attachstore.objects.backend import QuarantineNote, StoredObject
from attachstore.objects.filesystem import FilesystemBackend
from attachstore.objects.intake import Intake
from attachstore.objects.intake_file import IntakeFile, front_of
from attachstore.objects.other_intakes import OtherIntakes
from attachstore.objects.staging import Staging
from attachstore.objects.store import CommitOutcome
from attachstore.promise import Promise
from tests.faults import FailingDisk, InterceptedDisk, PowerLossDisk, RecordingDisk
from tests.objects.intakes import intake_files
from tests.objects.samples import (
    ALWAYS,
    DATA,
    DIGEST,
    abandon,
    attachment,
    damage,
    object_path,
    open_intake_store,
    open_store,
    spooled,
)

BIG = bytes(range(256)) * 64


class MeanwhileDisk(InterceptedDisk):
    """Something happens before the first call of `method`."""

    def __init__(self, method: str, happens: Callable[[], object]) -> None:
        super().__init__()
        self._method = method
        self._happens = happens
        self._left = 1

    def intercept(self, method: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        if method == self._method and self._left:
            self._left -= 1
            self._happens()
        return call()


# -- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["spooled", "in memory"])
def test_what_is_staged_is_on_the_disk_before_its_commit(root: Path, kind: str) -> None:
    """So that the commit, which somebody waits for, need not wait for the bytes."""
    disk = RecordingDisk(root)
    store = open_store(root, disk)
    backend = store.backend
    assert isinstance(backend, FilesystemBackend)
    content = spooled(backend, BIG) if kind == "spooled" else BytesContent(BIG)

    staged = store.stage(content)

    assert [call for call, _ in disk.trace] == ["open_temporary", "write", "sync_file"]
    staged.close()


def test_what_is_kept_aside_is_durable(root: Path, tmp_path: Path) -> None:
    disk = PowerLossDisk(root)
    backend = FilesystemBackend(root, disk)
    actual = str(Digest.of(BIG))
    note = QuarantineNote(found_by="test", expected=str(DIGEST), actual=actual, size_bytes=len(BIG))

    backend.keep_aside(DIGEST, BIG, note)

    for state in disk.crash_states(into=tmp_path):
        directory = state / "quarantine"
        (path,) = (it for it in directory.iterdir() if it.suffix != ".json")
        assert path.read_bytes() == BIG
        assert json.loads(path.with_suffix(".json").read_bytes())["expected"] == str(DIGEST)


def test_quarantine_judges_while_no_healer_can_be_at_work(root: Path) -> None:
    open_store(root).commit(attachment())
    damage(object_path(root))
    tried: list[bool] = []

    def judge(_: StoredObject) -> None:
        descriptor = os.open(object_path(root).parent, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(descriptor)
        tried.append(True)

    FilesystemBackend(root, Disk()).quarantine(DIGEST, judge)

    assert tried == [True]


def test_a_staged_file_that_is_given_up_while_a_sweeper_looks_is_not_stale(root: Path) -> None:
    path = root / "staging" / f"spool-{'1' * 32}"
    path.write_bytes(DATA)

    assert not Staging(MeanwhileDisk("lock", path.unlink), root / "staging").is_stale(path)


# -- intakes -----------------------------------------------------------------------------------


def do_nothing(_: object) -> None:
    """In the place of giving objects their files."""


def do_nothing_aside(_: Digest, __: bytes) -> None:
    """In the place of keeping bytes aside."""


def intake_of(root: Path, disk: Disk) -> Intake:
    (root / "intake").mkdir()
    return Intake(disk, root / "intake", Promise(disk, "store"), do_nothing, ALWAYS)


def test_after_a_failed_sync_an_intake_neither_vouches_nor_takes_in(root: Path) -> None:
    """The next sync would say OK, and the bytes be lost."""
    disk = FailingDisk(1, methods={"sync_data"})
    intake = intake_of(root, disk)
    with pytest.raises(StorageIOError):
        intake.put(DIGEST, DATA)

    with pytest.raises(StorePoisonedError):
        intake.confirm(DIGEST)
    (path,) = intake_files(root)
    before = path.read_bytes()
    with pytest.raises(StorePoisonedError):
        intake.put(Digest.of(BIG), BIG)
    assert path.read_bytes() == before
    with pytest.raises(StorePoisonedError):
        intake.close()


def test_an_intake_file_that_is_taken_for_a_dead_ones_before_it_is_locked_is_made_again(
    root: Path,
) -> None:
    (root / "intake").mkdir()
    disk = MeanwhileDisk("lock", lambda: [it.unlink() for it in intake_files(root)])

    file = IntakeFile.create(disk, root / "intake", ALWAYS.file_bytes)

    assert intake_files(root) == [file.path]
    file.close()


def test_no_byte_of_an_intakes_front_may_differ(root: Path) -> None:
    (root / "intake").mkdir()
    file = IntakeFile.create(Disk(), root / "intake", ALWAYS.file_bytes)
    whole = file.path.read_bytes()
    file.close()

    def front(content: bytes) -> object:
        return front_of(lambda size, offset: content[offset : offset + size])

    assert front(whole) is not None
    last = len(whole[:64].rstrip(b"\0"))
    for position in range(last):
        changed = bytearray(whole)
        changed[position] ^= 1
        assert front(bytes(changed)) is None, position


def left_by_a_dead_writer(root: Path) -> Path:
    store = open_intake_store(root)
    store.commit(attachment())
    abandon(store)
    (path,) = intake_files(root)
    return path


@pytest.mark.parametrize("method", ["open_read", "open_write"], ids=["read", "replayed"])
def test_an_intake_file_that_becomes_a_fifo_is_left_alone(root: Path, method: str) -> None:
    path = left_by_a_dead_writer(root)

    def become() -> None:
        path.unlink()
        os.mkfifo(path)

    others = OtherIntakes(MeanwhileDisk(method, become), root / "intake", lambda _: False)

    if method == "open_read":
        assert others.read(DIGEST) is None
    else:
        assert others.replay(do_nothing, do_nothing_aside) == 0
    assert path.is_fifo()


def test_an_intake_file_that_another_has_replayed_is_not_replayed_again(root: Path) -> None:
    """It was opened before that, and locked after."""
    path = left_by_a_dead_writer(root)
    others = OtherIntakes(MeanwhileDisk("lock", path.unlink), root / "intake", lambda _: False)

    assert others.replay(do_nothing, do_nothing_aside) == 0


# -- a duplicate that was compared -------------------------------------------------------------


def test_bytes_whose_name_is_gone_are_not_committed_again(root: Path) -> None:
    """They were compared with what was opened; what is promised is the name."""
    store = open_store(root)
    store.commit(attachment())
    with store.backend.open(DIGEST) as stored:
        again = store.commit_again(attachment(), stored)
        assert again is not None
        assert again.outcome is CommitOutcome.DUPLICATE
        object_path(root).unlink()
        assert store.commit_again(attachment(), stored) is None
