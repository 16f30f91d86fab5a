"""An event loop in a thread of its own, and how another thread waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator
from typing import Any, TypeVar, cast

from attachstore.daemon import daemon_thread
from attachstore.errors import ResourceExhaustedError

R = TypeVar("R")


class Loop:
    """An event loop in a daemon thread, for calls from any number of others.

    Raises ResourceExhaustedError if there is no thread for it.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()  # whoever has queued work before the end gets its outcome
        self._stopped = False
        self._loop = asyncio.new_event_loop()
        try:
            self._thread = daemon_thread(self._loop.run_forever, "attachstore-loop")
        except RuntimeError as error:
            self._loop.close()
            raise ResourceExhaustedError(
                where="event loop", resource="threads", reason=str(error)
            ) from None

    def wait(self, work: Coroutine[Any, Any, R]) -> R:
        """Run to the end. KeyboardInterrupt cancels the work, waits for it, and goes on."""
        ended = threading.Event()
        tasks: list[asyncio.Task[R]] = []

        def start() -> None:
            tasks.append(self._loop.create_task(work))
            tasks[0].add_done_callback(lambda _: ended.set())

        with self._guard:
            if self._stopped or not self._thread.is_alive():
                work.close()
                message = "the store is closed, or was opened before os.fork()"
                raise ValueError(message)
            self._loop.call_soon_threadsafe(start)
        try:
            ended.wait()
        except BaseException:  # KeyboardInterrupt; `start` has been queued before this
            self._loop.call_soon_threadsafe(lambda: tasks[0].cancel())  # noqa: PLW0108
            ended.wait()  # nothing of the call is still running when the caller goes on
            raise
        return tasks[0].result()

    def each(self, items: AsyncIterator[R]) -> Generator[R]:
        try:
            while (item := self.wait(_next(items))) is not _END:
                yield cast("R", item)
        finally:
            if isinstance(items, AsyncGenerator):
                self.wait(items.aclose())

    def stop(self) -> None:
        """Let all work end, then the thread; safe to repeat. A forked child has none to stop."""
        with self._guard:
            if self._stopped:
                return
            self._stopped = True
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(_others_ended(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


async def _others_ended() -> None:
    """The store is closed, so what is still at it is about to be told. Readers let go."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)
    await asyncio.get_running_loop().shutdown_asyncgens()


_END = object()


async def _next(items: AsyncIterator[object]) -> object:
    return await anext(items, _END)
