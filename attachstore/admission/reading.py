"""Readers for the format modules: seekable, and exact about missing bytes."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Generator
from typing import BinaryIO, Protocol

from attachstore.admission.defect import Cut
from attachstore.attachment import BytesContent, Content
from attachstore.disk import BLOCK_BYTES
from attachstore.threads import CancelFlag

OFFSET_BYTES_MAX = 2**62
_BUFFER_BYTES = 64 << 10


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


class SplicedReader:
    """`reader` with some bytes put in at an offset; nothing is copied."""

    def __init__(self, reader: Reader, offset: int, inserted: bytes) -> None:
        self._reader = reader
        self._start, self._inserted = offset, inserted
        self._at = 0

    def read(self, size: int = -1, /) -> bytes:
        parts: list[bytes] = []
        left = size if size >= 0 else OFFSET_BYTES_MAX
        while left:
            block = self._read_part(left)
            if not block:
                break
            parts.append(block)
            left -= len(block)
            self._at += len(block)
        return b"".join(parts)

    def _read_part(self, size: int) -> bytes:
        end = self._start + len(self._inserted)
        if self._start <= self._at < end:
            return self._inserted[self._at - self._start :][:size]
        if self._at < self._start:
            self._reader.seek(self._at)
            return self._reader.read(min(size, self._start - self._at))
        self._reader.seek(self._at - len(self._inserted))
        return self._reader.read(min(size, BLOCK_BYTES))

    def seek(self, offset: int, whence: int = 0, /) -> int:
        end = size_of(self._reader) + len(self._inserted) if whence == 2 else 0
        self._at = max(0, (0, self._at, end)[whence] + offset)
        return self._at

    def tell(self) -> int:
        return self._at


class DescriptorReader(io.RawIOBase):
    """Reads a descriptor by offsets, whatever position others leave it at; closes it."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override] - a narrower buffer
        got = os.preadv(self._descriptor, [buffer], self._at)
        self._at += got
        return got

    def seek(self, offset: int, whence: int = 0, /) -> int:
        base = (0, self._at, os.fstat(self._descriptor).st_size if whence == 2 else 0)[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()


class _Watched(io.RawIOBase):
    """Between the bytes and whoever reads them: us, Pillow or qpdf.

    Looks at the cancel flag before each block, and remembers a failure of the medium, which
    libraries swallow or take for damage.
    """

    def __init__(self, inner: io.BufferedIOBase, cancel: CancelFlag | None) -> None:
        super().__init__()
        self._inner = inner
        self._cancel = cancel
        self.fault: Exception | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override] - a narrower buffer
        if self._cancel is not None:
            self._cancel.check()
        try:
            block = self._inner.read(min(len(buffer), BLOCK_BYTES))
        except Exception as error:
            self.fault = error
            raise
        buffer[: len(block)] = block
        return len(block)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._inner.seek(offset, whence)

    def tell(self) -> int:
        return self._inner.tell()

    def close(self) -> None:
        self._inner.close()
        super().close()


@contextlib.contextmanager
def open_content(content: Content, cancel: CancelFlag | None) -> Generator[io.BufferedIOBase]:
    """A reader at byte 0; a long one gives up, with Cancelled, when its caller has gone.

    If the medium failed, that is what is raised at the end, whatever became of it in between.
    """
    if type(content) is BytesContent and (cancel is None or content.size <= BLOCK_BYTES):
        yield content.open()
        return
    watched = _Watched(content.open(), cancel)
    with io.BufferedReader(watched, _BUFFER_BYTES) as reader:
        try:
            yield reader
        except Exception:
            if watched.fault is not None:
                raise watched.fault from None
            raise
        if watched.fault is not None:
            raise watched.fault


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
