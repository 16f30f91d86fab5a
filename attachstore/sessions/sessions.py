"""Sessions and Session: the asynchronous face of session logs, `store.sessions`.

Every method runs one blocking function in the store's threads. Appends to one session go in the
order in which they were called; each event is encoded at the call, so that what the caller does
to its data afterwards changes nothing.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

from attachstore.reference import Reference
from attachstore.sessions.draft import Draft
from attachstore.sessions.event import (
    Event,
    RepairReport,
    SessionHeader,
    SessionSummary,
    SessionView,
)
from attachstore.sessions.log import SessionLog
from attachstore.sessions.logs import SessionLogs
from attachstore.sessions.reading import Damaged
from attachstore.threads import CancelFlag, Worker


class HasReference(Protocol):
    """What committing an attachment returns."""

    @property
    def reference(self) -> Reference: ...


class Put(Protocol):
    """`Store.put`, as far as sessions need it."""

    def __call__(
        self, source: Any, *, name: str | None = None, declared: str | None = None
    ) -> Awaitable[HasReference]: ...


class Session:
    """A session that this store writes to. Made by `Sessions`.

    Holds the session's lock from `load`, or from the first append after `create` and `fork`,
    until it is closed. An async context manager: leaving it closes the session.
    """

    def __init__(self, log: SessionLog, worker: Worker, put: Put) -> None:
        self._log = log
        self._worker = worker
        self._put = put
        self._order = asyncio.Lock()

    @property
    def id(self) -> str:
        return self._log.id

    @property
    def header(self) -> SessionHeader:
        return self._log.header

    @property
    def head(self) -> int:
        """`seq` of the newest acknowledged event; 0 if there is none."""
        return self._log.head

    @property
    def head_chain(self) -> str:
        """The chain at the head, 32 hex digits: equal chains at one `seq`, equal histories."""
        return self._log.head_chain

    async def append(
        self,
        type: str,  # noqa: A002 - the name of the field
        data: object,
        *,
        after: int | None = None,
    ) -> Event:
        """Add one event; it is durable on return. `data` is any JSON value, with references.

        `after` says which `seq` the caller believes to be the head. To retry after a
        CancelledError without writing twice, give the head from before the first try.

        Raises:
            InvalidEventError, EventTooLargeError: it cannot be written exactly.
            DanglingReferenceError, HeaderMismatchError: a reference in it is not what the
                store holds.
            SequenceConflictError: the head is not at `after`.
            LogPoisonedError: an earlier append failed; load the session again.
            UnavailableError: the medium failed; whether the event is there, a load will show.
        """
        events = await self._append([self._log.draft(type, data)], after)
        return events[0]

    async def append_many(
        self, events: Iterable[tuple[str, object]], *, after: int | None = None
    ) -> list[Event]:
        """Add (type, data) pairs as one contiguous batch with one sync. Raises as `append`."""
        return await self._append([self._log.draft(*event) for event in events], after)

    async def attach(
        self,
        source: Any,
        *,
        type: str = "attachment",  # noqa: A002 - as in `append`
        name: str | None = None,
        declared: str | None = None,
        after: int | None = None,
    ) -> Event:
        """Commit an attachment and append the event `{"file": reference}`.

        Raises as `Store.attach` and `append`. If the append fails, the object stays,
        unreferenced.
        """
        committed = await self._put(source, name=name, declared=declared)
        return await self.append(type, {"file": committed.reference}, after=after)

    async def close(self) -> None:
        """Let other writers have the session. Waits for a running append. Safe to repeat."""
        await self._worker.finish(self._log.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _append(self, drafts: Sequence[Draft], after: int | None) -> list[Event]:
        async with self._order:  # threads would take turns in any order

            def append(cancel: CancelFlag) -> list[Event]:
                return self._log.append_drafts(drafts, after=after, cancel=cancel)

            return await self._worker.run(append)


class Sessions:
    """The sessions of a store."""

    def __init__(self, logs: SessionLogs, worker: Worker, put: Put) -> None:
        self._logs = logs
        self._worker = worker
        self._put = put
        self._sessions: weakref.WeakValueDictionary[SessionLog, Session] = (
            weakref.WeakValueDictionary()
        )
        self._loading: Counter[str] = Counter()

    async def create(
        self,
        session_id: str,
        *,
        meta: Mapping[str, Any] | None = None,
        cwd: str | Path | None = None,
    ) -> Session:
        """Reserve a new session; its log appears with the first append.

        `meta` is plain JSON, its `title` is shown in listings; `cwd` defaults to the process's
        working directory. Raises SessionExistsError, InvalidSessionIdError, InvalidEventError.
        """

        def create(_: CancelFlag) -> SessionLog:
            return self._logs.create(session_id, meta=meta, cwd=cwd)

        return self._session(await self._worker.hold(SessionLog.close, create))

    async def load(self, session_id: str, *, close_turn: bool = True) -> Session:
        """Resume a session: settle what a crash left, take the writer's lock.

        An uncommitted tail is moved aside. With `close_turn` a turn that was left open is closed
        by a `turn/end` event. Reads and checks the whole log. A session that this store holds
        already is returned as it is, the same object.

        Raises SessionMissingError, SessionBusyError, LogDamagedError.
        """

        def load(cancel: CancelFlag) -> SessionLog:
            return self._logs.load(session_id, close_turn=close_turn, cancel=cancel)

        self._loading[session_id] += 1
        try:
            return self._session(await self._worker.hold(self._drop_unused, load))
        finally:
            self._loading[session_id] -= 1
            self._loading += Counter()  # forget zeros

    def read(
        self, session_id: str, *, after: int = 0, damaged: Damaged = "raise"
    ) -> AsyncGenerator[Event]:
        """Yield the events with a `seq` above `after`, each proven to follow the one before it.

        Costs what those events cost: damage before `after` is not looked for (`verify` does),
        except by "resync". Takes no lock and writes nothing. An uncommitted tail is passed over.
        At damage: "raise" LogDamagedError after the last good event, "stop", or "resync": go on
        with every later line that parses, `event.verified` False where the chain proves nothing.

        Raises SessionMissingError.
        """
        return self._worker.iterate(
            lambda cancel: self._logs.events(
                session_id, after=after, damaged=damaged, cancel=cancel
            )
        )

    async def inspect(self, session_id: str) -> SessionView:
        """Header, head, uncommitted tail, damage, and what a load would add. Never writes.

        Reads and checks the whole log. Raises SessionMissingError, LogDamagedError (header).
        """
        return await self._worker.run(lambda cancel: self._logs.inspect(session_id, cancel=cancel))

    async def verify(self, session_id: str) -> SessionView:
        """As `inspect`, but damage raises LogDamagedError with line, offset and reason."""
        return await self._worker.run(lambda cancel: self._logs.verify(session_id, cancel=cancel))

    async def list(self) -> list[SessionSummary]:
        """All sessions that have a log, from header and last line; `problem` says what is wrong."""
        return await self._worker.run(lambda cancel: self._logs.list(cancel=cancel))

    async def fork(
        self,
        session_id: str,
        *,
        id: str,  # noqa: A002 - a short name for what is given by hand
        at: int | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Session:
        """Make session `id` with the events of another up to `at`, by default its head.

        The event lines are the parent's byte for byte; the parent may be written meanwhile.
        `meta` defaults to the parent's. Raises SessionMissingError, SessionExistsError,
        LogDamagedError (before the fork point), SequenceConflictError (there is no event `at`).
        """

        def fork(cancel: CancelFlag) -> SessionLog:
            return self._logs.fork(session_id, at=at, id=id, meta=meta, cancel=cancel)

        return self._session(await self._worker.hold(SessionLog.close, fork))

    async def delete(self, session_id: str) -> None:
        """Remove the log, durably; objects stay. A session held here is closed first.

        Raises SessionMissingError, SessionBusyError.
        """
        await self._worker.finish(self._logs.delete, session_id)

    async def repair(self, session_id: str) -> RepairReport:
        """Cut a damaged log after its last good event; the cut bytes are kept beside it.

        Raises SessionMissingError, SessionBusyError, LogDamagedError (the header is at fault).
        """
        return await self._worker.run(lambda cancel: self._logs.repair(session_id, cancel=cancel))

    async def close(self, session_id: str) -> None:
        """Close a session if this store holds it."""
        held = self._logs.held(session_id)
        if held is not None:
            await self._worker.finish(held.close)

    async def close_all(self) -> None:
        """Close every session and the medium; for `Store.close`. Safe to repeat."""
        await self._worker.finish(self._logs.close)

    def _session(self, log: SessionLog) -> Session:
        session = self._sessions.get(log)
        if session is None:
            session = self._sessions[log] = Session(log, self._worker, self._put)
        return session

    def _drop_unused(self, log: SessionLog) -> None:
        """The load was cancelled in the last moment: nobody may be left holding the lock."""
        if log not in self._sessions and self._loading[log.id] <= 1:
            log.close()
