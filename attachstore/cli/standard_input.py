"""StandardInput: standard input as a stream of blocks that Ctrl-C can end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

_BLOCK_BYTES = 1 << 20
_DESCRIPTOR = 0


class StandardInput:
    """Yields blocks until the end of standard input.

    Waits on the event loop for there to be something to read: a thread blocked in read() could
    not be cancelled, and would hold up the exit until the other side closes the pipe.
    """

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            await _readable()
            block = os.read(_DESCRIPTOR, _BLOCK_BYTES)
            if not block:
                return
            yield block


async def _readable() -> None:
    """Return once a read would not block."""
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
