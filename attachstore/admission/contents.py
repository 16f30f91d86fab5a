"""Opening content for those who decode it: cancellable, and honest about a failing medium."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Generator

from attachstore.attachment import BytesContent, Content
from attachstore.disk import BLOCK_BYTES
from attachstore.threads import CancelFlag

_BUFFER_BYTES = 64 << 10


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
