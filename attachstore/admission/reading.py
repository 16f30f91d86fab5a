"""Readers for the format modules: seekable, and exact about missing bytes."""

from __future__ import annotations

import io
from typing import BinaryIO, Protocol

from attachstore.admission.defect import Cut

OFFSET_BYTES_MAX = 2**62


class Reader(Protocol):
    """The part of a binary file that parsing needs; what `io.BytesIO` and files are."""

    def read(self, size: int = -1, /) -> bytes: ...
    def seek(self, offset: int, whence: int = 0, /) -> int: ...
    def tell(self) -> int: ...


class _ViewReader:
    """A Reader over a memoryview that does not copy it (`io.BytesIO` would)."""

    def __init__(self, view: memoryview) -> None:
        self._view = view.cast("B")
        self._at = 0

    def read(self, size: int = -1, /) -> bytes:
        end = len(self._view) if size < 0 else min(self._at + size, len(self._view))
        block = bytes(self._view[self._at : end])
        self._at = max(self._at, end)
        return block

    def seek(self, offset: int, whence: int = 0, /) -> int:
        base = (0, self._at, len(self._view))[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at


def reader_of(source: bytes | bytearray | memoryview | BinaryIO | Reader) -> Reader:
    """A Reader at byte 0 of `source`."""
    if isinstance(source, bytes):
        return io.BytesIO(source)
    if isinstance(source, (bytearray, memoryview)):
        return _ViewReader(memoryview(source))
    source.seek(0)
    return source


def seek_to(reader: Reader, offset: int, what: str) -> None:
    """Move to an offset that the bytes themselves give. Raises Cut, if no file is so long."""
    if offset > OFFSET_BYTES_MAX:
        raise Cut(f"{what} is missing")
    reader.seek(offset)


def read_exactly(reader: Reader, size: int, what: str) -> bytes:
    """`size` bytes. Raises Cut."""
    data = reader.read(size)
    if len(data) != size:
        raise Cut(f"it ends inside {what}")
    return data


def size_of(reader: Reader) -> int:
    """In bytes; the position is kept."""
    at = reader.tell()
    size = reader.seek(0, 2)
    reader.seek(at)
    return size
