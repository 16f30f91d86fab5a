"""SessionLogs: every session of a store, above any medium. The blocking core of `sessions`.

Invariants

 (1) This object makes one SessionLog per session at most: whoever loads a session that it holds
     gets the same one.
 (2) An id that was created or forked is taken from that moment on, in this process in memory, in
     others once its log is there.
 (3) Reading takes no claim and writes nothing.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Generator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from attachstore.arguments import check_int
from attachstore.errors import SessionExistsError, SessionMissingError, StorageReadOnlyError
from attachstore.reference import Reference
from attachstore.sessions import record
from attachstore.sessions.draft import EVENT_BYTES_MAX
from attachstore.sessions.event import (
    Event,
    Parent,
    RepairReport,
    SealReport,
    SessionHeader,
)
from attachstore.sessions.fork import (
    add_foreign_fork,
    add_fork,
    open_prefix,
    references_in_prefix,
)
from attachstore.sessions.log import SessionLog, State
from attachstore.sessions.medium import SessionMedium
from attachstore.sessions.names import SessionName
from attachstore.sessions.prepared import PreparedLog
from attachstore.sessions.readable_logs import ReadableLogs
from attachstore.sessions.repair import cut_damage
from attachstore.sessions.seal import seal_log, unseal_log
from attachstore.threads import CancelFlag


class SessionLogs(ReadableLogs):
    """Create, load, read, fork and delete sessions on one medium.

    `confirm` is asked about every reference before an event that holds it is written; it raises
    DanglingReferenceError, HeaderMismatchError or ObjectCorruptError. All methods block, and may
    be called from any thread.
    """

    def __init__(
        self,
        medium: SessionMedium,
        confirm: Callable[[Reference], None],
        *,
        event_bytes_max: int = EVENT_BYTES_MAX,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        check_int("event_bytes_max", event_bytes_max, 1)
        if not 0 < event_bytes_max <= record.LINE_BYTES_MAX:
            message = f"event_bytes_max must be 1 to {record.LINE_BYTES_MAX}: {event_bytes_max}"
            raise ValueError(message)
        super().__init__(medium)
        self._confirm = confirm
        self._event_bytes_max = event_bytes_max
        self._clock = clock
        self.read_only = False
        """Nothing is to be written: no session is even reserved."""
        self._guard = threading.Lock()  # of _held; never held while a log's lock is waited for

    # -- writing ---------------------------------------------------------------------------

    def create(
        self,
        session_id: str,
        *,
        meta: Mapping[str, Any] | None = None,
        cwd: str | Path | None = None,
    ) -> SessionLog:
        """Reserve a new session. Its log appears, whole, with the first append.

        `meta` is plain JSON; its `title` is shown in listings. `cwd` defaults to the process's
        own. Raises SessionExistsError, InvalidSessionIdError, InvalidEventError.
        """
        if self.read_only:  # the medium would say so at the first append only
            raise StorageReadOnlyError(where=self.medium.location, reason="it was opened read-only")
        name = SessionName.of(session_id)
        header = self.new_header(name, meta or {}, cwd=cwd)
        return self._reserve(self._new_log(name, header, State.PENDING))

    def load(
        self, session_id: str, *, close_turn: bool = True, cancel: CancelFlag | None = None
    ) -> SessionLog:
        """Become the session's writer; what a crash left behind it is settled first.

        An uncommitted tail is moved into the log's `torn/`. With `close_turn`, a turn that was
        left open is closed. Reads and checks the whole log: seconds per million events. A
        session that this object holds already is returned as it is.

        Raises SessionMissingError, SessionBusyError, LogDamagedError.
        """
        name = SessionName.of(session_id)
        while True:
            log, is_new = self._hold_cold(name)
            if log.state is State.PREPARED:
                raise log.busy()
            if log.state is State.POISONED:
                log.close()
                continue
            try:
                log.open(close_turn=close_turn, cancel=cancel)
            except BaseException:
                if is_new:
                    log.close_if(State.COLD)  # unless another thread, waiting for us, opened it now
                elif log.state is State.CLOSED:
                    continue  # closed by another thread while we waited for it
                raise
            return log

    def prepare(self, session_id: str, *, cancel: CancelFlag | None = None) -> PreparedLog:
        """Reserve a session for a resume, and read what that would find; nothing is changed.

        Of several that prepare or load a session, here or in another process, one has it: the
        others are refused until it is released. A session that this object holds is not to be
        had: `load` hands it out.

        Raises SessionMissingError, SessionBusyError, LogDamagedError.
        """
        name = SessionName.of(session_id)
        self._check_open()
        held = self._held.get(name.segment)
        if held is not None:
            if held.state is not State.POISONED:
                raise held.busy()
            held.close()
        log = self._new_log(name, SessionHeader(id=name.id, created_at=""), State.PREPARED)
        if not self.medium.exists(name):  # a claim would leave a lock of no session
            raise SessionMissingError(where=log.where, session=name.id)
        with self._guard:
            self._check_open()
            held = self._held.setdefault(name.segment, log)
        if held is not log:
            raise held.busy()
        try:
            return PreparedLog(log, log.prepare(cancel))
        except BaseException:
            log.close()
            raise

    def append(
        self,
        session_id: str,
        type: str,  # noqa: A002
        data: object,
        *,
        after: int | None = None,
    ) -> Event:
        """Load the session, unless it is held, and add one event; the session stays held."""
        return self.load(session_id, close_turn=False).append(type, data, after=after)

    def fork(
        self,
        session_id: str,
        *,
        at: int | None = None,
        id: str,  # noqa: A002 - the name of the argument in the public API
        meta: Mapping[str, Any] | None = None,
        into: SessionLogs | None = None,
        bring: Callable[[Reference], None] | None = None,
        cancel: CancelFlag | None = None,
    ) -> SessionLog:
        """Make session `id` with the events of another up to `at` (its head if omitted).

        `meta` defaults to the parent's. Reads and checks the parent up to the fork point. The
        parent is not changed, and may be written meanwhile, here or by another process. The
        fork may be made `into` another store's logs, on any medium; then `bring` is called with
        each reference in its events, and must see to it that it holds there.

        Raises SessionMissingError, SessionExistsError, LogDamagedError (before the fork point),
        SequenceConflictError (the parent has no event `at`).
        """
        if at is not None:
            check_int("at", at, 0)
        self._check_open()
        parent, child = SessionName.of(session_id), SessionName.of(id)
        held = self._held.get(parent.segment)
        target = self if into is None else into
        log = target.reserve_fork(child)
        try:
            with open_prefix(self.medium, held, parent, at, cancel) as (prefix, lines):
                if target is self:
                    add = partial(add_fork, self.medium, child, parent, prefix, lines)
                else:
                    add = partial(add_foreign_fork, target.medium, child, lines)
                    for reference in references_in_prefix(self.medium, parent, prefix, cancel):
                        if bring is not None:
                            bring(reference)
                meta = prefix.header.meta if meta is None else meta
                header = target.new_header(child, meta, parent=prefix.origin(parent))
                log.write_fork(header, prefix.copied, add)
        except BaseException:
            log.close()
            raise
        finally:
            log.lock.release()
        return log

    def reserve_fork(self, child: SessionName) -> SessionLog:
        """Hold a fork in the making, its lock taken: whoever loads it meanwhile waits for it.

        Raises SessionExistsError.
        """
        log = self._new_log(child, SessionHeader(id=child.id, created_at=""), State.COLD)
        log.lock.acquire()
        try:
            return self._reserve(log)
        except BaseException:
            log.lock.release()
            raise

    def delete(self, session_id: str) -> None:
        """Remove the session's log, durably; never an object. Closes it first if it is held.

        Raises SessionMissingError, SessionBusyError.
        """
        name = SessionName.of(session_id)
        self._check_open()
        held = self._held.get(name.segment)
        if held is not None and held.state is State.PREPARED:
            raise held.busy()
        was_pending = held is not None and held.state is State.PENDING
        if held is not None:
            held.close()
        if not self.medium.exists(name):
            if was_pending:
                return
            raise SessionMissingError(where=self.medium.where(name), session=name.id)
        claim = self.medium.claim(name)
        try:
            self.medium.delete(name)
        finally:
            claim.release()

    def repair(self, session_id: str, *, cancel: CancelFlag | None = None) -> RepairReport:
        """Cut a damaged log after its last good event, and keep what was cut.

        The one call that takes events away. Damage to the header cannot be repaired: what the
        log is would have to be guessed. Raises SessionMissingError, SessionBusyError,
        LogDamagedError (the header).
        """
        with self._idle(session_id) as name:
            return cut_damage(self.medium, name, cancel)

    def seal(self, session_id: str, *, cancel: CancelFlag | None = None) -> SealReport:
        """Keep a session that nobody writes in less room, proven to be the same log.

        Nobody sees a difference, and it stays sealed whoever appends to it. Sealing it again
        packs what was appended. Raises SessionMissingError, SessionBusyError, LogDamagedError,
        MissingDependencyError, InvalidConfigurationError.
        """
        with self._idle(session_id) as name:
            return seal_log(self.medium, name, cancel)

    def unseal(self, session_id: str, *, cancel: CancelFlag | None = None) -> None:
        """Take back a `seal`. Raises as that, and StoreLayoutError if it is damaged."""
        with self._idle(session_id) as name:
            unseal_log(self.medium, name, cancel)

    def close(self) -> None:
        """Give all sessions up, then the medium. Safe to repeat."""
        with self._guard:
            self._closed = True
            held = list(self._held.values())
        try:
            for log in held:
                log.close()
        finally:
            self.medium.close()

    # -- parts -----------------------------------------------------------------------------

    def _reserve(self, log: SessionLog) -> SessionLog:
        """Hold a session whose id has no log yet. Raises SessionExistsError."""
        with self._guard:
            self._check_open()
            if log.name.segment in self._held:
                raise SessionExistsError(where=log.where, session=log.id)
            self._held[log.name.segment] = log
        taken = True
        try:
            taken = self.medium.exists(log.name)
        finally:
            if taken:
                log.close()
        if taken:
            raise SessionExistsError(where=log.where, session=log.id)
        return log

    @contextlib.contextmanager
    def _idle(self, session_id: str) -> Generator[SessionName]:
        """The claim of a session with a log that this object does not have open."""
        name = SessionName.of(session_id)
        self._check_open()
        held = self._held.get(name.segment)
        if held is not None and held.state is State.POISONED:
            held.close()
        elif held is not None and held.state in {State.OPEN, State.PREPARED}:
            raise held.busy()
        if not self.medium.exists(name):
            raise SessionMissingError(where=self.medium.where(name), session=name.id)
        claim = self.medium.claim(name)
        try:
            yield name
        finally:
            claim.release()

    def _hold_cold(self, name: SessionName) -> tuple[SessionLog, bool]:
        """The session as it is held, else a new SessionLog for the log on the medium."""
        with self._guard:
            self._check_open()
            held = self._held.get(name.segment)
            if held is not None:
                return held, False
        if not self.medium.exists(name):
            raise SessionMissingError(where=self.medium.where(name), session=name.id)
        unread = SessionHeader(id=name.id, created_at="")
        log = self._new_log(name, unread, State.COLD)
        with self._guard:
            self._check_open()
            held = self._held.setdefault(name.segment, log)
        return held, held is log

    def _new_log(self, name: SessionName, header: SessionHeader, state: State) -> SessionLog:
        return SessionLog(
            name,
            header,
            medium=self.medium,
            confirm=self._confirm,
            now=self._now,
            event_bytes_max=self._event_bytes_max,
            state=state,
            on_close=self._forget,
        )

    def new_header(
        self,
        name: SessionName,
        meta: Mapping[str, Any],
        *,
        cwd: str | Path | None = None,
        parent: Parent | None = None,
    ) -> SessionHeader:
        """The header of a session that is made now, here. Raises InvalidEventError."""
        where = self.medium.where(name)
        return SessionHeader(
            id=name.id,
            created_at=self._now(),
            cwd=_absolute(cwd),
            parent=parent,
            meta=record.check_meta(meta, where=where),
        )

    def _forget(self, log: SessionLog) -> None:
        with self._guard:
            if self._held.get(log.name.segment) is log:
                del self._held[log.name.segment]

    def _now(self) -> str:
        return record.timestamp(self._clock())


def _absolute(cwd: str | Path | None) -> str | None:
    """The directory for a header; None where it is gone, or its name is not UTF-8."""
    try:
        path = os.path.abspath(cwd if cwd is not None else os.getcwd())  # noqa: PTH100, PTH109
        path.encode()
    except (OSError, UnicodeEncodeError):
        return None
    return path
