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
import threading
import time
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from attachstore.daemon import insisting
from attachstore.deferred import Deferred
from attachstore.errors import ResourceExhaustedError
from attachstore.thread_pool import Pool, no_threads

P = ParamSpec("P")
R = TypeVar("R")

THREADS_MAX = 16
"""More threads than that gain nothing: a journaled file system groups their syncs at 16 to 32."""


class Cancelled(BaseException):
    """Raised inside a thread whose caller has gone. Never reaches the caller."""


class CancelFlag:
    """Set when the caller was cancelled; long work calls `check` at least every MiB."""

    __slots__ = ("_guard", "_interrupt", "_set")

    def __init__(self) -> None:
        self._set = False
        self._interrupt: Callable[[], object] | None = None
        self._guard = threading.Lock()  # of _interrupt

    @property
    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        with self._guard:
            if self._interrupt is not None:
                self._interrupt()

    @contextlib.contextmanager
    def interrupting(self, interrupt: Callable[[], object]) -> Generator[None]:
        """For work that cannot look itself: while the block runs, `set` calls `interrupt` too.

        From the thread of whoever cancels; one such block at a time. Raises Cancelled.
        """
        with self._guard:
            self._interrupt = interrupt
        try:
            self.check()
            yield
        finally:
            with self._guard:
                self._interrupt = None

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
        self._pool = Pool(name, threads_max)
        self._pid = os.getpid()
        self._closed = False
        weakref.finalize(self, self._pool.end).atexit = False  # see _join_all

    async def finish(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run `function` in a thread; return or raise only after it has ended.

        A cancelled caller gets CancelledError after the end, and may not know whether the work
        succeeded: `function` must be safe to run again.
        """
        return await _ended(self._submit(lambda: function(*args, **kwargs)))

    async def run(
        self,
        function: Callable[Concatenate[CancelFlag, P], R],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Run `function(flag, ...)`; on cancellation set the flag, then wait for the end."""
        flag = CancelFlag()
        return await _ended(self._submit(lambda: function(flag, *args, **kwargs), flag))

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
        work = self._submit(lambda: function(flag, *args, **kwargs), flag)
        try:
            return await _ended(work)
        except asyncio.CancelledError:
            if work.done() and work.exception() is None:
                discard(work.result())
            raise

    @property
    def closed(self) -> bool:
        return self._closed

    def iterate(self, start: Callable[[CancelFlag], Iterator[R]]) -> AsyncGenerator[R]:
        """Yield what the iterator that `start` makes yields, a batch of items per thread hop.

        The iterator is closed in a thread, also when the caller stops early.
        """
        return self.iterate_runs(lambda flag: _runs_of_one(start(flag)))

    async def iterate_runs(
        self, start: Callable[[CancelFlag], Iterator[list[R] | Deferred[R]]]
    ) -> AsyncGenerator[R]:
        """As `iterate`, for an iterator that yields some items at a time: in less time for each.

        What is deferred is made here, in the loop; other tasks get their turn meanwhile.
        """
        flag = CancelFlag()
        runs = await self.finish(start, flag)
        try:
            while True:
                batch, ended = await _ended(self._submit(partial(_pull, runs), flag))
                turn_s = time.monotonic()
                for run in batch:
                    if isinstance(run, Deferred) and time.monotonic() - turn_s >= _TURN_S_MAX:
                        await asyncio.sleep(0)
                        turn_s = time.monotonic()
                    items = _made(run) if isinstance(run, Deferred) else run
                    if items is None:
                        await self._close(runs)
                        runs, ended = cast("Deferred[R]", run).otherwise(), None
                        break
                    for item in items:
                        self._check_open()
                        yield item
                if isinstance(ended, StopIteration):
                    return
                if ended is not None:
                    raise for_callers(ended)
        finally:
            await self._close(runs)

    async def _close(self, iterator: Iterator[object]) -> None:
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
        self._pool.end()
        self._pool.join()

    def _check_open(self) -> None:
        if self._closed:
            message = "the store is closed"
            raise ValueError(message)

    def _submit(self, call: Callable[[], R], flag: CancelFlag | None = None) -> _Work[R]:
        self._check_open()
        if self._pid != os.getpid():
            message = "the store was opened before os.fork(); open it again in the child"
            raise ValueError(message)
        loop = asyncio.get_running_loop()
        work = _Work[R](loop=loop)
        work.flag = flag
        try:
            self._pool.put(_job(call, loop, work))
        except RuntimeError as error:  # "can't start new thread"
            raise no_threads(error) from None
        return work


class _Work(asyncio.Future[R]):
    """The outcome of a job. Its one waiter cannot be cancelled away from it.

    `Task.cancel` asks the future that the task waits for to cancel itself. This one sets the
    job's flag and says no; then asyncio raises CancelledError in the task once the job has ended.
    """

    flag: CancelFlag | None = None

    def cancel(self, msg: object = None) -> bool:
        del msg
        if self.flag is not None and not self.done():
            self.flag.set()
        return False


async def _ended(work: _Work[R]) -> R:
    try:
        return await work
    except asyncio.CancelledError:
        if work.done():
            work.exception()  # mark as seen; the cancellation is what the caller asked for
        raise
    finally:
        del work  # its error's traceback holds this frame


def _job(
    call: Callable[[], R], loop: asyncio.AbstractEventLoop, work: _Work[R]
) -> Callable[[], None]:
    """For a thread: do it, and hand its outcome to the loop."""
    result: list[R] = []
    failure: BaseException | None = None

    def tell() -> None:
        loop.call_soon_threadsafe(_tell, work, result, failure)

    def run() -> None:
        nonlocal failure
        try:
            result.append(call())
        except BaseException as error:  # noqa: BLE001 - raised where the caller waits
            failure = error
        try:  # noqa: SIM105 - a context manager needs memory
            insisting(tell)
        except RuntimeError:  # the loop was closed: nobody waits
            pass
        failure = None  # its traceback holds this frame

    return run


def _tell(work: _Work[R], result: list[R], failure: BaseException | None) -> None:
    if work.done():  # told before: the loop had no memory for the rest of its waking up
        return
    if failure is None:
        work.set_result(result[0])
    else:
        work.set_exception(for_callers(failure))


def for_callers(failure: BaseException) -> BaseException:
    """What a caller is told of what a job raised."""
    if isinstance(failure, MemoryError):
        reason = "allocation failed"
        return ResourceExhaustedError(where="thread pool", resource="memory", reason=reason)
    if isinstance(failure, StopIteration):  # which a future does not take
        return RuntimeError(f"a job raised {failure!r}")
    return failure


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


async def to_the_end(work: Coroutine[Any, Any, R]) -> R:
    """Await `work` to its end, however often the caller is cancelled meanwhile."""
    return await joined(asyncio.get_running_loop().create_task(work))


_BATCH_ITEMS_MAX = 1024
_BATCH_BYTES_MAX = 1 << 20
_BATCH_S_MAX = 0.02
_TURN_S_MAX = 0.01
"""Other tasks wait no longer than that, and one run's making, for their turn."""


def _runs_of_one(items: Iterator[R]) -> Generator[list[R]]:
    try:
        for item in items:
            yield [item]
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()


def _pull(
    runs: Iterator[list[R] | Deferred[R]],
) -> tuple[list[list[R] | Deferred[R]], Exception | None]:
    """Some runs, and what ended the iterator if it ended: items before an error are kept."""
    batch: list[list[R] | Deferred[R]] = []
    count, size_bytes = 0, 0
    deadline_s = time.monotonic() + _BATCH_S_MAX
    try:
        for run in runs:
            batch.append(run)
            if isinstance(run, Deferred):
                count += run.items_max
                size_bytes += run.size_bytes
            else:
                count += len(run)
            full = count >= _BATCH_ITEMS_MAX or size_bytes >= _BATCH_BYTES_MAX
            if full or time.monotonic() >= deadline_s:
                return batch, None
    except Exception as ended:  # noqa: BLE001 - handed to the consumer, after the items
        return batch, ended
    return batch, StopIteration()


def _made(deferred: Deferred[R]) -> list[R] | None:
    try:
        return deferred.make()
    except MemoryError as error:
        raise for_callers(error) from None
