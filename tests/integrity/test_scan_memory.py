"""Memory of a scan: an array entry per object and a buffer per thread, whatever the sizes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

from attachstore.integrity.progress import Phase, Progress
from attachstore.objects.backend import Entry, EntryKind
from attachstore.objects.memory import MemoryBackend
from attachstore.sessions.memory import MemoryMedium
from tests.integrity.workshop import Workshop

OBJECT_BYTES_MAX = 80
"""50 in arrays that grow ahead of need, and room for what the interpreter keeps."""


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


def test_each_further_object_costs_less_than_a_python_object() -> None:
    """Referenced by a log: what it is said to be takes memory too."""
    few, many = peak_bytes(500, referenced=True), peak_bytes(2500, referenced=True)

    assert (many - few) / 2000 < OBJECT_BYTES_MAX


def test_an_unreferenced_object_costs_one_array_entry_more() -> None:
    """It is in the report, where a million of them must fit too."""
    few, many = peak_bytes(500, referenced=False), peak_bytes(2500, referenced=False)

    assert (many - few) / 2000 < OBJECT_BYTES_MAX + 50


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
