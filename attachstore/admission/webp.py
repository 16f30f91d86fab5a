"""WebP (RFC 9649): the RIFF length, every chunk inside it, every frame."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from attachstore.admission.defect import Broken, Cut, Excess
from attachstore.admission.reading import Reader, read_exactly, size_of

_ANIMATED = 0x02
_PICTURES = frozenset({b"VP8 ", b"VP8L"})
_METADATA = frozenset({b"ICCP", b"EXIF", b"XMP "})


def header(reader: Reader) -> tuple[int, int] | None:
    """Width and height of the canvas; None if the first chunk says neither."""
    front = reader.read(30)
    if len(front) < 25 or front[:4] != b"RIFF" or front[8:12] != b"WEBP":
        return None
    return _size(front[12:16], front[20:])


def frames(reader: Reader, metadata_bytes_max: int) -> Iterator[tuple[int, int]]:
    """The canvas once for each frame. Raises Defect."""
    front = read_exactly(reader, 12, "its header")
    if front[:4] != b"RIFF" or front[8:] != b"WEBP":
        raise Broken("the signature is wrong")
    end = 8 + int.from_bytes(front[4:8], "little")
    if end > size_of(reader):
        raise Cut("it is shorter than its RIFF length")
    canvas, animated = _canvas(reader)
    seen_picture = False
    for kind, length, at in _chunks(reader, 12, end):
        if kind == b"ANMF":
            seen_picture = True
            _check_frame(reader, at, length, canvas)
            yield canvas
        elif kind in _PICTURES and not animated:
            seen_picture = True
            if _size(kind, read_exactly(reader, min(length, 10), "a chunk")) != canvas:
                raise Broken("its picture and its canvas differ in size")
            yield canvas
        elif kind in _METADATA:
            metadata_bytes_max -= length
            if metadata_bytes_max < 0:
                raise Excess("its profile and EXIF chunks are larger than is allowed")
    if not seen_picture:
        raise Broken("it holds no picture")


def _canvas(reader: Reader) -> tuple[tuple[int, int], bool]:
    """The size in the first chunk, and whether that says it is an animation."""
    head = read_exactly(reader, 18, "its first chunk")
    size = _size(head[:4], head[8:])
    if size is None:
        raise Broken("its first chunk holds no size")
    return size, head[:4] == b"VP8X" and bool(head[8] & _ANIMATED)


def _check_frame(reader: Reader, at: int, length: int, canvas: tuple[int, int]) -> None:
    """An animation frame: inside the canvas, and of the size it says."""
    reader.seek(at)
    body = read_exactly(reader, min(length, 16), "a frame")
    if len(body) < 16:
        raise Broken("a frame has no header")
    x, y, width, height = (int.from_bytes(body[i : i + 3], "little") for i in (0, 3, 6, 9))
    size = (width + 1, height + 1)
    if 2 * x + size[0] > canvas[0] or 2 * y + size[1] > canvas[1]:
        raise Broken("a frame lies outside the canvas")
    for kind, inner, _ in _chunks(reader, at + 16, at + length):
        if kind in _PICTURES:
            if _size(kind, read_exactly(reader, min(inner, 10), "a frame")) != size:
                raise Broken("a frame is not of the size it says")
            return
    raise Broken("a frame holds no picture")


def _chunks(reader: Reader, at: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Kind, length and offset of each chunk; the reader stands at its first byte."""
    while at < end:
        reader.seek(at)
        head = read_exactly(reader, 8, "a chunk")
        length = int.from_bytes(head[4:], "little")
        if at + 8 + length > end:
            raise Cut("a chunk is longer than what encloses it")
        yield head[:4], length, at + 8
        at += 8 + length + (length & 1)


def _size(kind: bytes, body: bytes) -> tuple[int, int] | None:
    """Width and height as the first chunk says: VP8X, VP8 (RFC 6386 9.1) or VP8L."""
    if kind == b"VP8X" and len(body) >= 10:
        return (
            1 + int.from_bytes(body[4:7], "little"),
            1 + int.from_bytes(body[7:10], "little"),
        )
    if kind == b"VP8 " and len(body) >= 10 and body[3:6] == b"\x9d\x01\x2a":
        width, height = struct.unpack("<HH", body[6:10])
        return (width & 0x3FFF, height & 0x3FFF) if width and height else None
    if kind == b"VP8L" and len(body) >= 5 and body[0] == 0x2F:
        bits = int.from_bytes(body[1:5], "little")
        return (bits & 0x3FFF) + 1, ((bits >> 14) & 0x3FFF) + 1
    return None
