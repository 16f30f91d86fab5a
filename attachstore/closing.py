"""Closing a store: in order, once, and with one outcome for everybody who asks."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from attachstore.admission.pool import ProcessPool
from attachstore.objects.store import ObjectStore
from attachstore.sessions.sessions import Sessions
from attachstore.threads import Worker, joined, to_the_end


class Closing:
    """Ends the parts of one store.

    Emitted events are written first, then sessions are released, then objects, threads and worker
    processes. Each step is taken whatever came of the one before it, and the first error raised.
    An interrupt in the middle ends the task that closes, and the loop cancels who waits for it:
    who does goes on with the step that was interrupted. Every step may be taken twice.
    """

    def __init__(
        self, sessions: Sessions, objects: ObjectStore, worker: Worker, pool: ProcessPool | None
    ) -> None:
        async def end_threads() -> None:
            worker.close()

        async def end_processes() -> None:
            if pool is not None:
                pool.close()

        self._left: deque[Callable[[], Awaitable[object]]] = deque(
            (
                lambda: to_the_end(sessions.close_all()),
                lambda: worker.finish(objects.close),
                end_threads,
                end_processes,
            )
        )
        self._work: asyncio.Future[None] | None = None

    async def __call__(self) -> None:
        """Close, or wait for who closes. A caller that is cancelled waits for the end too."""
        try:
            await joined(self._going_on())
        except (KeyboardInterrupt, SystemExit, asyncio.CancelledError):
            if self._left:
                await self()
            raise

    def _going_on(self) -> asyncio.Future[None]:
        """The task that takes the steps; another one if an interrupt has ended it."""
        if self._work is None or (self._left and self._work.done()):
            self._work = asyncio.ensure_future(self._close())
        return self._work

    async def _close(self) -> None:
        """Take the steps that are left. An interrupt may let two of these run side by side."""
        first: BaseException | None = None
        while self._left:
            step = self._left[0]
            try:
                await step()
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - raised below
                first = first or error
            if self._left and self._left[0] is step:
                self._left.popleft()
        if first is not None:
            raise first
