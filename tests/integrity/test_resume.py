"""A scan that was interrupted goes on where it stopped, and forgets nothing that it found."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from attachstore.digest import Digest
from attachstore.disk import Disk
from attachstore.errors import AttachstoreError, StorageIOError
from attachstore.integrity import Kind, Phase, Progress, ScanReport, checking
from attachstore.integrity.checkpoint import Checkpoint, Covered, Subject
from attachstore.objects.backend import Entry, EntryKind
from attachstore.objects.memory import MemoryBackend
from attachstore.reference import Reference
from attachstore.threads import Cancelled
from tests.faults import InterceptedDisk, failing_disks
from tests.integrity.workshop import UnsyncedDisk, Workshop, bare, in_memory, look_at

SUBJECT = Subject(store="id-1", root="/store")
OBJECTS = 12


class Interrupted(BaseException):
    """Somebody pressed Ctrl-C."""


@pytest.fixture(autouse=True)
def _each_object_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch for each object, and each is kept: the tests say exactly what is covered."""
    monkeypatch.setattr(checking, "BATCH_OBJECTS_MAX", 1)
    monkeypatch.setattr("attachstore.integrity.coverage.SAVE_INTERVAL_S", 0.0)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "scan.json"


def at(place: Path, disk: Disk | None = None) -> Checkpoint:
    return Checkpoint(place, disk or Disk(), SUBJECT)


def covered_by(place: Path) -> Covered:
    covered = at(place).load()
    assert covered is not None
    return covered


class Watched(MemoryBackend):
    """Knows which objects were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[Digest] = []

    def open(self, digest: Digest, *, fresh: bool = False) -> Any:
        self.opened.append(digest)
        return super().open(digest, fresh=fresh)


@pytest.fixture
def backend() -> Watched:
    return Watched()


@pytest.fixture
def shop(backend: Watched) -> Workshop:
    """Twelve objects, each in a log."""
    shop = Workshop(backend, in_memory().medium)
    shop.log("s-1", *[shop.put(b"object %d" % number) for number in range(OBJECTS)])
    backend.opened.clear()
    return shop


def until(objects: int) -> Callable[[Progress], None]:
    """Interrupts the scan when that many objects have been judged."""

    def progress(now: Progress) -> None:
        if now.phase is Phase.OBJECTS and now.objects_done >= objects:
            raise Interrupted

    return progress


@pytest.fixture(autouse=True)
def _every_step_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attachstore.integrity.progress.INTERVAL_S", 0.0)


def interrupted(shop: Workshop, place: Path, objects: int, **options: Any) -> None:
    with pytest.raises(Interrupted):
        shop.scan(workers=1, checkpoint=at(place), progress=until(objects), **options)


def damage(backend: Watched, index: int) -> Digest:
    """Overwrite the object that comes at that place in the order of digests."""
    digest = sorted(backend.objects)[index]
    backend.objects[digest] = b"bad"
    return digest


def facts(report: ScanReport) -> tuple[Any, ...]:
    found = [(it.kind, it.digest, it.uses, it.quarantined) for it in report.findings]
    return report.objects, report.references, found, len(report.unreferenced)


def test_a_scan_that_ends_leaves_no_checkpoint(shop: Workshop, place: Path) -> None:
    assert shop.scan(checkpoint=at(place)).resumed is None

    assert list(place.parent.iterdir()) == []


@pytest.mark.parametrize("objects", [0, 1, 5, OBJECTS])
def test_an_interrupted_scan_goes_on_with_what_is_not_covered(
    shop: Workshop, backend: Watched, place: Path, objects: int
) -> None:
    whole = facts(shop.scan())
    interrupted(shop, place, objects)
    covered = covered_by(place)
    digests = sorted(backend.objects)
    done = 0 if covered.upto is None else digests.index(covered.upto) + 1
    assert done >= objects - 1, "all but one that ended before its predecessor"
    backend.opened.clear()

    report = shop.scan(checkpoint=at(place))

    assert sorted(set(backend.opened)) == digests[done:], "neither more nor less is read again"
    assert facts(report) == whole
    assert report.resumed is not None
    assert report.resumed.objects == done
    assert not place.exists()


def test_what_could_not_be_listed_is_not_covered(
    shop: Workshop, backend: Watched, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory that could not be listed hides its objects; the scan that goes on sees them."""
    digest = damage(backend, 3)
    entries = backend.entries

    def without() -> Iterator[Entry]:
        yield Entry(kind=EntryKind.UNREADABLE, path="objects/blake3/00", size_bytes=0)
        yield from (entry for entry in entries() if entry.digest != digest)

    with monkeypatch.context() as patched:
        patched.setattr(backend, "entries", without)
        interrupted(shop, place, OBJECTS - 1)

    report = shop.scan(checkpoint=at(place))

    assert [(it.kind, it.digest) for it in report.findings] == [(Kind.OBJECT_CORRUPT, digest)]


def test_a_log_that_is_not_read_mends_nothing(
    shop: Workshop, backend: Watched, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing object is known by the logs that refer to it; it is not back because they fail."""
    digest = sorted(backend.objects)[1]
    del backend.objects[digest]

    def stop(now: Progress) -> None:
        if now.phase is Phase.USES:
            raise Interrupted

    with pytest.raises(Interrupted):
        shop.scan(workers=1, checkpoint=at(place), progress=stop)

    def fail(*_: object) -> Iterator[Any]:
        raise StorageIOError(where="sessions", reason="Input/output error (EIO)")

    monkeypatch.setattr("attachstore.integrity.walk.LogWalk.names", fail)
    report = shop.scan(checkpoint=at(place))

    found = {(it.kind, it.digest) for it in report.findings}
    assert (Kind.DANGLING_REFERENCE, digest) in found
    assert not [note for note in report.notes if note.kind is Kind.MENDED]


def test_a_directory_that_is_not_listed_mends_nothing(
    shop: Workshop, backend: Watched, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its objects are not looked at, where the logs that name them cannot be read either."""
    digest = damage(backend, 1)
    interrupted(shop, place, 6)
    entries = backend.entries

    def without() -> Iterator[Entry]:
        yield Entry(kind=EntryKind.UNREADABLE, path="objects/blake3/00", size_bytes=0)
        yield from (entry for entry in entries() if entry.digest != digest)

    def fail(*_: object) -> Iterator[Any]:
        raise StorageIOError(where="sessions", reason="Input/output error (EIO)")

    monkeypatch.setattr(backend, "entries", without)
    monkeypatch.setattr("attachstore.integrity.walk.LogWalk.names", fail)
    report = shop.scan(checkpoint=at(place))

    assert (Kind.OBJECT_CORRUPT, digest) in {(it.kind, it.digest) for it in report.findings}
    assert not [note for note in report.notes if note.kind is Kind.MENDED]


def test_a_claim_that_did_not_hold_is_not_mended_by_a_log_that_is_not_read(
    shop: Workshop, backend: Watched, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = sorted(backend.objects)[1]
    wrong = Reference(digest=digest, size=1, media_type="text/plain")
    shop.log("s-2", {"wrong": wrong})
    interrupted(shop, place, 6)

    def fail(*_: object) -> Iterator[Any]:
        raise StorageIOError(where="sessions", reason="Input/output error (EIO)")

    monkeypatch.setattr("attachstore.integrity.walk.LogWalk.names", fail)
    report = shop.scan(checkpoint=at(place))

    assert (Kind.HEADER_MISMATCH, digest) in {(it.kind, it.digest) for it in report.findings}
    assert not [note for note in report.notes if note.kind is Kind.MENDED]


def test_what_was_found_before_is_in_the_report_with_all_who_use_it(
    shop: Workshop, backend: Watched, place: Path
) -> None:
    digest = damage(backend, 1)
    interrupted(shop, place, 6)
    shop.log("s-2", {"again": shop.objects_reference(digest)})

    report = shop.scan(checkpoint=at(place))

    (found,) = report.findings
    assert (found.kind, found.digest) == (Kind.OBJECT_CORRUPT, digest)
    assert {use.session for use in found.uses} == {"s-1", "s-2"}
    assert report.objects == OBJECTS


def test_what_was_mended_meanwhile_is_told_as_that(
    shop: Workshop, backend: Watched, place: Path
) -> None:
    """Neither a fault, which it is not any more, nor forgotten."""
    digest = damage(backend, 1)
    interrupted(shop, place, 6)
    backend.objects[digest] = next(
        data
        for data in (b"object %d" % number for number in range(OBJECTS))
        if Digest.of(data) == digest
    )

    report = shop.scan(checkpoint=at(place))

    assert report.clean
    (note,) = report.notes
    assert (note.kind, note.digest) == (Kind.MENDED, digest)
    assert "before the scan was interrupted" in note.what
    assert note.uses_total == 1


def test_what_was_moved_aside_before_stays_one_finding(
    shop: Workshop, backend: Watched, place: Path
) -> None:
    """It is missing now, by our own doing: no second finding says that it dangles."""
    digest = damage(backend, 1)
    interrupted(shop, place, 6, quarantine=True)
    assert digest not in backend.objects

    report = shop.scan(checkpoint=at(place), quarantine=True)

    (found,) = report.findings
    assert (found.kind, found.digest, found.quarantined) == (Kind.OBJECT_CORRUPT, digest, True)
    assert found.uses_total == 1


def test_what_was_moved_aside_beyond_what_is_covered_is_kept_too(
    shop: Workshop, backend: Watched, place: Path
) -> None:
    """Batches end in any order; what was done is kept whatever is covered."""
    digest = damage(backend, OBJECTS - 1)
    interrupted(shop, place, OBJECTS, quarantine=True)
    covered = covered_by(place)
    at(place).save(Covered(started_at=covered.started_at, found=covered.found))

    report = shop.scan(checkpoint=at(place), quarantine=True)

    assert [(it.digest, it.quarantined) for it in report.findings] == [(digest, True)]


def test_new_references_and_objects_are_seen_by_the_scan_that_goes_on(
    shop: Workshop, place: Path
) -> None:
    """Listing and logs are read anew: a reference to nothing is found wherever it is."""
    interrupted(shop, place, 6)
    new = shop.put(b"a new object")
    lost = shop.put(b"a lost object")
    shop.log("s-2", new, lost)
    assert isinstance(shop.backend, MemoryBackend)
    del shop.backend.objects[lost.digest]

    report = shop.scan(checkpoint=at(place))

    assert [(it.kind, it.digest) for it in report.findings] == [
        (Kind.DANGLING_REFERENCE, lost.digest)
    ]
    assert len(report.unreferenced) == 0


def test_it_may_be_interrupted_as_often_as_one_likes(
    shop: Workshop, backend: Watched, place: Path
) -> None:
    damaged = {damage(backend, index) for index in (0, 4, 11)}
    for objects in (2, 3, 5, 7, 7, 9, 12):
        interrupted(shop, place, objects)

    report = shop.scan(checkpoint=at(place))

    assert {it.digest for it in report.findings} == damaged
    assert report.objects == OBJECTS


def test_progress_begins_where_the_earlier_one_stopped(shop: Workshop, place: Path) -> None:
    interrupted(shop, place, 6)
    seen: list[Progress] = []

    shop.scan(checkpoint=at(place), progress=seen.append)

    reading = [now for now in seen if now.phase is Phase.OBJECTS]
    assert reading[0].objects_done >= 5
    assert reading[-1].objects_done == reading[-1].objects_total == OBJECTS
    assert reading[-1].bytes_done <= reading[-1].bytes_total


def test_without_a_checkpoint_nothing_is_kept(shop: Workshop, place: Path) -> None:
    with pytest.raises(Interrupted):
        shop.scan(workers=1, progress=until(3))

    assert list(place.parent.iterdir()) == []


# -- on a disk, killed at any call ---------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Four objects, of which one is corrupt and one is missing."""
    shop = bare(tmp_path / "store")
    references = [shop.put(b"object %d" % number) for number in range(4)]
    shop.log("s-1", references)
    for reference, content in ((references[1], b"bad"), (references[3], None)):
        path = next((tmp_path / "store").rglob(reference.digest.hex))
        path.unlink()
        if content is not None:
            path.write_bytes(content)
    return tmp_path / "store"


def test_a_fault_at_any_call_on_the_checkpoint_costs_no_finding(root: Path, place: Path) -> None:
    """The store's own disk is well; the checkpoint's fails at the first call, the second, ..."""
    expected = facts(look_at(root, Disk()).scan())
    for disk in failing_disks(disk=UnsyncedDisk()):
        try:
            report = look_at(root, Disk()).scan(workers=1, checkpoint=at(place, disk))
        except AttachstoreError:
            assert disk.landed  # it could not be begun, or not be removed
        else:
            assert facts(report) == expected
        disk.heal()

        assert facts(look_at(root, Disk()).scan(checkpoint=at(place))) == expected
        assert list(place.parent.iterdir()) == [root]


class KillingDisk(InterceptedDisk):
    """Ends the process at the n-th call, before it is made: which is after the one before."""

    def __init__(self, at_call: int) -> None:
        super().__init__(UnsyncedDisk())
        self._left = at_call

    def intercept(self, method: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        del method, arguments
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call()


def scan_and_die(root: Path, place: Path, at_call: int) -> bool:
    """Scan in a forked child; return whether it was killed."""
    child = os.fork()
    if child == 0:
        try:
            disk = KillingDisk(at_call)
            look_at(root, disk).scan(workers=1, checkpoint=at(place, disk))
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def test_a_kill_at_any_call_of_the_disk_costs_nothing(root: Path, place: Path) -> None:
    quick = UnsyncedDisk()
    expected = facts(look_at(root, quick).scan())
    kills = 0
    while scan_and_die(root, place, kills + 1):
        kills += 1
        resumed = look_at(root, quick).scan(workers=1, checkpoint=at(place, quick))

        assert facts(resumed) == expected
        assert list(place.parent.iterdir()) == [root], "no checkpoint and no part of one"
    assert kills > 50


SCANNER = """
import sys
from pathlib import Path
from attachstore.disk import Disk
from attachstore.integrity import checking, coverage
from tests.integrity.test_resume import at
from tests.integrity.workshop import look_at
checking.BATCH_OBJECTS_MAX, coverage.SAVE_INTERVAL_S = 1, 0.0
report = look_at(Path(sys.argv[1]), Disk()).scan(checkpoint=at(Path(sys.argv[2])))
print(len(report.findings))
"""


def test_two_processes_that_scan_at_once_do_not_harm_each_other(root: Path, place: Path) -> None:
    """Both go on from the same checkpoint; each reports everything."""
    command = [sys.executable, "-c", SCANNER, str(root), str(place)]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]

    assert [run.communicate()[0] for run in runs] == [b"2\n"] * 2
    assert look_at(root, Disk()).scan(checkpoint=at(place)).counts()[Kind.OBJECT_CORRUPT] == 1
    assert list(place.parent.iterdir()) == [root]


def test_cancellation_keeps_what_is_covered(shop: Workshop, place: Path) -> None:
    """Ctrl-C on the command line reaches the scan as this."""

    def cancel(now: Progress) -> None:
        if now.phase is Phase.OBJECTS and now.objects_done >= 4:
            raise Cancelled

    with pytest.raises(Cancelled):
        shop.scan(workers=1, checkpoint=at(place), progress=cancel)

    assert covered_by(place).upto is not None
