"""TIFF 6.0 and BigTIFF: the directories, and whether the strips and tiles they name are there."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from attachstore.admission.defect import Broken, Cut
from attachstore.admission.reading import Reader, seek_to, size_of

_WIDTH, _HEIGHT = 0x100, 0x101
_DATA = ((0x111, 0x117), (0x144, 0x145))  # strips, tiles: offsets and byte counts
_KINDS = {1: "B", 3: "H", 4: "L", 13: "L", 16: "Q"}
_SIGNATURES = {
    b"II*\0": ("<", False),
    b"MM\0*": (">", False),
    b"II+\0": ("<", True),
    b"MM\0+": (">", True),
}
_DIRECTORIES_MAX = 100_000
_VALUES_MAX = 1_000_000


def header(reader: Reader) -> tuple[int, int] | None:
    """Width and height as stored, whatever the orientation tag says; None if there are none."""
    try:
        for values in _directories(reader, (_WIDTH, _HEIGHT)):
            return _size(values)
    except (Cut, Broken):
        return None
    return None


def frames(reader: Reader, _metadata_bytes_max: int) -> Iterator[tuple[int, int]]:
    """The size of each page. Raises Defect."""
    wanted = (_WIDTH, _HEIGHT, *(tag for pair in _DATA for tag in pair))
    size_bytes = size_of(reader)
    for values in _directories(reader, wanted):
        size = _size(values)
        if size is None:
            raise Broken("a page has no size")
        yield size
        for offsets, counts in _DATA:
            for offset, count in zip(values.get(offsets, ()), values.get(counts, ()), strict=False):
                if offset + count > size_bytes:
                    raise Cut("the data of a page is missing")


@dataclass(frozen=True, slots=True)
class _Layout:
    """How numbers are written: byte order, and the widths of TIFF or BigTIFF."""

    order: str
    big: bool

    def unpack(self, kind: str, data: bytes) -> tuple[int, ...]:
        try:
            return struct.unpack(self.order + kind, data)
        except struct.error as error:
            raise Cut("a directory is missing") from error

    @property
    def offset(self) -> str:
        return "Q" if self.big else "L"


def _directories(reader: Reader, wanted: tuple[int, ...]) -> Iterator[dict[int, tuple[int, ...]]]:
    """The wanted tags of each directory in turn."""
    front = reader.read(16)
    if front[:4] not in _SIGNATURES:
        raise Broken("the signature is wrong")
    layout = _Layout(*_SIGNATURES[front[:4]])
    (at,) = layout.unpack(layout.offset, front[8:16] if layout.big else front[4:8])
    seen: set[int] = set()
    while at:
        if at in seen or len(seen) >= _DIRECTORIES_MAX:
            raise Broken("its directories form a loop")
        seen.add(at)
        values, at = _directory(reader, layout, at, wanted)
        yield values
    if not seen:
        raise Broken("it holds no page")


def _directory(
    reader: Reader, layout: _Layout, at: int, wanted: tuple[int, ...]
) -> tuple[dict[int, tuple[int, ...]], int]:
    entry_bytes, count_bytes = (20, 8) if layout.big else (12, 2)
    seek_to(reader, at, "a directory")
    (count,) = layout.unpack("Q" if layout.big else "H", reader.read(count_bytes))
    if count > 65535:
        raise Broken("a directory has an impossible length")
    entries = reader.read(count * entry_bytes)
    (following,) = layout.unpack(layout.offset, reader.read(8 if layout.big else 4))
    values: dict[int, tuple[int, ...]] = {}
    for start in range(0, len(entries), entry_bytes):
        entry = entries[start : start + entry_bytes]
        (tag,) = layout.unpack("H", entry[:2])
        if tag in wanted:
            values[tag] = _values(reader, layout, entry)
    return values, following


def _values(reader: Reader, layout: _Layout, entry: bytes) -> tuple[int, ...]:
    (kind,) = layout.unpack("H", entry[2:4])
    (count,) = layout.unpack(layout.offset, entry[4:12] if layout.big else entry[4:8])
    field = entry[12:20] if layout.big else entry[8:12]
    code = _KINDS.get(kind)
    if code is None or count > _VALUES_MAX:
        raise Broken("a directory entry has an impossible type or length")
    length = struct.calcsize(f"{layout.order}{count}{code}")
    if length > len(field):
        (at,) = layout.unpack(layout.offset, field)
        seek_to(reader, at, "a directory entry")
        field = reader.read(length)
    return layout.unpack(f"{count}{code}", field[:length])


def _size(values: dict[int, tuple[int, ...]]) -> tuple[int, int] | None:
    width, height = values.get(_WIDTH, ()), values.get(_HEIGHT, ())
    if len(width) != 1 or len(height) != 1 or not width[0] or not height[0]:
        return None
    return width[0], height[0]
