"""Streams: asynchronous sources on the way in, verified bytes on the way out.

Both hold about 1 MiB at a time, and both do their disk work in the store's threads.
"""

from __future__ import annotations

import asyncio
import inspect
import io
import os
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable
from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

from attachstore.admission.source import Gatherer
from attachstore.attachment import Content
from attachstore.disk import BLOCK_BYTES, storage_errors
from attachstore.errors import AttachstoreError, SourceUnreadableError
from attachstore.objects.store import VerifiedStream
from attachstore.threads import CancelFlag, Worker


@runtime_checkable
class AsyncFile(Protocol):
    """An asynchronous binary file, such as `aiofiles` opens."""

    def read(self, size: int, /) -> Awaitable[bytes]: ...


StreamSource = AsyncIterable[bytes] | AsyncFile | io.IOBase
"""What can be attached as a stream. An `io.IOBase` is read in a thread."""


Source = bytes | bytearray | memoryview | os.PathLike[str] | StreamSource
"""What can be attached: bytes, a path to a file, or a stream."""


BYTES_LIKE = (bytes, bytearray, memoryview)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One item of `attach_many` with what its sender says of it."""

    source: Source
    name: str | None = None
    declared: str | None = None


def check_stream(source: object) -> None:
    """Raises TypeError for what cannot be attached."""
    if not is_stream(source):
        message = f"cannot attach {type(source).__name__}: use bytes, a Path or a stream"
        raise TypeError(message)


def is_stream(source: object) -> bool:
    """Whether `source` can be attached as a stream."""
    return isinstance(source, (io.IOBase, AsyncFile, AsyncIterable))


async def gather(worker: Worker, gatherer: Gatherer, source: StreamSource) -> Content:
    """Read `source` to its end, or to one byte past the limit, into a Content.

    Raises:
        TooManyBytesError: the source has more than the limit; the rest is not read.
        SourceUnreadableError: the source raised; its exception is the cause.
        ResourceExhaustedError: there is no memory for what waits to be written.
        TypeError: it yielded something else than bytes.
    """
    check_stream(source)
    try:
        if isinstance(source, io.IOBase):
            return await worker.hold(_close, _gather_file, gatherer, source)
        with storage_errors("stream"):  # what waits here is memory, too
            waiting = bytearray()
            async for block in _blocks(source):
                waiting += block
                if len(waiting) >= BLOCK_BYTES:
                    await worker.finish(gatherer.write, bytes(waiting))
                    waiting.clear()
            await worker.finish(gatherer.write, bytes(waiting))
        return await worker.hold(_close, lambda _cancel: gatherer.finish())
    except BaseException:
        await worker.let_go(gatherer.discard)
        raise


def _close(content: Content) -> None:
    content.close()


def _gather_file(cancel: CancelFlag, gatherer: Gatherer, source: io.IOBase) -> Content:
    read = getattr(source, "read", None)
    if read is None or isinstance(source, io.TextIOBase):
        message = f"a binary file is needed, not {type(source).__name__}"
        raise TypeError(message)
    while True:
        cancel.check()
        try:
            block = read(BLOCK_BYTES)
        except (TypeError, AttachstoreError):
            raise
        except Exception as error:
            raise _unreadable(source, error) from error
        if block is None:
            raise _no_bytes_yet(source)
        if not block:
            return gatherer.finish()
        gatherer.write(_checked(block))


async def _blocks(source: AsyncIterable[bytes] | AsyncFile) -> AsyncIterator[bytes]:
    """The source's blocks; what the source raises is the source's fault, and says so."""
    try:
        if isinstance(source, AsyncFile):
            while block := await _read(source):
                yield _checked(block)
        else:
            async for block in source:
                yield _checked(block)
    except (TypeError, AttachstoreError):
        raise
    except Exception as error:
        raise _unreadable(source, error) from error


async def _read(source: AsyncFile) -> bytes:
    answer = source.read(BLOCK_BYTES)
    # A file object that is neither io nor async would block the loop; its answer still counts.
    block = await answer if inspect.isawaitable(answer) else cast("bytes | None", answer)
    if block is None:
        raise _no_bytes_yet(source)
    return block


def _no_bytes_yet(source: object) -> SourceUnreadableError:
    """Of a file that is asked without waiting: taken for its end, that would cut it short."""
    return _unreadable(source, BlockingIOError("it is non-blocking, and has no bytes yet"))


def _checked(block: object) -> bytes:
    if not isinstance(block, (bytes, bytearray, memoryview)):
        message = f"a source must yield bytes, not {type(block).__name__}"
        raise TypeError(message)
    return bytes(cast("bytes", block))


def _unreadable(source: object, error: Exception) -> SourceUnreadableError:
    return SourceUnreadableError(
        where=f"stream {type(source).__name__}", reason=f"{type(error).__name__}: {error}"[:300]
    )


class AttachmentStream:
    """Verified bytes of one attachment, a block at a time: `async for block in stream`.

    Everything was verified before the stream was handed out. `size` is in bytes. A read that is
    cancelled takes nothing: the next one goes on where the last that returned has ended.
    """

    def __init__(self, worker: Worker, verified: VerifiedStream) -> None:
        self._worker = worker
        self._verified = verified
        self._blocks: deque[bytes | memoryview] = deque()  # read, and not yet returned
        self._held_bytes = 0
        self._turn = asyncio.Lock()
        self._closed = False

    @property
    def size(self) -> int:
        return self._verified.size

    async def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, all that is left if negative; b"" at the end.

        Raises:
            ObjectCorruptError: the bytes changed after they were verified.
            ValueError: the stream is closed.
        """
        await self._turn.acquire()
        try:
            self._check_open()
            while size < 0 or self._held_bytes < size:
                if not await self._worker.finish(self._pull):
                    break
            self._check_open()  # closed meanwhile, it has ended early
            return self._taken(self._held_bytes if size < 0 else size)
        finally:
            self._turn.release()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while block := await self.read(BLOCK_BYTES):
            yield block

    async def close(self) -> None:
        """Let the object go; safe to repeat."""
        self._closed = True
        self._taken(self._held_bytes)
        await self._worker.let_go(self._verified.close)

    def _check_open(self) -> None:
        if self._closed:
            message = "the stream is closed: read it inside its `async with`"
            raise ValueError(message)

    def _pull(self) -> bool:
        """Hold one more block; False at the end. In a thread, which a cancellation does not end:
        what is read has to be kept here, not returned to whoever has gone."""
        block = self._verified.read_block()
        if block:
            self._blocks.append(block)
            self._held_bytes += len(block)
        return bool(block)

    def _taken(self, size_bytes: int) -> bytes:
        """Up to that many of the bytes that are held."""
        parts: list[bytes | memoryview] = []
        while size_bytes and self._blocks:
            block = self._blocks.popleft()
            if len(block) > size_bytes:
                block = memoryview(block)
                self._blocks.appendleft(block[size_bytes:])
                block = block[:size_bytes]
            parts.append(block)
            size_bytes -= len(block)
            self._held_bytes -= len(block)
        return b"".join(parts)
