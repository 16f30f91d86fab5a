"""BMP: the header's many versions, and whether all rows are there."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from attachstore.admission.defect import Broken, Cut
from attachstore.admission.reading import Reader, size_of

_HEADER_SIZES = frozenset({12, 16, 40, 52, 56, 64, 108, 124})
_DEPTHS = frozenset({1, 2, 4, 8, 16, 24, 32})
_UNCOMPRESSED = frozenset({0, 3, 6})  # BI_RGB, BI_BITFIELDS, BI_ALPHABITFIELDS


def header(reader: Reader) -> tuple[int, int] | None:
    """Width and height (a negative height means top-down); None if this is no BMP header."""
    parsed = _parse(reader.read(34))
    return None if parsed is None else parsed[:2]


def frames(reader: Reader, _metadata_bytes_max: int) -> Iterator[tuple[int, int]]:
    """The one picture. Raises Defect."""
    front = reader.read(34)
    parsed = _parse(front)
    if parsed is None:
        raise Broken("its header names a picture that does not exist")
    width, height, depth, compression = parsed
    yield width, height
    if compression in _UNCOMPRESSED:
        (offset,) = struct.unpack("<L", front[10:14])
        row_bytes = (width * depth + 31) // 32 * 4
        if offset + row_bytes * height > size_of(reader):
            raise Cut("rows are missing at its end")


def _parse(front: bytes) -> tuple[int, int, int, int] | None:
    """Width, height, bits per pixel, compression."""
    if len(front) < 26 or front[:2] != b"BM":
        return None
    (header_size,) = struct.unpack("<L", front[14:18])
    if header_size not in _HEADER_SIZES:
        return None
    if header_size == 12:
        width, height, planes, depth = struct.unpack("<HHHH", front[18:26])
        compression = 0
    elif len(front) < 34:
        return None
    else:
        width, height, planes, depth, compression = struct.unpack("<llHHL", front[18:34])
    height = abs(height)
    known = planes == 1 and (depth in _DEPTHS or (depth == 0 and compression in {4, 5}))
    return (width, height, depth, compression) if known and width > 0 and height > 0 else None
