"""JPEG: marker structure (ITU-T T.81 annex B), and the further pictures of an MPO (CIPA DC-007).

Pillow calls a JPEG whole when its decoder has been fed; that its end-of-image marker is there,
and that nothing is missing before it, is found here.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from attachstore.admission.defect import Broken, Cut, Excess
from attachstore.admission.reading import Reader, read_exactly, size_of

SIGNATURE = b"\xff\xd8\xff"
_SOI, _EOI, _SOS, _APP2 = 0xD8, 0xD9, 0xDA, 0xE2
_STANDALONE = frozenset({0x01, *range(0xD0, 0xD8)})  # TEM, RST0-7: no length follows
_FRAME_HEADERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # SOFn
_METADATA = frozenset({*range(0xE0, 0xF0), 0xFE})  # APPn and COM
BASELINE, EXTENDED, PROGRESSIVE = 0xC0, 0xC1, 0xC2
_SCAN_END = re.compile(rb"\xff[^\x00\x01\xd0-\xd7\xff]", re.DOTALL)
_SEGMENTS_MAX = 10_000
_BLOCK_BYTES = 64 << 10


def header(reader: Reader) -> tuple[int, int] | None:
    """Width and height of the first picture; None if no frame header can be reached."""
    try:
        if reader.read(2) != b"\xff\xd8":
            return None
        for marker, body, _ in _segments(reader):
            if marker in _FRAME_HEADERS:
                return _dimensions(body)
            if marker == _SOS:
                return None
    except (Cut, Broken):
        return None
    return None


def frames(reader: Reader, metadata_bytes_max: int) -> Iterator[tuple[int, int]]:
    """The size of each picture, each checked up to its end-of-image marker. Raises Defect."""
    index: list[tuple[int, int]] = []
    yield from _picture(reader, index, metadata_bytes_max)
    size_bytes = size_of(reader)
    for offset, length in index[1:]:
        if offset + length > size_bytes:
            raise Cut("a further picture of its index (MPO) is missing")
        reader.seek(offset)
        yield from _picture(reader, None, metadata_bytes_max)


def first_end(reader: Reader) -> tuple[int, int]:
    """Offset of the first picture's end-of-image marker, and the marker of its frame header.

    Only for what `frames` has walked before.
    """
    reader.seek(2)
    process = BASELINE
    for marker, _, _ in _segments(reader):
        process = marker if marker in _FRAME_HEADERS else process
        if marker == _SOS:
            _skip_scan(reader)
    return reader.tell() - 2, process


def _picture(
    reader: Reader, index: list[tuple[int, int]] | None, metadata_left: int
) -> Iterator[tuple[int, int]]:
    start = reader.tell()
    if read_exactly(reader, 2, "the start marker") != b"\xff\xd8":
        raise Broken("a picture does not start with a start marker")
    seen_frame = seen_scan = False
    for marker, body, at in _segments(reader):
        if marker in _FRAME_HEADERS:
            size = _dimensions(body)
            if size is None:
                raise Broken("its frame header has no size")
            seen_frame = True
            yield size
        elif marker == _SOS:
            if not seen_frame:
                raise Broken("a scan comes before the frame header")
            seen_scan = True
            _skip_scan(reader)
        metadata_left -= len(body) if marker in _METADATA else 0
        if metadata_left < 0:
            raise Excess("its EXIF, profile and comment segments are larger than is allowed")
        if marker == _APP2 and index is not None and body.startswith(b"MPF\0") and not index:
            index.extend(_pictures(body[4:], at + 4, start))
    if not seen_scan:
        raise Broken("it holds no scan")


def _segments(reader: Reader) -> Iterator[tuple[int, bytes, int]]:
    """Each marker with its segment's body and that body's offset, up to the end-of-image marker."""
    for _ in range(_SEGMENTS_MAX):
        marker = _next_marker(reader)
        if marker == _EOI:
            return
        if marker in _STANDALONE:
            continue
        if marker == _SOI:
            raise Broken("a second picture starts inside the first")
        (length,) = struct.unpack(">H", read_exactly(reader, 2, "a segment"))
        if length < 2:
            raise Broken("a segment has an impossible length")
        at = reader.tell()
        yield marker, read_exactly(reader, length - 2, "a segment"), at
    raise Broken(f"it has more than {_SEGMENTS_MAX} segments")


def _next_marker(reader: Reader) -> int:
    """The next marker's code; bytes that are no marker are skipped, as every decoder does."""
    byte = read_exactly(reader, 1, "its markers (no end-of-image marker)")
    while True:
        if byte != b"\xff":
            _seek_after(reader, b"\xff")
        code = read_exactly(reader, 1, "its markers (no end-of-image marker)")
        while code == b"\xff":  # fill bytes
            code = read_exactly(reader, 1, "its markers (no end-of-image marker)")
        if code != b"\0":
            return code[0]
        byte = code


def _skip_scan(reader: Reader) -> None:
    """Move to the marker that ends the entropy-coded data: any but RSTn and stuffed FF 00."""
    while True:
        block = reader.read(_BLOCK_BYTES)
        found = _SCAN_END.search(block)
        if found is not None:
            reader.seek(found.start() - len(block), 1)
            return
        if len(block) < 2:
            raise Cut("it ends inside its scan (no end-of-image marker)")
        if block.endswith(b"\xff"):
            reader.seek(-1, 1)


def _seek_after(reader: Reader, wanted: bytes) -> None:
    while True:
        block = reader.read(_BLOCK_BYTES)
        if not block:
            raise Cut("it ends without an end-of-image marker")
        found = block.find(wanted)
        if found >= 0:
            reader.seek(found + 1 - len(block), 1)
            return


def _dimensions(body: bytes) -> tuple[int, int] | None:
    """Width and height of a frame header; a height that only a later DNL segment gives is none."""
    if len(body) < 6:
        return None
    height, width = struct.unpack(">HH", body[1:5])
    return (width, height) if width and height else None


def _pictures(tiff: bytes, base: int, start: int) -> list[tuple[int, int]]:
    """(offset, length) of each picture in a Multi-Picture Format index; [] if it is none."""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(tiff[:4])
    if order is None:
        return []
    try:
        (at,) = struct.unpack_from(f"{order}L", tiff, 4)
        (count,) = struct.unpack_from(f"{order}H", tiff, at)
        for entry in range(min(count, 100)):
            tag, _, length, offset = struct.unpack_from(f"{order}HHLL", tiff, at + 2 + 12 * entry)
            if tag == 0xB002:
                entries = struct.iter_unpack(f"{order}LLLHH", tiff[offset : offset + length])
                return [
                    (base + position if position else start, size)
                    for _, size, position, _, _ in entries
                ]
    except struct.error as error:
        raise Broken("its index of further pictures (MPO) is damaged") from error
    return []
