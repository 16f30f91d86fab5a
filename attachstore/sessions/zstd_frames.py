"""Zstandard frames: a sealed log's bytes, in pieces that can be found and checked one by one.

Each frame holds whole lines, about 1 MiB of them, and says how much it holds; checksums are on.
So any offset of the log is found without unpacking what lies before it, a changed byte is noticed,
and `zstd -dc` of the file is the log. Frames are walked by their headers (RFC 8878, section 3.1).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType

from attachstore.errors import MissingDependencyError

CONTENT_BYTES = 1 << 20
"""A frame ends with the line that reaches this."""

_MAGIC = b"\x28\xb5\x2f\xfd"
_HEADER_BYTES_MAX = 18
_BLOCK_HEADER_BYTES = 3
_RLE, _RESERVED = 1, 3  # block types
_FEED_BYTES = 4 << 10  # how finely a damaged frame is salvaged

Read = Callable[[int, int], bytes]
"""Bytes of the file: offset and size in, up to that many out."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a frame lies in the file. `content_bytes` None: it does not say."""

    offset_bytes: int
    size_bytes: int
    content_bytes: int | None
    has_end: bool
    is_frame: bool = True


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


def compress(content: Iterable[bytes]) -> Iterator[bytes]:
    """Frames that hold `content`, cut at line ends. Raises MissingDependencyError."""
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
            yield zstd.compress(bytes(held[:end]), options=options)
            del held[:end]
    if held:
        yield zstd.compress(bytes(held), options=options)


def decompress(frame: bytes) -> bytes | None:
    """What a frame with its end holds; None if it is damaged."""
    zstd = library()
    try:
        return zstd.decompress(frame)
    except zstd.ZstdError:
        return None


def salvage(frame: bytes) -> bytes:
    """What comes out of a frame before it ends or fails, in whole blocks."""
    zstd = library()
    unpacker = zstd.ZstdDecompressor()
    found: list[bytes] = []
    for start in range(0, len(frame), _FEED_BYTES):
        try:
            found.append(unpacker.decompress(frame[start : start + _FEED_BYTES]))
        except (zstd.ZstdError, EOFError):
            break
    return b"".join(found)


def walk(read: Read, size_bytes: int) -> Iterator[Frame]:
    """The frames of a file; after one without an end, or no frame at all, nothing follows."""
    offset_bytes = 0
    while offset_bytes < size_bytes:
        frame = _frame_at(read, offset_bytes, size_bytes)
        yield frame
        if not frame.has_end:
            return
        offset_bytes += frame.size_bytes


def _frame_at(read: Read, offset_bytes: int, size_bytes: int) -> Frame:
    rest_bytes = size_bytes - offset_bytes
    head = read(offset_bytes, _HEADER_BYTES_MAX)
    if head[: len(_MAGIC)] != _MAGIC[: len(head)]:
        return Frame(offset_bytes, rest_bytes, None, has_end=False, is_frame=False)
    if len(head) <= len(_MAGIC):
        return Frame(offset_bytes, rest_bytes, None, has_end=False)
    header_bytes, content_bytes, has_checksum = _header(head)
    position = offset_bytes + header_bytes
    is_last = False
    while not is_last:
        block = read(position, _BLOCK_HEADER_BYTES)
        value = int.from_bytes(block, "little")
        is_last, kind, block_bytes = bool(value & 1), value >> 1 & 3, value >> 3
        position += _BLOCK_HEADER_BYTES + (1 if kind == _RLE else block_bytes)
        if len(block) < _BLOCK_HEADER_BYTES or kind == _RESERVED or position > size_bytes:
            return Frame(offset_bytes, rest_bytes, content_bytes, has_end=False)
    end = position + (4 if has_checksum else 0)
    return Frame(offset_bytes, end - offset_bytes, content_bytes, has_end=end <= size_bytes)


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
