"""An event loop in a thread of its own, and how another thread waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator
from typing import Any, TypeVar, cast

R = TypeVar("R")


class Loop:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="attachstore-loop", daemon=True
        )
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, R]) -> R:
        """Run to the end. KeyboardInterrupt cancels the work, waits for it, and goes on."""
        if not self._thread.is_alive():
            work.close()
            message = "the store is closed, or was opened before os.fork()"
            raise ValueError(message)
        ended = threading.Event()
        tasks: list[asyncio.Task[R]] = []

        def start() -> None:
            tasks.append(self._loop.create_task(work))
            tasks[0].add_done_callback(lambda _: ended.set())

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

    @property
    def closed(self) -> bool:
        return self._loop.is_closed()

    def stop(self) -> None:
        """Safe to repeat; in a forked child there is no thread to stop."""
        if not self.closed and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


_END = object()


async def _next(items: AsyncIterator[object]) -> object:
    return await anext(items, _END)
