"""Worker: blocking work in the store's own threads, never abandoned halfway.

Two kinds of work. A critical section (`finish`) runs to its end whatever happens to the caller.
Long work (`run`) is handed a CancelFlag, looks at it at least every MiB, and gives up by raising
`Cancelled`. In both cases the caller gets its answer, or its CancelledError, only after the
thread has ended, so that no lock is released and no file closed under a live writer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Concatenate, ParamSpec, TypeVar

from attachstore.errors import ResourceExhaustedError

P = ParamSpec("P")
R = TypeVar("R")

THREADS_MAX = 16
"""More threads than that gain nothing: a journaled file system groups their syncs at 16 to 32."""


class Cancelled(BaseException):
    """Raised inside a thread whose caller has gone. Never reaches the caller."""


class CancelFlag:
    """Set when the caller was cancelled; long work calls `check` at least every MiB."""

    __slots__ = ("_set",)

    def __init__(self) -> None:
        self._set = False

    def set(self) -> None:
        self._set = True

    def check(self) -> None:
        """Raises Cancelled, if the caller has gone."""
        if self._set:
            raise Cancelled


class Worker:
    """A bounded pool of threads of its own, never the event loop's default executor.

    Threads start when first needed. After `os.fork()` the child's copy is dead: its threads
    exist in the parent only, so every use raises ValueError.
    """

    def __init__(self, name: str, threads_max: int = THREADS_MAX) -> None:
        self._executor = ThreadPoolExecutor(threads_max, thread_name_prefix=name)
        self._pid = os.getpid()
        self._closed = False

    async def finish(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run `function` in a thread; return or raise only after it has ended.

        A cancelled caller gets CancelledError after the end, and may not know whether the work
        succeeded: `function` must be safe to run again.
        """
        return await self._settle(self._submit(lambda: function(*args, **kwargs)), None)

    async def run(
        self,
        function: Callable[Concatenate[CancelFlag, P], R],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Run `function(flag, ...)`; on cancellation set the flag, then wait for the end."""
        flag = CancelFlag()
        return await self._settle(self._submit(lambda: function(flag, *args, **kwargs)), flag)

    async def hold(
        self,
        discard: Callable[[R], None],
        function: Callable[Concatenate[CancelFlag, P], R],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """As `run`, for results that hold a descriptor or a lock.

        A caller that was cancelled in the last moment never sees the result: `discard` lets it
        go.
        """
        flag = CancelFlag()
        work = self._submit(lambda: function(flag, *args, **kwargs))
        try:
            return await self._settle(work, flag)
        except asyncio.CancelledError:
            if not work.cancelled() and work.exception() is None:
                discard(work.result())
            raise

    @property
    def closed(self) -> bool:
        return self._closed

    async def iterate(self, start: Callable[[CancelFlag], Iterator[R]]) -> AsyncGenerator[R]:
        """Yield what the iterator that `start` makes yields, a batch of items per thread hop.

        The iterator is closed in a thread, also when the caller stops early.
        """
        flag = CancelFlag()
        iterator = await self.finish(start, flag)
        try:
            while True:
                batch, ended = await self._settle(self._submit(lambda: _pull(iterator)), flag)
                for item in batch:
                    yield item
                if isinstance(ended, StopIteration):
                    return
                if ended is not None:
                    raise ended
        finally:
            close = getattr(iterator, "close", None)
            if close is not None:
                await self.let_go(close)

    async def let_go(self, release: Callable[[], object]) -> None:
        """As `finish`, for giving back what is held: a closed worker does not refuse it.

        Its threads have ended by then, so nothing else uses what is given back.
        """
        if self._closed:
            release()
        else:
            await self.finish(release)

    def close(self) -> None:
        """Wait for running work, end the threads. Safe to repeat, and in a forked child."""
        self._closed = True
        if self._pid == os.getpid():
            self._executor.shutdown(wait=True)

    def _submit(self, call: Callable[[], R]) -> asyncio.Future[R]:
        if self._closed:
            message = "the store is closed"
            raise ValueError(message)
        if self._pid != os.getpid():
            message = "the store was opened before os.fork(); open it again in the child"
            raise ValueError(message)
        try:
            return asyncio.wrap_future(self._executor.submit(call))
        except RuntimeError as error:  # "can't start new thread"
            raise ResourceExhaustedError(
                where="thread pool", resource="threads", reason=str(error)
            ) from None

    async def _settle(self, work: asyncio.Future[R], flag: CancelFlag | None) -> R:
        return await joined(work, None if flag is None else flag.set)


async def joined(work: asyncio.Future[R], on_cancel: Callable[[], None] | None = None) -> R:
    """Wait for `work`; cancelled, call `on_cancel` and wait for the end of it all the same."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if on_cancel is not None:
            on_cancel()
        # Never `work.cancel()`: a job still in the queue would be dropped while its caller's
        # clean-up relies on its having run.
        while not work.done():
            with contextlib.suppress(asyncio.CancelledError):  # cancelled again: keep waiting
                await asyncio.wait([work])
        if not work.cancelled():
            work.exception()  # mark as seen; the cancellation is what the caller asked for
        raise


_BATCH_ITEMS_MAX = 256
_BATCH_S_MAX = 0.02


def _pull(iterator: Iterator[R]) -> tuple[list[R], Exception | None]:
    """Some items, and what ended the iterator if it ended: items before an error are kept."""
    batch: list[R] = []
    deadline_s = time.monotonic() + _BATCH_S_MAX
    while len(batch) < _BATCH_ITEMS_MAX and time.monotonic() < deadline_s:
        try:
            batch.append(next(iterator))
        except Exception as ended:  # noqa: BLE001 - handed to the consumer, after the items
            return batch, ended
    return batch, None
