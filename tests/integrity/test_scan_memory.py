"""Memory of a scan: a buffer per thread, whatever the sizes and however many objects."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest

from attachstore.cli.output import compact
from attachstore.digest import Digest
from attachstore.integrity import claims, object_list, report, scratch
from attachstore.integrity.object_list import ObjectList
from attachstore.integrity.progress import Phase, Progress
from attachstore.integrity.report import ScanReport
from attachstore.integrity.scratch import Scratch
from attachstore.objects.backend import Entry, EntryKind
from attachstore.objects.memory import MemoryBackend
from attachstore.sessions.memory import MemoryMedium
from tests.integrity.workshop import Workshop

OBJECT_BYTES_MAX = 20
"""Less than a digest. Here 200 claims, and not thousands, share the 2 KiB that say where they are,
and a hundred objects share a session."""


class Listed(MemoryBackend):
    """Lists without a sorted copy, which would be the backend's memory and not the scan's."""

    def entries(self) -> Iterator[Entry]:
        for digest, data in self.objects.items():
            yield Entry(
                kind=EntryKind.OBJECT, path="", size_bytes=len(data), digest=digest, mode=0o444
            )


def peak_bytes(objects: int, *, referenced: bool) -> int:
    """Of a scan over so many small objects, what the store holds not counted."""
    backend = Listed()
    shop = Workshop(backend, MemoryMedium())
    references = [shop.put(str(number).encode()) for number in range(objects)]
    if referenced:
        for start in range(0, objects, 100):
            shop.log(f"s-{start}", *references[start : start + 100])
    backend.objects = dict(sorted(backend.objects.items()))
    del references
    shop.scan(workers=1)  # whatever is made once is made now
    tracemalloc.start()
    try:
        report = shop.scan(workers=1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert report.clean
    assert report.objects == objects
    return peak


@pytest.fixture
def _little_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the stores of these tests were large: a bound is reached early in both of them."""
    monkeypatch.setattr(claims, "LINES_MAX", 200)
    monkeypatch.setattr(object_list, "_READ_RECORDS", 64)
    monkeypatch.setattr(scratch, "MEMORY_BYTES", 4 << 10)


@pytest.mark.usefixtures("_little_in_memory")
@pytest.mark.parametrize("referenced", [True, False])
def test_further_objects_cost_no_memory(referenced: bool) -> None:
    """Neither those that logs refer to nor those that the report lists."""
    few, many = peak_bytes(500, referenced=referenced), peak_bytes(2500, referenced=referenced)

    assert (many - few) / 2000 < OBJECT_BYTES_MAX


def test_a_report_is_written_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of what nothing refers to is made piece by piece."""
    monkeypatch.setattr(report, "_PART_OBJECTS", 16)

    def peak(objects: int) -> int:
        made = ScanReport(unreferenced=ObjectList(Scratch(memory_bytes=1 << 10)))
        for digest in sorted(Digest.of(str(number).encode()) for number in range(objects)):
            made.unreferenced.append(digest, 5)
        tracemalloc.start()
        try:
            for _ in made.json_parts(compact):
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10)
    assert peak(2500) - peak(500) < 2000 * OBJECT_BYTES_MAX


def test_a_large_object_takes_one_block_per_thread() -> None:
    shop = Workshop(MemoryBackend(), MemoryMedium())
    shop.log("s-1", shop.put(bytes(32 << 20)))
    seen = list[Progress]()
    tracemalloc.start()
    try:
        report = shop.scan(workers=2, progress=seen.append)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert report.bytes_read == 32 << 20
    assert seen[-1].phase is Phase.OBJECTS
    assert peak < 5 << 20
