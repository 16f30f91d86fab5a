"""Sessions: the asynchronous face of session logs, `store.sessions`.

Every method runs one blocking function in the store's threads. What a session that is written
does is in session.py.

Invariants

 (1) Whoever loads a session that this store holds gets the same Session; so does whoever loads
     one that has events which could not be written yet.
 (2) A Session with events to write is kept until they are written, whoever forgets it.
"""

from __future__ import annotations

import asyncio
import builtins
import weakref
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from attachstore.arguments import check_int, check_kind
from attachstore.reference import Reference
from attachstore.sessions.event import (
    Event,
    RepairReport,
    SealReport,
    SessionSummary,
    SessionView,
)
from attachstore.sessions.log import SessionLog
from attachstore.sessions.logs import SessionLogs
from attachstore.sessions.names import SessionName
from attachstore.sessions.prepared import PreparedLog
from attachstore.sessions.prepared_session import PreparedSession
from attachstore.sessions.reading import Damaged
from attachstore.sessions.session import Put, Session
from attachstore.sessions.session_writer import SessionWriter
from attachstore.sessions.snapshot import SessionSnapshot
from attachstore.sessions.write_behind import EmitPolicy
from attachstore.threads import CancelFlag, Worker

if TYPE_CHECKING:
    from attachstore.sessions.lineage import Branch, Divergence

_SESSIONS = "`sessions` of an open store"


class Supply(Protocol):
    """The objects of a store, as far as sessions need them."""

    def bring(self, reference: Reference, source: Any, cancel: CancelFlag) -> None:
        """Let `reference` hold here too; `source` is the Supply of a store where it does."""
        ...


class Sessions:
    """The sessions of a store."""

    def __init__(self, logs: SessionLogs, worker: Worker, put: Put) -> None:
        self._logs = logs
        self._worker = worker
        self._put = put
        self.supply: Supply | None = None
        """Where references lead; without it, sessions are not forked into another store."""
        self.emit_policy = EmitPolicy()
        """For sessions that are handed out from now on."""
        self._writers: weakref.WeakValueDictionary[str, SessionWriter] = (
            weakref.WeakValueDictionary()
        )
        self._sessions: weakref.WeakValueDictionary[SessionWriter, Session] = (
            weakref.WeakValueDictionary()
        )
        self._unsaved: set[SessionWriter] = set()
        self._loading: Counter[str] = Counter()
        self._closed = False

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
        self._check_open()

        def create(_: CancelFlag) -> SessionLog:
            return self._logs.create(session_id, meta=meta, cwd=cwd)

        return self._session(await self._worker.hold(SessionLog.close, create))

    async def load(self, session_id: str, *, close_turn: bool = True) -> Session:
        """Resume a session: settle what a crash left, take the writer's lock.

        An uncommitted tail is moved aside. With `close_turn` a turn that was left open is closed
        by a `turn/end` event. Reads and checks the whole log. A session that this store holds
        already is returned as it is, the same object; so is one with events that could not be
        written yet.

        Raises SessionMissingError, SessionBusyError, LogDamagedError.
        """
        self._check_open()
        kept = self._with_events(session_id)
        if kept is not None:
            return self._face(kept)

        def load(cancel: CancelFlag) -> SessionLog:
            return self._logs.load(session_id, close_turn=close_turn, cancel=cancel)

        self._loading[session_id] += 1
        try:
            return self._session(await self._worker.hold(self._drop_unused, load))
        finally:
            self._loading[session_id] -= 1
            self._loading += Counter()  # forget zeros

    async def prepare(self, session_id: str) -> PreparedSession:
        """Reserve a session for a resume, and read what that would find; nothing is changed.

        Two resumers cannot both win: of all that `prepare` or `load` a session, here or in other
        processes, one has it until it is released. So a session that is held here cannot be
        prepared. `PreparedSession.resume` goes on where `load` would.

        Raises SessionMissingError, SessionBusyError, LogDamagedError.
        """
        self._check_open()

        def prepare(cancel: CancelFlag) -> PreparedLog:
            return self._logs.prepare(session_id, cancel=cancel)

        prepared = await self._worker.hold(PreparedLog.release, prepare)
        return PreparedSession(prepared, self._worker, self._session)

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
        check_int("after", after, 0)  # now, not at the first event
        return self._worker.iterate_runs(
            lambda cancel: self._logs.deferred_runs(
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

    async def list_snapshots(self) -> builtins.list[SessionSnapshot]:
        """Id, head and revision of every session that has a log, as cheaply as `list`.

        A session that nothing happened to has the same revision, another one a larger one. Those
        with a problem are left out: `list` names it.
        """
        return await self._worker.run(lambda cancel: self._logs.list_snapshots(cancel=cancel))

    async def tree(self) -> tuple[Branch, ...]:
        """Every session that has a log, below the one it was forked from; see `Branch`.

        What headers claim is checked against the chain. Reads what `list` reads, and one event
        for each fork; a session whose header is lost is compared with all others.
        """
        from attachstore.sessions.lineage import tree  # noqa: PLC0415 - few ask for it

        return await self._worker.run(lambda cancel: tree(self._logs, cancel=cancel))

    async def divergence(
        self, session_id: str, other_id: str, *, of: Sessions | None = None
    ) -> Divergence:
        """The last event that two sessions have in common, by their chains: `seq` and `chain`.

        `seq` is 0 if they have none. Their headers may be lost. The other may be one `of` another
        open store, on whatever medium. Raises SessionMissingError.
        """
        if of is not None:
            check_kind("of", of, Sessions, _SESSIONS)
        return await self._divergence(self if of is None else of, session_id, other_id)

    async def _divergence(self, of: Sessions, session_id: str, other_id: str) -> Divergence:
        from attachstore.sessions.lineage import divergence  # noqa: PLC0415 - few ask for it

        logs = of._logs
        return await self._worker.run(
            lambda cancel: divergence(self._logs, session_id, other_id, of=logs, cancel=cancel)
        )

    async def fork(
        self,
        session_id: str,
        *,
        id: str,  # noqa: A002 - a short name for what is given by hand
        at: int | None = None,
        meta: Mapping[str, Any] | None = None,
        into: Sessions | None = None,
    ) -> Session:
        """Make session `id` with the events of another up to `at`, by default its head.

        The event lines are the parent's byte for byte; the parent may be written meanwhile.
        `meta` defaults to the parent's. With `into`, the sessions of another open store, whose
        medium may be another kind, the fork is made there: what its events refer to is confirmed
        there first, and copied, verified, if it is missing.

        Raises SessionMissingError, SessionExistsError, LogDamagedError (before the fork point),
        SequenceConflictError (there is no event `at`); with `into`, ObjectMissingError,
        ObjectCorruptError, HeaderMismatchError: an event refers to what cannot be brought along.
        """
        self._check_open()
        if into is not None:
            check_kind("into", into, Sessions, _SESSIONS)
        if into is not None and into is not self:
            return await self._fork_into(into, session_id, id=id, at=at, meta=meta)

        def fork(cancel: CancelFlag) -> SessionLog:
            return self._logs.fork(session_id, at=at, id=id, meta=meta, cancel=cancel)

        return self._session(await self._worker.hold(SessionLog.close, fork))

    async def _fork_into(self, target: Sessions, session_id: str, **options: Any) -> Session:
        target._check_open()
        mine, theirs = self.supply, target.supply
        if mine is None or theirs is None:
            message = "sessions without a store have no objects to fork with"
            raise ValueError(message)

        def fork(cancel: CancelFlag) -> SessionLog:
            def bring(reference: Reference) -> None:
                theirs.bring(reference, mine, cancel)

            into = target._logs
            return self._logs.fork(session_id, into=into, bring=bring, cancel=cancel, **options)

        return target._session(await self._worker.hold(SessionLog.close, fork))

    async def delete(self, session_id: str) -> None:
        """Remove the log, durably; objects stay. A session held here is closed first.

        Events that were emitted and not written yet go with it.
        Raises SessionMissingError, SessionBusyError.
        """
        for writer in self._all_of(session_id):
            await writer.forget()
        await self._worker.finish(self._logs.delete, session_id)

    async def repair(self, session_id: str) -> RepairReport:
        """Cut a damaged log after its last good event; the cut bytes are kept beside it.

        Raises SessionMissingError, SessionBusyError, LogDamagedError (the header is at fault).
        """
        return await self._worker.run(lambda cancel: self._logs.repair(session_id, cancel=cancel))

    async def seal(self, session_id: str) -> SealReport:
        """Compress the log of a session that nobody writes, proven by its chain to be the same.

        It is read, loaded and appended to as before, and stays sealed; sealing it again packs
        what was appended. For logs in files only. Raises SessionMissingError, SessionBusyError,
        LogDamagedError, InvalidConfigurationError (logs are in SQLite), MissingDependencyError
        (the extra `zstd`).
        """
        return await self._worker.run(lambda cancel: self._logs.seal(session_id, cancel=cancel))

    async def unseal(self, session_id: str) -> None:
        """Take a `seal` back, byte for byte. Raises as that; StoreLayoutError if it is damaged."""
        await self._worker.run(lambda cancel: self._logs.unseal(session_id, cancel=cancel))

    async def close(self, session_id: str) -> None:
        """Close a session if this store holds it. Raises as `Session.close`."""
        for writer in self._all_of(session_id):
            await writer.close()
        held = self._logs.held(session_id)
        if held is not None:
            await self._worker.finish(held.close)

    async def close_all(self) -> None:
        """Write what was emitted, close every session and the medium; for `Store.close`.

        If events could not be written, everything is closed all the same and the first error is
        raised; the events stay in their Session, see `Session.adopt`. Safe to repeat.
        """
        self._closed = True
        closing = [writer.settle() for writer in {*self._writers.values(), *self._unsaved}]
        outcomes = await asyncio.gather(*closing, return_exceptions=True)
        await self._worker.finish(self._logs.close)
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    def _session(self, log: SessionLog) -> Session:
        kept = self._with_events(log.id)
        if kept is not None:
            return self._face(kept)
        writer = self._writers.get(log.name.segment)
        if writer is None or writer.log is not log:
            writer = SessionWriter(
                log, self._logs, self._worker, emit=self.emit_policy, unsaved=self._unsaved
            )
            self._writers[log.name.segment] = writer
        return self._face(writer)

    def _face(self, writer: SessionWriter) -> Session:
        session = self._sessions.get(writer)
        if session is None:
            session = self._sessions[writer] = Session(writer, self._put)
        return session

    def _with_events(self, session_id: str) -> SessionWriter | None:
        """Who still has events of that session to write, unless it was closed."""
        open_ones = (each for each in self._unsaved if each.id == session_id and not each.closed)
        return next(open_ones, None)

    def _all_of(self, session_id: str) -> set[SessionWriter]:
        """Every writer of that session that somebody may still use."""
        writers = {each for each in self._unsaved if each.id == session_id}
        current = self._writers.get(SessionName.of(session_id).segment)
        return writers if current is None else writers | {current}

    def _check_open(self) -> None:
        if self._closed:
            message = "the store is closed"
            raise ValueError(message)

    def _drop_unused(self, log: SessionLog) -> None:
        """The load was cancelled in the last moment: nobody may be left holding the lock."""
        writer = self._writers.get(log.name.segment)
        unused = writer is None or writer.log is not log
        if unused and self._loading[log.id] <= 1:
            log.close()
