"""PNG and APNG (W3C PNG, third edition): every checksum, every row, and the end chunk.

Pillow checks none of them while it decodes. Data is inflated here only to count its bytes; no
more than the pixels need is ever held.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from attachstore.admission.defect import Broken, Cut, Excess
from attachstore.admission.reading import Reader, read_exactly

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_ADAM7 = (
    (0, 0, 8, 8),
    (4, 0, 8, 8),
    (0, 4, 4, 8),
    (2, 0, 4, 4),
    (0, 2, 2, 4),
    (1, 0, 2, 2),
    (0, 1, 1, 2),
)
_BLOCK_BYTES = 64 << 10
_CHUNK_BYTES_MAX = 2**31 - 1
_HEADER_BYTES = 13


def header(reader: Reader) -> tuple[int, int] | None:
    """Width and height; None if there is no whole IHDR."""
    front = reader.read(33)
    if len(front) < 33 or front[:8] != SIGNATURE or front[8:16] != b"\0\0\0\rIHDR":
        return None
    width, height = struct.unpack(">LL", front[16:24])
    return (width, height) if 0 < width < 2**31 and 0 < height < 2**31 else None


class _Raster:
    """Counts the bytes that a run of IDAT or fdAT chunks inflates to."""

    def __init__(self, size: tuple[int, int], depth: int, colour: int, interlaced: bool) -> None:
        self._missing = _raster_bytes(size, depth * _CHANNELS[colour], interlaced)
        self._inflate = zlib.decompressobj()
        self.seen = False

    def feed(self, data: bytes) -> None:
        self.seen = True
        try:
            while data and not self._inflate.eof and self._missing > 0:
                self._missing -= len(self._inflate.decompress(data, _BLOCK_BYTES))
                data = self._inflate.unconsumed_tail
            if data and not self._inflate.eof and self._missing <= 0:
                # All rows are there; what follows is the stream's own end and checksum.
                self._inflate.decompress(data, 1024)
        except zlib.error as error:
            raise Broken(f"its compressed data is damaged ({error})") from error

    def finish(self) -> None:
        """Raises Cut, if rows are missing."""
        while self._missing > 0:  # output that the last piece of input did not have room for
            rest = self._inflate.decompress(b"", _BLOCK_BYTES)
            if not rest:
                break
            self._missing -= len(rest)
        if self._missing > 0:
            raise Cut("its compressed data ends before the last row")


def frames(reader: Reader, metadata_bytes_max: int) -> Iterator[tuple[int, int]]:
    """The canvas once for each picture, each counted up to its last row. Raises Defect."""
    if read_exactly(reader, 8, "the signature") != SIGNATURE:
        raise Broken("the signature is wrong")
    walk = _Walk(reader, metadata_bytes_max)
    yield from walk.pictures()


class _Walk:
    """One pass over the chunks."""

    def __init__(self, reader: Reader, metadata_bytes_max: int) -> None:
        self._reader = reader
        self._metadata_left = metadata_bytes_max
        self._raster: _Raster | None = None
        self._sequence = 0
        self._seen_pixels = self._seen_control = False
        self._animated = 0
        self._controls = 0

    def pictures(self) -> Iterator[tuple[int, int]]:
        kind, length = self._chunk_head()
        if kind != b"IHDR" or length != _HEADER_BYTES:
            raise Broken("it does not start with an IHDR chunk")
        size, self._format = self._header(self._body(kind, length))
        yield size
        while True:
            kind, length = self._chunk_head()
            if kind == b"IEND":
                self._body(kind, length)
                break
            if kind == b"fcTL":
                # The first one, in front of the pixels, is about the picture already counted.
                counted = not self._controls and not self._seen_pixels
                self._control(self._body(kind, length), size)
                if not counted:
                    yield size
            else:
                self._chunk(kind, length, size)
        self._finish_raster()
        if not self._seen_pixels:
            raise Broken("it holds no pixel data (IDAT)")
        if self._animated and self._controls != self._animated:
            raise Cut(f"{self._controls} of {self._animated} frames are there")

    def _chunk(self, kind: bytes, length: int, size: tuple[int, int]) -> None:
        if kind == b"IDAT":
            self._pixels(kind, length, size)
        elif kind == b"fdAT":
            self._frame_data(kind, length)
        elif kind == b"acTL":
            self._animated = int.from_bytes(self._body(kind, length)[:4], "big")
        else:
            self._metadata(kind, length)

    def _header(self, body: bytes) -> tuple[tuple[int, int], tuple[int, int, bool]]:
        width, height, depth, colour, compression, filtering, interlace = struct.unpack(
            ">LLBBBBB", body
        )
        if not 0 < width < 2**31 or not 0 < height < 2**31:
            raise Broken("its header has no size")
        if depth not in _DEPTHS.get(colour, ()) or compression or filtering or interlace > 1:
            raise Broken("its header names a pixel format that does not exist")
        return (width, height), (depth, colour, bool(interlace))

    def _pixels(self, kind: bytes, length: int, size: tuple[int, int]) -> None:
        if self._raster is None:
            if self._seen_pixels:
                raise Broken("its pixel data is not in one piece")
            self._raster = _Raster(size, *self._format)
        self._seen_pixels = True
        for block in self._blocks(kind, length):
            self._raster.feed(block)

    def _frame_data(self, kind: bytes, length: int) -> None:
        if self._raster is None or not self._animated:
            raise Broken("frame data comes without its control chunk")
        number = b""
        for block in self._blocks(kind, length):
            wanted = 4 - len(number)
            number += block[:wanted]
            self._raster.feed(block[wanted:])
        self._count(number)

    def _control(self, body: bytes, canvas: tuple[int, int]) -> None:
        self._finish_raster()
        if len(body) != 26:
            raise Broken("a frame control chunk has the wrong length")
        self._count(body[:4])
        self._controls += 1
        width, height, x, y = struct.unpack(">LLLL", body[4:20])
        if not width or not height or x + width > canvas[0] or y + height > canvas[1]:
            raise Broken("a frame lies outside the canvas")
        if self._seen_pixels:
            self._raster = _Raster((width, height), *self._format)

    def _count(self, number: bytes) -> None:
        if int.from_bytes(number, "big") != self._sequence:
            raise Broken("frames are missing or out of order")
        self._sequence += 1

    def _finish_raster(self) -> None:
        if self._raster is not None:
            if self._animated and not self._raster.seen:
                raise Cut("a frame has no pixel data")
            self._raster.finish()
        self._raster = None

    def _metadata(self, kind: bytes, length: int) -> None:
        """Profiles and texts: bounded, decompressed too, but not kept."""
        if kind[:1].isupper() and kind != b"PLTE":
            raise Broken(f"it needs an unknown chunk {kind.decode('ascii')}")
        self._spend(length)
        body = self._body(kind, length)
        compressed = _compressed_part(kind, body)
        if not compressed:
            return
        inflate = zlib.decompressobj()
        try:
            while compressed and not inflate.eof:
                self._spend(len(inflate.decompress(compressed, _BLOCK_BYTES)))
                compressed = inflate.unconsumed_tail
        except zlib.error:
            return  # a text or profile that does not unpack costs no pixel

    def _spend(self, size_bytes: int) -> None:
        self._metadata_left -= size_bytes
        if self._metadata_left < 0:
            raise Excess("its text and profile chunks unpack to more than is allowed")

    def _chunk_head(self) -> tuple[bytes, int]:
        head = self._reader.read(8)
        if len(head) < 8:
            raise Cut("its end chunk (IEND) is missing")
        (length,), kind = struct.unpack(">L", head[:4]), head[4:]
        if not (kind.isalpha() and kind.isascii()):
            if not any(head):
                raise Cut("its end is filled with zeros")
            raise Broken("a chunk has no name")
        if length > _CHUNK_BYTES_MAX:
            raise Broken("a chunk has an impossible length")
        return kind, length

    def _body(self, kind: bytes, length: int) -> bytes:
        return b"".join(self._blocks(kind, length))

    def _blocks(self, kind: bytes, length: int) -> Iterator[bytes]:
        """The chunk's data in pieces, its checksum compared at the end."""
        name = kind.decode("ascii")
        checksum = zlib.crc32(kind)
        while length:
            block = read_exactly(self._reader, min(length, _BLOCK_BYTES), f"its {name} chunk")
            checksum = zlib.crc32(block, checksum)
            length -= len(block)
            yield block
        if int.from_bytes(read_exactly(self._reader, 4, f"its {name} chunk"), "big") != checksum:
            raise Broken(f"the checksum of its {name} chunk is wrong")


def _raster_bytes(size: tuple[int, int], bits_per_pixel: int, interlaced: bool) -> int:
    """Bytes of all rows, one filter byte each."""
    width, height = size
    if not interlaced:
        return height * (1 + (width * bits_per_pixel + 7) // 8)
    total = 0
    for x, y, step_x, step_y in _ADAM7:
        columns = (width - x + step_x - 1) // step_x
        rows = (height - y + step_y - 1) // step_y
        if columns > 0 and rows > 0:
            total += rows * (1 + (columns * bits_per_pixel + 7) // 8)
    return total


def _compressed_part(kind: bytes, body: bytes) -> bytes:
    """What of a text or profile chunk is a zlib stream."""
    _, separator, rest = body.partition(b"\0")
    if not separator:
        return b""
    if kind in {b"zTXt", b"iCCP"}:
        return rest[1:]
    if kind == b"iTXt" and rest[:1] == b"\1":
        return rest[2:].split(b"\0", 2)[-1]
    return b""
