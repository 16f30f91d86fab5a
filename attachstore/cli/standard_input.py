"""Standard input: whether somebody types there, all of it at once, or a stream of blocks."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from typing import TextIO

from attachstore.errors import SourceUnreadableError

_BLOCK_BYTES = 1 << 20
_DESCRIPTOR = 0


def is_terminal() -> bool:
    """Whether there is somebody to ask."""
    stream = _stream()
    return stream is not None and stream.isatty()


def read(size_bytes: int) -> bytes:
    """Up to `size_bytes`; fewer only at the end. Raises SourceUnreadableError if it is closed."""
    stream = _stream()
    if stream is None:
        raise _closed()
    return stream.buffer.read(size_bytes)


def _stream() -> TextIO | None:
    """None if it was closed before Python started."""
    return getattr(sys, "stdin")  # noqa: B009 - typeshed does not know of None


def _closed() -> SourceUnreadableError:
    return SourceUnreadableError(where="standard input", reason="it is closed")


class StandardInput:
    """Yields blocks until the end of standard input. Ctrl-C can end it.

    Waits on the event loop for there to be something to read: a thread blocked in read() could
    not be cancelled, and would hold up the exit until the other side closes the pipe.
    """

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if _stream() is None:  # the descriptor may be another file's by now
            raise _closed()
        while True:
            await _readable()
            block = os.read(_DESCRIPTOR, _BLOCK_BYTES)
            if not block:
                return
            yield block


async def _readable() -> None:
    """Return once a read would not block."""
    import asyncio

    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    try:
        loop.add_reader(_DESCRIPTOR, wake)
    except PermissionError:
        # A regular file cannot be waited for, and never makes anybody wait.
        await asyncio.sleep(0)
        return
    try:
        await ready
    finally:
        loop.remove_reader(_DESCRIPTOR)
