"""Zstandard frames: a sealed log's bytes, in pieces that can be found and checked one by one.

    frame that was packed: [header with content size][blocks][end, checksum]
    frame that was written: [header][flushed blocks of each append][end, checksum][trailer]

Each frame holds whole lines, about 1 MiB of them, and says how much it holds: in its header, or,
where that was not known when it was begun, in a trailer, a skippable frame of 24 bytes. So any
offset of the log is found without unpacking what lies before it, a changed byte is noticed, and
`zstd -dc` of the file is the log. Frames are walked by their headers (RFC 8878, section 3.1).

A frame that does not say what it holds has not ended: what lies from it on is the loose end of
the file (loose_end.py).
"""

from __future__ import annotations

import contextlib
import re
import struct
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType

from attachstore.errors import MissingDependencyError

CONTENT_BYTES = 1 << 20
"""A frame ends with the line that reaches this."""

MAGIC = b"\x28\xb5\x2f\xfd"
HEADER_BYTES_MAX = 18
BLOCK_BYTES_MAX = 128 << 10
CHECKSUM_BYTES = 4

TRAILER = struct.Struct("<4sIQQ")  # magic, bytes that follow, content of the frame, its own size
_TRAILER_MAGIC = b"\x5b\x2a\x4d\x18"  # one of those that decoders skip
_BLOCK_HEADER_BYTES = 3
_RLE, _RESERVED = 1, 3  # block types
_LOOK_BYTES = 4 << 10  # read at once: many headers of small blocks, or one of a big one
_WINDOW_LOG = 20  # a frame is not longer; by default each writer would take twice the memory

_STARVED = re.compile("allocat|not enough memory|to create ZSTD", re.IGNORECASE)

Read = Callable[[int, int], bytes]
"""Bytes of the file: offset and size in, up to that many out."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a frame lies in the file, its trailer included, and how much it holds."""

    offset_bytes: int
    size_bytes: int
    content_bytes: int
    is_packed: bool
    """Whether it was made in one piece."""

    @property
    def end_bytes(self) -> int:
        return self.offset_bytes + self.size_bytes


def library() -> ModuleType:
    """Python's Zstandard module. Raises MissingDependencyError."""
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd  # noqa: PLC0415 - most stores have no sealed logs
        else:
            from backports import zstd  # noqa: PLC0415 - most stores have no sealed logs
    except ImportError:
        raise MissingDependencyError(
            where="sealed session logs",
            package="backports.zstd",
            reason="Python has Zstandard itself from 3.14 on",
            command='pip install "attachstore[zstd]"',
        ) from None
    return zstd


@contextlib.contextmanager
def memory_errors() -> Generator[None]:
    """Turn the library's errors that tell of no memory into MemoryError.

    It has one class for all: taken for damage, they would accuse good bytes, or cut them off.
    """
    try:
        yield
    except library().ZstdError as error:
        if _STARVED.search(str(error)):
            raise MemoryError(str(error)) from error
        raise


def compress(content: Iterable[bytes]) -> Iterator[bytes]:
    """Packed frames that hold `content`, cut at line ends. Raises MissingDependencyError."""
    zstd = library()
    options = {
        zstd.CompressionParameter.checksum_flag: 1,
        zstd.CompressionParameter.content_size_flag: 1,
    }
    held = bytearray()
    for block in content:
        held += block
        end = held.rfind(b"\n") + 1
        if end >= CONTENT_BYTES:
            with memory_errors():
                frame = zstd.compress(bytes(held[:end]), options=options)
            yield frame
            del held[:end]
    if held:
        with memory_errors():
            frame = zstd.compress(bytes(held), options=options)
        yield frame


class FrameWriter:
    """A frame in the making. Raises MissingDependencyError."""

    def __init__(self) -> None:
        zstd = library()
        options = {
            zstd.CompressionParameter.checksum_flag: 1,
            zstd.CompressionParameter.window_log: _WINDOW_LOG,
        }
        with memory_errors():
            self._compressor = zstd.ZstdCompressor(options=options)
        self.content_bytes = 0
        self._frame_bytes = 0

    def add(self, content: bytes) -> bytes:
        """What to write for `content`: with it in the file, all of `content` can be unpacked."""
        with memory_errors():
            written: bytes = self._compressor.compress(content, self._compressor.FLUSH_BLOCK)
        self.content_bytes += len(content)
        self._frame_bytes += len(written)
        return written

    def end(self) -> bytes:
        """The frame's end and trailer; nothing is added after it."""
        with memory_errors():
            ending: bytes = self._compressor.flush(self._compressor.FLUSH_FRAME)
        size_bytes = self._frame_bytes + len(ending)
        rest_bytes = TRAILER.size - 8
        return ending + TRAILER.pack(_TRAILER_MAGIC, rest_bytes, self.content_bytes, size_bytes)


def decompress(stored: bytes, content_bytes: int) -> bytes | None:
    """What a frame holds that says `content_bytes`; None if it is damaged or holds another sum."""
    zstd = library()
    try:
        with memory_errors():
            unpacker = zstd.ZstdDecompressor()
            content: bytes = unpacker.decompress(stored, content_bytes + 1)
    except zstd.ZstdError:
        return None
    return content if unpacker.eof and len(content) == content_bytes else None


def walk(read: Read, offset_bytes: int, size_bytes: int) -> Iterator[Frame]:
    """The frames of a file from `offset_bytes` on, up to the first that has not ended."""
    look = _buffered(read)
    while offset_bytes < size_bytes:
        frame = _frame_at(look, offset_bytes, size_bytes)
        if frame is None:
            return
        yield frame
        offset_bytes = frame.end_bytes


def header_bytes(head: bytes) -> int:
    """How long a frame's header is that begins with `head`, at least 5 bytes."""
    return _header(head)[0]


def blocks(read: Read, offset_bytes: int, size_bytes: int) -> Iterator[tuple[int, bool]]:
    """Where each whole block ends, from the first at `offset_bytes` on, and whether it is the last.

    Ends before a block that is cut, or no block.
    """
    is_last = False
    while not is_last:
        head = read(offset_bytes, _BLOCK_HEADER_BYTES)
        value = int.from_bytes(head, "little")
        is_last, kind, block_bytes = bool(value & 1), value >> 1 & 3, value >> 3
        offset_bytes += _BLOCK_HEADER_BYTES + (1 if kind == _RLE else block_bytes)
        is_cut = len(head) < _BLOCK_HEADER_BYTES or offset_bytes > size_bytes
        if is_cut or kind == _RESERVED or block_bytes > BLOCK_BYTES_MAX:
            return
        yield offset_bytes, is_last


def end_of_blocks(read: Read, offset_bytes: int, size_bytes: int) -> tuple[int, bool]:
    """Where the last whole block ends, and whether it says that it is the last."""
    end, has_end = offset_bytes, False
    for end, has_end in blocks(read, offset_bytes, size_bytes):  # noqa: B007 - the last counts
        pass
    return end, has_end


def _frame_at(read: Read, offset_bytes: int, size_bytes: int) -> Frame | None:
    head = read(offset_bytes, HEADER_BYTES_MAX)
    if len(head) <= len(MAGIC) or not head.startswith(MAGIC):
        return None
    length, content_bytes, has_checksum = _header(head)
    position, has_end = end_of_blocks(read, offset_bytes + length, size_bytes)
    end = position + (CHECKSUM_BYTES if has_checksum else 0)
    if not has_end or end > size_bytes:
        return None
    if content_bytes is not None:
        return Frame(offset_bytes, end - offset_bytes, content_bytes, is_packed=True)
    trailer = read(end, TRAILER.size)
    if len(trailer) < TRAILER.size:
        return None
    magic, rest_bytes, content_bytes, frame_bytes = TRAILER.unpack(trailer)
    if (magic, rest_bytes) != (_TRAILER_MAGIC, TRAILER.size - 8) or frame_bytes != (
        end - offset_bytes
    ):
        return None
    return Frame(offset_bytes, frame_bytes + TRAILER.size, content_bytes, is_packed=False)


def _header(head: bytes) -> tuple[int, int | None, bool]:
    """Length of the frame's header, what the frame holds, and whether a checksum follows it."""
    descriptor = head[4]
    is_single = bool(descriptor & 0x20)
    dictionary_bytes = (0, 1, 2, 4)[descriptor & 3]
    field_bytes = (int(is_single), 2, 4, 8)[descriptor >> 6]
    start = 5 + (0 if is_single else 1) + dictionary_bytes
    field = head[start : start + field_bytes]
    content_bytes = int.from_bytes(field, "little") + (256 if field_bytes == 2 else 0)  # noqa: PLR2004 - RFC 8878, 3.1.1.1.4
    return start + field_bytes, content_bytes if field_bytes else None, bool(descriptor & 4)


def _buffered(read: Read) -> Read:
    held, held_at = b"", 0

    def look(offset_bytes: int, size_bytes: int) -> bytes:
        nonlocal held, held_at
        start = offset_bytes - held_at
        if start < 0 or start + size_bytes > len(held):
            held, held_at, start = read(offset_bytes, _LOOK_BYTES), offset_bytes, 0
        return held[start : start + size_bytes]

    return look
