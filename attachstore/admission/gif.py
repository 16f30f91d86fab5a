"""GIF (GIF89a specification): every block whole, and the trailer there.

The trailer (one byte, 3B) is required: without it a file cut between two frames could not be
told from a whole one. See docs/decisions/0012-gif-trailer.md.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from attachstore.admission.defect import Broken, Cut, Defect, Excess
from attachstore.admission.reading import Reader, read_exactly

SIGNATURES = (b"GIF87a", b"GIF89a")
_EXTENSION, _IMAGE, _TRAILER = b"!", b",", b";"
_CODE_BITS_MAX = 11
_HEADER_METADATA_BYTES_MAX = 64 << 20


def header(reader: Reader) -> tuple[int, int] | None:
    """The canvas: the logical screen, widened to the first frame where that is larger.

    Screens that are too small, 0x0 even, are common; every viewer shows the frame.
    """
    try:
        width, height = _screen(reader)
        for x, y, frame_width, frame_height in _images(reader, _HEADER_METADATA_BYTES_MAX):
            width, height = max(width, x + frame_width), max(height, y + frame_height)
            return (width, height) if width and height else None
    except Defect:
        return None
    return None


def frames(reader: Reader, metadata_bytes_max: int) -> Iterator[tuple[int, int]]:
    """The canvas as it is when each frame is drawn. Raises Defect."""
    width, height = _screen(reader)
    count = 0
    for x, y, frame_width, frame_height in _images(reader, metadata_bytes_max):
        width, height = max(width, x + frame_width), max(height, y + frame_height)
        if not frame_width or not frame_height:
            raise Broken("a frame has no size")
        count += 1
        yield width, height
    if not count:
        raise Broken("it holds no frame")


def _screen(reader: Reader) -> tuple[int, int]:
    front = read_exactly(reader, 13, "its header")
    if front[:6] not in SIGNATURES:
        raise Broken("the signature is wrong")
    _skip_colours(reader, front[10])
    width, height = struct.unpack("<HH", front[6:10])
    return width, height


def _images(reader: Reader, metadata_left: int) -> Iterator[tuple[int, int, int, int]]:
    """Left, top, width, height of each frame; the data of the last one is walked on demand."""
    while True:
        kind = reader.read(1)
        if kind == _TRAILER:
            return
        if not kind:
            raise Cut("its trailer byte is missing")
        if kind == _EXTENSION:
            read_exactly(reader, 1, "an extension")
            metadata_left -= _skip_blocks(reader)
            if metadata_left < 0:
                raise Excess("its comments and extensions are larger than is allowed")
        elif kind == _IMAGE:
            descriptor = read_exactly(reader, 9, "a frame")
            _skip_colours(reader, descriptor[8])
            if not 0 < read_exactly(reader, 1, "a frame")[0] <= _CODE_BITS_MAX:
                raise Broken("a frame has an impossible code size")
            yield struct.unpack("<HHHH", descriptor[:8])
            _skip_blocks(reader)
        elif kind != b"\0":  # some writers end a block twice
            raise Broken("there is data between its blocks")


def _skip_colours(reader: Reader, flags: int) -> None:
    if flags & 0x80:
        read_exactly(reader, 3 << ((flags & 7) + 1), "a colour table")


def _skip_blocks(reader: Reader) -> int:
    """Move behind a run of blocks; returns how many bytes they hold."""
    skipped = 0
    while True:
        (length,) = read_exactly(reader, 1, "a block")
        if not length:
            return skipped
        skipped += len(read_exactly(reader, length, "a block"))
