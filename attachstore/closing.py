"""Closing a store: in order, once, and with one outcome for everybody who asks."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from attachstore.admission.pool import ProcessPool
from attachstore.objects.store import ObjectStore
from attachstore.sessions.sessions import Sessions
from attachstore.threads import Worker, joined, to_the_end


class Closing:
    """Ends the parts of one store.

    Emitted events are written first, then sessions are released, then objects, threads and worker
    processes. Each step is taken whatever came of the one before it, and the first error raised.
    """

    def __init__(
        self, sessions: Sessions, objects: ObjectStore, worker: Worker, pool: ProcessPool | None
    ) -> None:
        self._sessions = sessions
        self._objects = objects
        self._worker = worker
        self._pool = pool
        self._work: asyncio.Future[None] | None = None

    async def __call__(self) -> None:
        """Close, or wait for who closes. A caller that is cancelled waits for the end too."""
        if self._work is None:
            self._work = asyncio.ensure_future(self._close())
        await joined(self._work)

    async def _close(self) -> None:
        async with AsyncExitStack() as last:  # the last of these first
            if self._pool is not None:
                last.callback(self._pool.close)
            last.callback(self._worker.close)
            last.push_async_callback(self._worker.finish, self._objects.close)
            await to_the_end(self._sessions.close_all())
