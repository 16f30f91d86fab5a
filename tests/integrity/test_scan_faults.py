"""A scan on a disk that fails: what did not answer is unreadable, never corrupt, never missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from attachstore.disk import Disk
from attachstore.errors import ResourceExhaustedError
from attachstore.integrity import Kind
from tests.faults import READS, FailingDisk, failing_disks
from tests.integrity.workshop import bare, look_at, png

UNREADABLE = {Kind.OBJECT_UNREADABLE, Kind.LOG_UNREADABLE, Kind.DIRECTORY_UNREADABLE}
ASKING = READS | {"open_read", "open_directory"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three objects, one of them larger than a block, and two sessions."""
    shop = bare(tmp_path / "store")  # each directory more would be a hundred runs more
    references = [shop.put(b"words"), shop.put(png(), "image/png"), shop.put(bytes(1_500_000))]
    shop.log("s-1", references)
    shop.log("s-2", references[0], "no reference")
    return tmp_path / "store"


def test_one_failing_call_is_reported_as_unreadable_and_the_rest_is_checked(root: Path) -> None:
    """Fail the first question to the disk, then the second, and so on."""
    for disk in failing_disks(methods=ASKING):
        report = look_at(root, disk).scan(workers=1)

        kinds = {finding.kind for finding in report.findings}
        assert kinds <= UNREADABLE
        assert len(report.findings) <= bool(disk.landed)
        # A question that was asked twice was answered the second time: nothing is unknown.
        assert report.findings or (report.objects, report.events) == (3, 3)
        assert report.notes == []
        if len(report.unreferenced):
            assert not report.logs_complete


def test_a_disk_that_fails_from_some_call_on_never_makes_a_scan_accuse(root: Path) -> None:
    """A disk that dies in the middle: everything after is unknown, and said to be."""
    for disk in failing_disks(methods=ASKING, sticky=True):
        report = look_at(root, disk).scan(workers=1)

        assert {finding.kind for finding in report.findings} <= UNREADABLE
        assert report.clean is not bool(disk.landed)


def test_short_reads_are_read_on(root: Path) -> None:
    for disk in failing_disks(methods={"read_into"}, effect="short"):
        assert look_at(root, disk).scan(workers=1).clean


def test_an_error_after_half_a_read_is_unreadable(root: Path) -> None:
    for disk in failing_disks(methods={"read_into"}, effect="half"):
        report = look_at(root, disk).scan(workers=1)

        assert {finding.kind for finding in report.findings} <= UNREADABLE
        assert report.clean is not bool(disk.landed)


def test_damage_is_still_found_on_a_disk_that_failed_elsewhere(root: Path) -> None:
    """And an unreadable object names the events that need it, as a corrupt one does."""
    (path,) = [path for path in (root / "objects").rglob("*") if path.is_file()][:1]
    path.chmod(0o644)
    path.write_bytes(b"bad")
    path.chmod(0o444)
    unreadable = 0
    for fail_at in range(1, 60):
        disk = FailingDisk(fail_at, methods={"read_into"})
        report = look_at(root, disk).scan(workers=1)

        kinds = [finding.kind for finding in report.findings]
        if Kind.OBJECT_UNREADABLE in kinds:
            unreadable += 1
            assert all(finding.uses for finding in report.findings if finding.digest)
        assert kinds.count(Kind.OBJECT_CORRUPT) == 1 or Kind.OBJECT_UNREADABLE in kinds
    assert unreadable > 0


def test_a_scan_whose_thread_dies_ends(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python lets one die that finds no memory at the wrong moment; its batch never ends."""

    def unseen(_: object) -> None:
        """Else pytest warns of it."""

    def dies(_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("threading.excepthook", unseen)
    monkeypatch.setattr("attachstore.thread_pool.insisting", dies)

    with pytest.raises(ResourceExhaustedError, match="a thread died"):
        look_at(root, Disk()).scan(workers=1)
