"""PreparedSession: a PreparedLog for asyncio."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from attachstore.sessions.event import SessionView
from attachstore.sessions.log import SessionLog
from attachstore.sessions.prepared import PreparedLog
from attachstore.sessions.session import Session
from attachstore.threads import CancelFlag, Worker


class PreparedSession:
    """A session that is reserved for a resume. Made by `Sessions.prepare`.

    An async context manager: leaving it releases the session, unless it was resumed.
    """

    def __init__(
        self, prepared: PreparedLog, worker: Worker, face: Callable[[SessionLog], Session]
    ) -> None:
        self._prepared = prepared
        self._worker = worker
        self._face = face

    @property
    def view(self) -> SessionView:
        """What the log holds: the resume would move `tail` aside and add `closers`."""
        return self._prepared.view

    async def resume(self, *, close_turn: bool = True) -> Session:
        """Commit the repair, and become the session's writer, as `Sessions.load` does.

        Raises ValueError after a `release`, and UnavailableError.
        """

        def resume(cancel: CancelFlag) -> SessionLog:
            return self._prepared.resume(close_turn=close_turn, cancel=cancel)

        return self._face(await self._worker.hold(SessionLog.close, resume))

    async def release(self) -> None:
        """Let others have the session; nothing was changed. Safe to repeat, and after `resume`."""
        await self._worker.let_go(self._prepared.release)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.release()
