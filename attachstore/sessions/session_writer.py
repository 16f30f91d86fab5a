"""SessionWriter: what a Session and `Sessions` share of one session that is written here.

It joins the log, which blocks, and the queue of emitted events, and says who may write when: an
append and a close go behind what was emitted before them.

Invariants

 (1) `log` is changed and closed only by whoever has the queue's turn, so an attempt never finds
     the log it opened closed under it.
 (2) Once `close` was called nothing new is taken; after it has ended the log is closed, whatever
     the outcome, and each later attempt to write what it left closes it again.
 (3) A writer with events in its queue is in `unsaved`: whoever drops a session does not drop its
     events with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import weakref
from collections.abc import Sequence

from attachstore.arguments import check_int
from attachstore.errors import LogPoisonedError
from attachstore.sessions.attempt import Attempt
from attachstore.sessions.conflict import append_over_conflicts
from attachstore.sessions.draft import Draft
from attachstore.sessions.event import Event
from attachstore.sessions.joined_appends import JoinedAppends
from attachstore.sessions.log import SessionLog, State
from attachstore.sessions.logs import SessionLogs
from attachstore.sessions.write_behind import EmitPolicy, WriteBehind
from attachstore.threads import CancelFlag, Worker, joined

REST_AFTER_S = 1.0
"""Without a write, a log is cut back to what other programs expect of it."""


class SessionWriter:
    def __init__(
        self,
        log: SessionLog,
        logs: SessionLogs,
        worker: Worker,
        *,
        emit: EmitPolicy,
        unsaved: set[SessionWriter],
    ) -> None:
        self.log = log
        self.queue = WriteBehind(
            log.id, self._write, worker=worker, policy=emit, on_queue=self._keep
        )
        self._appends = JoinedAppends(self.queue, worker, self._append, self._is_poisoned)
        self._logs = logs
        self._worker = worker
        self._unsaved = unsaved
        self._closing: asyncio.Task[None] | None = None
        self._released = False
        self._touched_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._resting: asyncio.Task[None] | None = None  # kept, or it might be collected
        self._pid = os.getpid()

    @property
    def id(self) -> str:
        return self.log.id

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closing is not None

    def draft_now(self, type: str, data: object) -> Draft:  # noqa: A002 - as in Session
        """An event to be emitted, if events may be."""
        self._check_open()
        log = self.log
        if self._pid != os.getpid():
            message = "the session was opened before os.fork(); load it again in the child"
            raise ValueError(message)
        if not self.queue.queued:  # else the next write opens the log anew
            if log.state is State.CLOSED:
                raise self._closed()
            if log.state is State.POISONED:
                reason = "an append failed"
                raise LogPoisonedError(where=log.where, session=self.id, reason=reason)
        return log.draft_now(type, data)

    async def admit(self, draft: Draft) -> None:
        log = self.log
        await self.queue.admit(draft, lambda cancel, item: log.confirm([item], cancel))

    async def append(self, drafts: Sequence[Draft], after: int | None) -> list[Event]:
        self._check_open()
        if after is not None:
            check_int("after", after, 0)
        try:
            return await self._appends.append(drafts, after)
        finally:
            self._touch()

    async def adopt(self, other: SessionWriter) -> None:
        self._check_open()
        await self.queue.adopt(other.queue)

    async def close(self) -> None:
        """Write what is queued, release the log. All calls share one outcome."""
        if self._closing is None:
            self.queue.seal()
            work = self.queue.close(self._release)
            self._closing = asyncio.get_running_loop().create_task(work)
        await joined(self._closing)

    async def settle(self) -> None:
        """Close it; if it was closed, try once more to write what that could not."""
        if self._closing is None:
            await self.close()
            return
        await asyncio.wait({self._closing})
        if self.queue.queued:
            await self.queue.drain()

    async def forget(self) -> None:
        """Give up what is queued, and close: the session is deleted."""
        await self.queue.forget()
        await self.close()

    async def _release(self) -> None:
        await self._worker.finish(self.log.close)
        self._released = True

    def _append(
        self, cancel: CancelFlag, drafts: Sequence[Draft], after: int | None
    ) -> list[Event]:
        return append_over_conflicts(
            self._logs, self.log, drafts, after, reopened=self._reopened, cancel=cancel
        )

    def _is_poisoned(self) -> bool:
        return self.log.state is State.POISONED

    def _write(self, attempt: Attempt) -> None:
        """In a thread, one at a time."""
        loaded_since = self._logs.held(self.id) if self._released else None
        try:
            attempt.write(self._logs, self.log, self._reopened)
        finally:
            if self._released and self.log is not loaded_since:
                self.log.close()

    def _reopened(self, log: SessionLog) -> None:
        self.log = log

    def _keep(self, has_events: bool) -> None:
        if has_events:
            self._unsaved.add(self)
        else:
            self._unsaved.discard(self)
            self._touch()

    def _touch(self) -> None:
        """Something was written: once nothing was for a while, the log is let rest."""
        if self.log.is_ready:
            loop = asyncio.get_running_loop()
            self._touched_s = loop.time()
            if self._timer is None:
                self._set_timer(REST_AFTER_S)

    def rest_if_idle(self) -> None:
        """The timer's business."""
        self._timer = None
        loop = asyncio.get_running_loop()
        busy_s = self._touched_s + REST_AFTER_S - loop.time()
        if busy_s > 0:
            self._set_timer(busy_s)
        elif not self.closed:
            self._resting = loop.create_task(self._rest())

    def _set_timer(self, after_s: float) -> None:
        this: weakref.ref[SessionWriter] = weakref.ref(self)  # a timer keeps nobody alive
        self._timer = asyncio.get_running_loop().call_later(after_s, _rest_if_idle, this)

    async def _rest(self) -> None:
        with contextlib.suppress(ValueError):  # the store was closed meanwhile
            await self._worker.finish(self.log.rest)

    def _check_open(self) -> None:
        if self.closed:
            raise self._closed()

    def _closed(self) -> ValueError:
        return ValueError(f"session {self.id!r} is closed")


def _rest_if_idle(writer: weakref.ref[SessionWriter]) -> None:
    there = writer()
    if there is not None:
        there.rest_if_idle()
