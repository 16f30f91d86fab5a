"""SessionLog: one session as its writer in this process holds it.

    PENDING ──first append──▶ OPEN ──failed append──▶ POISONED
    COLD ────load, append───▶ OPEN
    PREPARED ─resume────────▶ OPEN
    any ─────close──────────▶ CLOSED

PENDING was created and left nothing on the medium yet; COLD has a log, which this process has
not opened for writing (a fresh fork); PREPARED is reserved for a resume (prepared.py).

Invariants

 (1) OPEN, POISONED and, once it was read, PREPARED hold the session's claim, the others do not.
 (2) `head` is the end of what was acknowledged: durable, and proven by the chain.
 (3) Nothing is written before all events were checked and encoded and every reference in them
     confirmed; then all lines of one append go out in one write, at the head.
 (4) After a failed append what is on the medium is unknown: the log takes no more events
     (POISONED) until it is opened anew, which reads what is there.
"""

from __future__ import annotations

import enum
import logging
import os
import threading
from collections.abc import Callable, Iterable, Sequence

from attachstore.errors import (
    AttachstoreError,
    LogPoisonedError,
    SequenceConflictError,
    SessionBusyError,
)
from attachstore.reference import Reference
from attachstore.sessions import record
from attachstore.sessions.draft import (
    EVENT_BYTES_MAX,
    Draft,
    Head,
    draft,
    events_of,
    pair_of,
    place,
)
from attachstore.sessions.event import Event, SessionHeader, SessionView
from attachstore.sessions.medium import Claim, LogReader, LogWriter, RestingWriter, SessionMedium
from attachstore.sessions.names import SessionName
from attachstore.sessions.repair import set_tail_aside
from attachstore.sessions.scan import Scan
from attachstore.threads import CancelFlag

_logger = logging.getLogger("attachstore")


class State(enum.Enum):
    PENDING = "pending"
    COLD = "cold"
    PREPARED = "prepared"
    OPEN = "open"
    POISONED = "poisoned"
    CLOSED = "closed"


class SessionLog:
    """Made by `SessionLogs`. May be used from several threads; appends go one after another.

    After `os.fork()` the child's copy is dead: every call raises ValueError.
    """

    def __init__(
        self,
        name: SessionName,
        header: SessionHeader,
        *,
        medium: SessionMedium,
        confirm: Callable[[Reference], None],
        now: Callable[[], str],
        event_bytes_max: int = EVENT_BYTES_MAX,
        state: State,
        on_close: Callable[[SessionLog], None],
    ) -> None:
        self.name = name
        self.header = header
        self.where = medium.where(name)
        self.state = state
        self.lock = threading.RLock()
        self.acknowledged = Head(0, record.CHAIN_START, 0)
        self._medium = medium
        self._confirm = confirm
        self._now = now
        self._event_bytes_max = event_bytes_max
        self._on_close = on_close
        self._claim: Claim | None = None
        self._writer: LogWriter | None = None
        self._resting: RestingWriter | None = None  # the same one, if it can rest
        self._poison = ""
        self.has_conflict = False  # POISONED by an append that found another log, wrote nothing
        self._read: tuple[Scan, int] | None = None  # what `prepare` has read, up to where
        self._pid = os.getpid()

    @property
    def id(self) -> str:
        return self.name.id

    @property
    def head(self) -> int:
        """`seq` of the newest acknowledged event; 0 if there is none."""
        return self.acknowledged.seq

    @property
    def head_chain(self) -> str:
        return self.acknowledged.chain.hex()

    def append(self, type: str, data: object, *, after: int | None = None) -> Event:  # noqa: A002
        """Add one event; durable on return. See `append_drafts` for the errors."""
        return self.append_drafts([self.draft(type, data)], after=after)[0]

    def append_many(
        self, events: Iterable[tuple[str, object]], *, after: int | None = None
    ) -> list[Event]:
        """Add (type, data) pairs as one contiguous batch with one sync, all or none of them."""
        return self.append_drafts([self.draft(*pair_of(event)) for event in events], after=after)

    def draft(self, type: str, data: object) -> Draft:  # noqa: A002
        """Check and encode an event now. Raises InvalidEventError, EventTooLargeError."""
        return draft(type, data, where=self.where, event_bytes_max=self._event_bytes_max)

    def draft_now(self, type: str, data: object) -> Draft:  # noqa: A002
        """As `draft`, with the time of this moment, to be written later. Raises the same."""
        return draft(
            type,
            data,
            where=self.where,
            event_bytes_max=self._event_bytes_max,
            time=self._now(),
        )

    def confirm(self, drafts: Iterable[Draft], cancel: CancelFlag | None = None) -> None:
        """Check every reference in the drafts.

        Raises DanglingReferenceError, HeaderMismatchError.
        """
        for reference in dict.fromkeys(ref for item in drafts for ref in item.references):
            if cancel is not None:
                cancel.check()
            self._confirm(reference)

    def append_drafts(
        self,
        drafts: Sequence[Draft],
        *,
        after: int | None = None,
        cancel: CancelFlag | None = None,
    ) -> list[Event]:
        """Add the drafts as one batch; all of them are durable on return.

        `after` is the `seq` that the caller believes to be the head.

        Raises:
            SequenceConflictError: the head is elsewhere; nothing was written.
            DanglingReferenceError, HeaderMismatchError: a reference in them is not what the
                store holds; nothing was written.
            EventTooLargeError: a line would be too long; nothing was written.
            LogPoisonedError: an earlier append failed; load the session again.
            SessionBusyError, SessionExistsError: at the first append, another was first.
        """
        events: list[Event] = []
        self._add(drafts, after, cancel, events)
        return events

    def add_drafts(self, drafts: Sequence[Draft]) -> None:
        """As `append_drafts`, for whoever does not want to see the events."""
        self._add(drafts, None, None, None)

    def open(self, *, close_turn: bool, cancel: CancelFlag | None = None) -> None:
        """Become the session's writer: claim it, settle what is on the medium, read all of it.

        Does nothing if it is OPEN already, or PENDING. With `close_turn` an interrupted turn is
        closed. Raises SessionBusyError, SessionMissingError, LogDamagedError.
        """
        with self.lock:
            self._check_usable()
            if self.state is not State.COLD:
                return
            claim = self._medium.claim(self.name)
            try:
                self._open_claimed(claim, close_turn=close_turn, cancel=cancel)
            except BaseException:
                self._let_go()
                claim.release()
                self.state = State.COLD
                raise

    def prepare(self, cancel: CancelFlag | None = None) -> SessionView:
        """Claim the session and read all of it; nothing is changed.

        Raises SessionBusyError, SessionMissingError, LogDamagedError: close it then.
        """
        with self.lock:
            self._check_usable()
            self._claim = self._medium.claim(self.name)
            with self._medium.open(self.name) as log:
                end_bytes = log.settle()
                scan = self._scan(log, end_bytes, cancel)
                scan.exhaust().raise_damage()
            self._read = scan, end_bytes
            return scan.view()

    def publish(self, *, close_turn: bool, cancel: CancelFlag | None = None) -> None:
        """Settle what `prepare` has read, and become the session's writer. Closed on error."""
        with self.lock:
            claim = self._claim
            if self.state is not State.PREPARED or claim is None:
                message = f"session {self.id!r} is not reserved any more, or was resumed"
                raise ValueError(message)
            try:
                self._open_claimed(claim, close_turn=close_turn, cancel=cancel)
            except BaseException:
                self.close()
                raise

    def busy(self) -> SessionBusyError:
        """What is told to whoever wants the session, which this process has."""
        doing = "prepares it for a resume" if self.state is State.PREPARED else "has it open"
        holder = f"this process, which {doing}"
        return SessionBusyError(where=self.where, session=self.id, holder=holder)

    def write_fork(
        self, header: SessionHeader, copied: Head, add: Callable[[bytes], LogWriter]
    ) -> None:
        """Make the log of a fork: `add` writes the header line it is given, and the copied lines.

        `copied` is the head after them, its size that of the lines alone. The claim is let go
        again, so that a fork that nobody appends to keeps nobody out.
        """
        with self.lock:
            header_line = record.encode_header(header)
            claim = self._medium.claim(self.name)
            try:
                add(header_line).close()
            finally:
                claim.release()
            self.header = header
            self.acknowledged = Head(copied.seq, copied.chain, len(header_line) + copied.size_bytes)

    def close(self) -> None:
        """Give the session up to other writers. Waits for a running append. Safe to repeat."""
        if self._pid != os.getpid():
            return  # the parent's descriptors; the lock module has closed ours
        with self.lock:
            if self.state is State.CLOSED:
                return
            try:
                self.rest()
            finally:
                self.state = State.CLOSED
                self._on_close(self)
                self._let_go()

    @property
    def is_ready(self) -> bool:
        """Whether its writer keeps something behind the log's end, for the next events."""
        resting = self._resting
        return resting is not None and resting.is_ready

    def rest(self) -> None:
        """Let the log be as others like to find it: nobody writes for a while. Never raises."""
        with self.lock:
            if self.state is State.OPEN and self._resting is not None:
                try:
                    self._resting.rest(self.acknowledged.size_bytes)
                except AttachstoreError as error:  # whoever opens it next tries again
                    _logger.info("session %r: room was not cut back: %s", self.id, error)

    def close_if(self, state: State) -> None:
        """Close it, if it is in that state still."""
        with self.lock:
            if self.state is state:
                self.close()

    def _add(
        self,
        drafts: Sequence[Draft],
        after: int | None,
        cancel: CancelFlag | None,
        events: list[Event] | None,
    ) -> None:
        """Add the drafts; `events`, if it is given, gets what they are in the log."""
        self._check_usable()
        self.confirm(drafts, cancel)
        with self.lock:
            self._check_usable()
            if self.state is State.COLD:
                self.open(close_turn=False, cancel=cancel)
            if after is not None and after != self.head:
                raise SequenceConflictError(
                    where=self.where, session=self.id, expected_seq=after, head_seq=self.head
                )
            if drafts:
                self._write(drafts, events)

    # -- inside the lock -------------------------------------------------------------------

    def _open_claimed(self, claim: Claim, *, close_turn: bool, cancel: CancelFlag | None) -> None:
        writer = self._medium.open_writer(self.name)
        self._claim = claim
        self._hold(writer)
        end_bytes = writer.settle()
        scan, read_bytes = self._read or (None, None)
        self._read = None
        if scan is None or read_bytes != end_bytes:
            scan = self._scan(writer, end_bytes, cancel)
            scan.exhaust().raise_damage()
        end = Head(scan.seq, scan.chain, scan.good_bytes)
        line, closer = (scan.closer() if close_turn else None) or (b"", None)
        closed = end
        if closer is not None:
            closed = Head(closer.seq, bytes.fromhex(closer.chain), end.size_bytes + len(line))
        is_closed = scan.tail is not None and set_tail_aside(writer, scan, line)
        if self._resting is not None:  # another one may have died busy
            self._resting.rest(scan.good_bytes)
        self.header = scan.header
        self.acknowledged = closed if is_closed else end
        self.state = State.OPEN
        if line and not is_closed:
            self._append_bytes(line, closed)

    def _scan(self, log: LogReader, end_bytes: int, cancel: CancelFlag | None) -> Scan:
        return Scan(log, self.name, where=self.where, end_bytes=end_bytes, cancel=cancel)

    def _write(self, drafts: Sequence[Draft], events: list[Event] | None) -> None:
        if self.state is State.PENDING:
            header_line = record.encode_header(self.header)
            start = Head(0, record.CHAIN_START, len(header_line))
        else:
            header_line = b""
            start = self.acknowledged
        time = self._now()
        placed = place(
            drafts, start, time=time, where=self.where, event_bytes_max=self._event_bytes_max
        )
        if events is not None:  # made before anything is written: what cannot be read is no event
            events += events_of(drafts, placed, start, time)
        content = b"".join(placed.lines)
        if header_line:
            self._materialise(header_line + content, placed.head)
        else:
            self._append_bytes(content, placed.head)

    def _materialise(self, content: bytes, head: Head) -> None:
        """Header and first batch appear together; after a failure neither is there."""
        claim = self._medium.claim(self.name)
        try:
            self._hold(self._medium.add(self.name, [content]))
            self._claim = claim
            self.acknowledged = head
            self.state = State.OPEN
        except BaseException:
            claim.release()
            raise

    def _append_bytes(self, data: bytes, head: Head) -> None:
        assert self._writer is not None  # noqa: S101 - invariant (1)
        try:
            self._writer.append(data, self.acknowledged.size_bytes)
            self.acknowledged = head
        except BaseException as error:
            self.state = State.POISONED
            self.has_conflict = isinstance(error, LogPoisonedError)
            self._poison = f"an append failed: {error or type(error).__name__}"
            _logger.warning("session %r is poisoned: %s", self.id, error)
            raise

    def _hold(self, writer: LogWriter) -> None:
        self._writer = writer
        self._resting = writer if isinstance(writer, RestingWriter) else None

    def _let_go(self) -> None:
        writer, self._writer, self._resting = self._writer, None, None
        claim, self._claim = self._claim, None
        try:
            if writer is not None:
                writer.close()
        finally:
            if claim is not None:
                claim.release()

    def _check_usable(self) -> None:
        if self._pid != os.getpid():
            message = "the session was opened before os.fork(); load it again in the child"
            raise ValueError(message)
        if self.state is State.CLOSED:
            message = f"session {self.id!r} is closed"
            raise ValueError(message)
        if self.state is State.POISONED:
            raise LogPoisonedError(where=self.where, session=self.id, reason=self._poison)
