"""A scan beside writers stays clean, whatever they do, and calls nothing missing that is there."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from attachstore.digest import Digest
from attachstore.integrity import Kind, Phase, Progress, ScanReport
from attachstore.objects.backend import Judge, StoredObject
from attachstore.objects.memory import MemoryBackend
from attachstore.sessions.memory import MemoryMedium
from tests.integrity.workshop import Workshop, in_memory, on_disk

WRITERS = 4
SECONDS = 3
ROOT = Path(__file__).parents[2]


def test_scans_beside_four_writing_processes_are_clean(tmp_path: Path) -> None:
    """They put the same contents, append, fork and delete sessions, all of the time."""
    shop = on_disk(tmp_path / "store")
    writers = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.integrity.busy_writer", str(shop_root(shop)), str(n)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for n in range(WRITERS)
    ]
    reports = list[ScanReport]()
    busy_since_s = None
    try:
        while busy_since_s is None or time.monotonic() < busy_since_s + SECONDS:
            reports.append(shop.scan())
            assert reports[-1].findings == []
            if busy_since_s is None and reports[-1].events:
                busy_since_s = time.monotonic()
    finally:
        outputs = [writer.communicate(timeout=60) for writer in writers]

    assert [errors for _, errors in outputs] == [""] * WRITERS
    assert all(int(rounds) > 0 for rounds, _ in outputs)
    noted = {note.kind for report in reports for note in report.notes}
    assert noted <= {Kind.UNCOMMITTED_TAIL, Kind.STALE_STAGING}
    quiet = shop.scan()
    assert (quiet.findings, quiet.notes) == ([], [])
    assert quiet.references > 0


def shop_root(shop: Workshop) -> Path:
    return Path(shop.backend.location)


class Meddled(MemoryBackend):
    """Calls `meddle` with every digest that is opened, before it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = list[Digest]()

    def meddle(self, digest: Digest, times: int) -> None:
        """`times`: how often it has been opened before."""

    def open(self, digest: Digest, *, fresh: bool = False) -> StoredObject:
        self.meddle(digest, self.opened.count(digest))
        self.opened.append(digest)
        return super().open(digest, fresh=fresh)


def meddled(kind: type[Meddled]) -> tuple[Workshop, Meddled]:
    """A shop on a backend that is not meddled with yet: `opened` is empty again."""
    backend = kind()
    return Workshop(backend, MemoryMedium()), backend


def test_an_object_that_is_healed_between_the_readings_is_no_finding() -> None:
    class Healing(Meddled):
        def meddle(self, digest: Digest, times: int) -> None:
            if times == 1:
                self.objects[digest] = b"words"

    shop, backend = meddled(Healing)
    reference = shop.put(b"words")
    shop.log("s-1", reference)
    backend.objects[reference.digest] = b"wordt"
    backend.opened.clear()

    assert shop.scan().clean
    assert len(backend.opened) == 2


def test_bytes_that_read_wrong_once_are_no_finding() -> None:
    """A flipped bit in a cache is not on the disk: the second reading goes past the caches."""

    class Flaky(Meddled):
        def open(self, digest: Digest, *, fresh: bool = False) -> StoredObject:
            self.objects[digest] = b"words" if fresh else b"wordt"
            return super().open(digest, fresh=fresh)

    shop, _ = meddled(Flaky)
    shop.log("s-1", shop.put(b"words"))

    assert shop.scan().clean


@pytest.mark.parametrize("readings", [0, 1])
def test_an_object_that_is_quarantined_by_others_meanwhile_is_told_only_if_it_is_needed(
    readings: int,
) -> None:
    """Before it was read, or between the readings."""

    class Vanishing(Meddled):
        def meddle(self, digest: Digest, times: int) -> None:
            if times == readings:
                self.objects.pop(digest, None)

    for is_needed in (False, True):
        shop, backend = meddled(Vanishing)
        reference = shop.put(b"words")
        if is_needed:
            shop.log("s-1", reference)
        backend.objects[reference.digest] = b"wordt"
        backend.opened.clear()

        report = shop.scan()

        expected = [Kind.DANGLING_REFERENCE] if is_needed else []
        assert [finding.kind for finding in report.findings] == expected
        assert len(report.unreferenced) == 0


def test_quarantine_leaves_alone_what_was_healed_after_the_second_reading() -> None:
    """The lock and one more hash decide, not what the scan saw."""

    class LateHealing(Meddled):
        def quarantine(self, digest: Digest, judge: Judge) -> bool:
            self.objects[digest] = b"words"
            return super().quarantine(digest, judge)

    shop, backend = meddled(LateHealing)
    reference = shop.put(b"words")
    shop.log("s-1", reference)
    backend.objects[reference.digest] = b"wordt"

    assert shop.scan(quarantine=True).clean
    assert backend.moved_aside == []


def test_what_is_attached_after_the_listing_is_checked_all_the_same() -> None:
    """A reference to an object that was not listed is settled by opening it now."""
    shop = in_memory()
    shop.put(b"early")

    def attach(progress: Progress) -> None:
        if progress.phase is Phase.LOGS and not shop.logs.list():
            shop.log("s-1", shop.put(b"late"))

    report = shop.scan(progress=attach)

    assert report.clean
    assert report.objects == 2
    assert [digest for digest, _ in report.unreferenced] == [Digest.of(b"early")]


def test_an_object_attached_after_the_listing_may_be_corrupt() -> None:
    shop = in_memory()
    assert isinstance(shop.backend, MemoryBackend)
    objects = shop.backend.objects

    def attach(progress: Progress) -> None:
        if progress.phase is Phase.LOGS and not shop.logs.list():
            reference = shop.put(b"late")
            shop.log("s-1", reference)
            objects[reference.digest] = b"lazy"

    (finding,) = shop.scan(progress=attach).findings

    assert finding.kind is Kind.OBJECT_CORRUPT


def test_a_fork_made_while_the_logs_are_read_keeps_its_objects_referenced() -> None:
    """Objects are never removed by deleting sessions, so there is nothing to lose."""
    shop = in_memory()
    shop.log("s-1", shop.put(b"words"))

    def fork(progress: Progress) -> None:
        known = [summary.id for summary in shop.logs.list()]
        if progress.phase is Phase.OBJECTS and known == ["s-1"]:
            shop.logs.fork("s-1", id="s-2").close()
            shop.logs.delete("s-1")

    assert shop.scan(progress=fork).clean


def test_content_handed_in_again_heals_what_a_scan_found() -> None:
    shop = in_memory()
    reference = shop.put(b"words")
    shop.log("s-1", reference)
    assert isinstance(shop.backend, MemoryBackend)
    shop.backend.objects[reference.digest] = b"wordt"
    before = shop.scan()
    shop.put(b"words")

    assert not before.clean
    assert shop.scan().clean
