"""Attaching: the bytes are on their way to the medium while a decoder still looks at them."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from attachstore import AdmissionPolicy
from attachstore.admission.pool import ProcessPool
from attachstore.attach import Attacher, Claim
from attachstore.disk import Disk
from attachstore.errors import (
    AdmissionError,
    CorruptImageError,
    StorageIOError,
    TruncatedImageError,
)
from attachstore.objects.filesystem import FilesystemBackend
from attachstore.objects.store import CommitOutcome, ObjectStore
from attachstore.threads import CancelFlag, Cancelled
from tests.admission.pictures import noise, saved
from tests.descriptors import open_descriptors
from tests.faults import FailingDisk, RecordingDisk

PICTURE = saved(noise("RGB", (40, 30)), "PNG")
BROKEN = PICTURE[:-40] + bytes(20) + PICTURE[-20:]
TEXT = b"nothing to decode\n"
STORED = ["open_temporary", "write", "sync_file", "link_open_file", "sync_directory"]


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPool]:
    pool = ProcessPool(processes_max=1)
    pool.guess(b"\x01\x02", None)  # its process is there now
    yield pool
    pool.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    FilesystemBackend.create(tmp_path / "store", Disk()).close()
    return tmp_path / "store"


class Asked(ProcessPool):
    """Notes in the disk's trace when the worker's answer is waited for."""

    def __init__(self, disk: RecordingDisk) -> None:
        super().__init__(processes_max=1)
        self._disk = disk

    def ask(self, *arguments: object, **named: object) -> object:  # type: ignore[override] - passed on
        self._disk.trace.append(("asked", ""))
        try:
            return super().ask(*arguments, **named)  # type: ignore[arg-type] - passed on
        finally:
            self._disk.trace.append(("answered", ""))


def attacher(root: Path, disk: Disk, pool: ProcessPool) -> Attacher:
    objects = ObjectStore(FilesystemBackend(root, disk), disk)
    return Attacher(objects, disk, AdmissionPolicy.any(), pool)


def put(root: Path, disk: Disk, pool: ProcessPool, data: bytes = PICTURE) -> CommitOutcome:
    return attacher(root, disk, pool).put_bytes(CancelFlag(), data, Claim()).outcome


def calls_of(disk: RecordingDisk) -> list[str]:
    """Without the sync that each handle owes to a shard when it first uses it."""
    return [method for method, name in disk.trace if name != "objects/blake3"]


def objects_in(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "objects").rglob("*") if path.is_file())


def test_bytes_are_synced_while_the_decoder_is_at_work_and_named_after_it(root: Path) -> None:
    disk = RecordingDisk(root)
    pool = Asked(disk)
    try:
        assert put(root, disk, pool) is CommitOutcome.STORED
    finally:
        pool.close()

    calls = calls_of(disk)
    assert calls == ["asked", *STORED[:3], "answered", *STORED[3:]]


def test_what_needs_no_decoder_is_written_once_it_is_admitted(
    root: Path, pool: ProcessPool
) -> None:
    disk = RecordingDisk(root)
    assert put(root, disk, pool, TEXT) is CommitOutcome.STORED
    assert calls_of(disk) == STORED


def test_a_duplicate_is_not_written_ahead(root: Path, pool: ProcessPool) -> None:
    put(root, Disk(), pool)
    disk = RecordingDisk(root)
    assert put(root, disk, pool) is CommitOutcome.DUPLICATE
    assert "write" not in calls_of(disk)


def test_bytes_that_are_refused_leave_nothing(root: Path, pool: ProcessPool) -> None:
    before = open_descriptors()
    with pytest.raises((CorruptImageError, TruncatedImageError)):
        put(root, Disk(), pool, BROKEN)
    assert objects_in(root) == []
    assert list((root / "staging").iterdir()) == []
    assert open_descriptors() <= before


@pytest.mark.parametrize("method", ["open_temporary", "write", "sync_file"])
def test_a_disk_that_fails_meanwhile_is_the_error_and_is_not_tried_again(
    root: Path, pool: ProcessPool, method: str
) -> None:
    """The kernel says OK to a second sync of bytes that it has dropped."""
    disk = FailingDisk(1, methods={method}, error=errno.EIO)
    before = open_descriptors()
    with pytest.raises(StorageIOError):
        put(root, disk, pool)
    assert disk.landed == [method]
    assert disk.calls == 1
    assert objects_in(root) == []
    assert open_descriptors() <= before
    assert pool.pids, "the worker is not to blame"


def test_a_refusal_comes_before_the_disks_failure(root: Path, pool: ProcessPool) -> None:
    """What is wrong with the bytes stays wrong when the disk is mended."""
    disk = FailingDisk(1, methods={"write"})
    with pytest.raises(AdmissionError):
        put(root, disk, pool, BROKEN)
    assert disk.landed == ["write"]


def test_a_caller_that_goes_away_meanwhile_leaves_nothing(root: Path, pool: ProcessPool) -> None:
    cancel = CancelFlag()

    class Leaving(Disk):
        def sync_file(self, descriptor: int) -> None:
            super().sync_file(descriptor)
            cancel.set()

    before = open_descriptors()
    with pytest.raises(Cancelled):
        attacher(root, Leaving(), pool).put_bytes(cancel, PICTURE, Claim())
    assert objects_in(root) == []
    assert open_descriptors() <= before + 2, "a worker's socket, if a new one was started"


def test_a_decoder_that_dies_is_asked_again_and_nothing_is_written_twice(root: Path) -> None:
    pool = ProcessPool(processes_max=1)
    pool.guess(b"\x01\x02", None)

    class Killing(RecordingDisk):
        def write(self, descriptor: int, data: bytes | memoryview, offset_bytes: int) -> int:
            os.kill(first, signal.SIGKILL)
            return super().write(descriptor, data, offset_bytes)

    disk = Killing(root)
    (first,) = pool.pids
    os.kill(first, signal.SIGSTOP)  # it cannot have answered before it is killed
    try:
        assert put(root, disk, pool) is CommitOutcome.STORED
        assert pool.pids != (first,)
    finally:
        pool.close()
    assert calls_of(disk) == STORED
