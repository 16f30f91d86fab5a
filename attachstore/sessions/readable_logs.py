"""ReadableLogs: what can be asked of the sessions on a medium. Takes no claim, writes nothing.

The part of `SessionLogs` that reads.
"""

from __future__ import annotations

import builtins
import contextlib
import os
from collections.abc import Generator, Iterator

from attachstore.arguments import check_int
from attachstore.deferred import Deferred
from attachstore.sessions.event import Event, SessionSummary, SessionView
from attachstore.sessions.listing import summaries
from attachstore.sessions.log import SessionLog, State
from attachstore.sessions.medium import SessionMedium
from attachstore.sessions.names import SessionName
from attachstore.sessions.reading import (
    Damaged,
    read_deferred,
    read_events,
    read_referring,
    view_of,
)
from attachstore.sessions.snapshot import SessionSnapshot, snapshots
from attachstore.threads import CancelFlag


class ReadableLogs:
    """All methods block, and may be called from any thread."""

    def __init__(self, medium: SessionMedium) -> None:
        self.medium = medium
        self._held: dict[str, SessionLog] = {}  # by segment: what this process may write
        self._closed = False
        self._pid = os.getpid()

    def events(
        self,
        session_id: str,
        *,
        after: int = 0,
        damaged: Damaged = "raise",
        cancel: CancelFlag | None = None,
    ) -> Iterator[Event]:
        """The events with a `seq` above `after`, in order, each proven by the chain.

        What lies before `after` is not read, unless it is not found or "resync" is asked for: the
        cost is that of the suffix, and the proof begins with the chain of event `after`, as it
        stands in the log. An uncommitted tail is passed over. At damage: "raise" LogDamagedError
        after the last good event, "stop" without a word, or "resync" and go on with every later
        line that parses, `verified` False where its own predecessor is not the event before it.

        Raises SessionMissingError.
        """
        return _singly(self.runs(session_id, after=after, damaged=damaged, cancel=cancel))

    def runs(
        self,
        session_id: str,
        *,
        after: int = 0,
        damaged: Damaged = "raise",
        cancel: CancelFlag | None = None,
    ) -> Generator[builtins.list[Event]]:
        """As `events`, but some at a time, as many as were decoded at once: at least one."""
        name, held = self._to_read(session_id, after, damaged)
        return read_events(self.medium, name, held, after=after, damaged=damaged, cancel=cancel)

    def deferred_runs(
        self,
        session_id: str,
        *,
        after: int = 0,
        damaged: Damaged = "raise",
        cancel: CancelFlag | None = None,
    ) -> Generator[builtins.list[Event] | Deferred[Event]]:
        """As `runs`, for `Worker.iterate_runs`: most events are decoded where they are used."""
        name, held = self._to_read(session_id, after, damaged)
        return read_deferred(self.medium, name, held, after=after, damaged=damaged, cancel=cancel)

    def _to_read(
        self, session_id: str, after: int, damaged: Damaged
    ) -> tuple[SessionName, SessionLog | None]:
        if damaged not in {"raise", "stop", "resync"}:
            message = f'damaged is "raise", "stop" or "resync", not {damaged!r}'
            raise ValueError(message)
        check_int("after", after, 0)
        name = SessionName.of(session_id)
        self._check_open()
        return name, self._held.get(name.segment)

    def referring_runs(
        self, name: SessionName, *, cancel: CancelFlag | None = None
    ) -> Generator[builtins.list[Event]]:
        """As `runs` of a log that the medium lists, for whoever must not miss a reference.

        Most other events are left out, and a run may be empty. With every line that parses, as by
        "resync"; then damage is raised all the same.
        """
        self._check_open()
        held = self._held.get(name.segment)
        if held is not None and held.state is State.PENDING:
            held = None  # another process was first
        return read_referring(self.medium, name, held, cancel=cancel)

    def inspect(self, session_id: str, *, cancel: CancelFlag | None = None) -> SessionView:
        """Read and check the whole log; report head, tail, damage and what a load would add.

        Raises SessionMissingError, LogDamagedError (the header: there is nothing to show).
        """
        name = SessionName.of(session_id)
        self._check_open()
        held = self._held.get(name.segment)
        return view_of(self.medium, name, held, strict=False, cancel=cancel)

    def verify(self, session_id: str, *, cancel: CancelFlag | None = None) -> SessionView:
        """As `inspect`, but damage is raised: LogDamagedError with line, offset and reason."""
        name = SessionName.of(session_id)
        self._check_open()
        held = self._held.get(name.segment)
        return view_of(self.medium, name, held, strict=True, cancel=cancel)

    def list(self, *, cancel: CancelFlag | None = None) -> list[SessionSummary]:
        """Every session that has a log, also those with a problem, in order of their names."""
        self._check_open()
        found: list[SessionSummary] = []
        for summary in summaries(self.medium):
            if cancel is not None:
                cancel.check()
            found.append(summary)
        return found

    def list_snapshots(self, *, cancel: CancelFlag | None = None) -> builtins.list[SessionSnapshot]:
        """Where every session that has a log ends, and its revision; those with a problem not."""
        self._check_open()
        found: builtins.list[SessionSnapshot] = []
        for snapshot in snapshots(self.medium):
            if cancel is not None:
                cancel.check()
            found.append(snapshot)
        return found

    def where(self, session_id: str) -> str:
        """Where its log is or would be, for messages."""
        return self.medium.where(SessionName.of(session_id))

    def held(self, session_id: str) -> SessionLog | None:
        """The session as this object holds it, if it does."""
        return self._held.get(SessionName.of(session_id).segment)

    def _check_open(self) -> None:
        if self._pid != os.getpid():
            message = "the store was opened before os.fork(); open it again in the child"
            raise ValueError(message)
        if self._closed:
            message = "the store is closed"
            raise ValueError(message)


def _singly(runs: Generator[list[Event]]) -> Generator[Event]:
    with contextlib.closing(runs):
        for run in runs:
            yield from run
