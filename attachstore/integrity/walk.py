"""Walk every session log for a scan, one at a time, in bounded memory, writing nothing.

Beside writers: a session that is gone by the time it is read is no finding, somebody deleted it;
the last line of a live log may be unfinished, which is an uncommitted tail, a note.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Self

from attachstore.errors import (
    AttachstoreError,
    LogDamagedError,
    SessionMissingError,
    StoreLayoutError,
)
from attachstore.errors.stored import MEND_HEADER
from attachstore.integrity.pace import UNPACED, Pace
from attachstore.integrity.report import Finding, Kind
from attachstore.sessions.event import Damage, Event, Tail
from attachstore.sessions.logs import SessionLogs
from attachstore.sessions.medium import LogReader, SelfCheckingMedium
from attachstore.sessions.names import SessionName
from attachstore.sessions.removal import DELETED_PREFIX
from attachstore.sessions.scan import Scan, resync
from attachstore.threads import CancelFlag

_MEND_DATABASE = (
    "Events may be missing at the ends of logs. Restore sessions.db from a copy of the store, or "
    "save what is still read with `attachstore session convert jsonl`."
)


@dataclass(slots=True)
class LogOutcome:
    """How the reading of one log ended."""

    session: str
    path: str
    vanished: bool = False
    tail: Tail | None = None
    damage: Damage | None = None
    error: AttachstoreError | None = None
    events: int = 0
    """That were read, with those that refer to nothing."""

    @property
    def complete(self) -> bool:
        """Whether every event there is was yielded."""
        return self.error is None and self.damage is None

    def finding(self) -> Finding | None:
        """What to tell about it, if anything."""
        if self.error is not None:
            what = f"the log cannot be read: {self.error}".rstrip(".")
            return Finding(
                kind=Kind.LOG_UNREADABLE, what=what, session=self.session, path=self.path
            )
        if self.damage is not None:
            return self._about(self.damage.line, self.damage)
        if self.tail is not None:
            return self._about(None, self.tail)
        return None

    def _about(self, line: int | None, part: Damage | Tail) -> Finding:
        damaged = isinstance(part, Damage)
        state = "the log is damaged" if damaged else "the log ends in an uncommitted tail"
        return Finding(
            kind=Kind.LOG_DAMAGED if damaged else Kind.UNCOMMITTED_TAIL,
            what=f"{state}: {part.reason}",
            session=self.session,
            path=self.path,
            line=line,
            hint=MEND_HEADER if line == 1 else None,
            offset_bytes=part.offset_bytes,
            size_bytes=None if damaged else part.size_bytes,
        )


class LogWalk:
    """Reads the logs of a store, as often as asked."""

    def __init__(self, logs: SessionLogs, cancel: CancelFlag, pace: Pace = UNPACED) -> None:
        self._medium = logs.medium
        self._cancel = cancel
        self._pace = pace

    @property
    def location(self) -> str:
        return self._medium.location

    def names(self) -> Iterator[SessionName]:
        """Sessions there are; one may be gone by the time it is read."""
        return self._medium.names()

    def strays(self) -> Iterator[Finding]:
        """What lies beside the logs and belongs to no session."""
        for path in self._medium.strays():
            if PurePath(path).name.startswith(DELETED_PREFIX):
                what = "a deletion is at this, or was when it was killed"
                yield Finding(kind=Kind.STALE_STAGING, what=what, path=_shown(path))
            else:
                what = "no version of attachstore puts this here"
                yield Finding(kind=Kind.FOREIGN_FILE, what=what, path=_shown(path))

    def faults(self) -> Iterator[Finding]:
        """What the medium itself knows of its damage: logs may be shorter than they were.

        Not held back by the pace: the medium reads by itself.
        """
        if not isinstance(self._medium, SelfCheckingMedium):
            return
        path = _shown(self.location)
        try:
            lines = self._medium.complaints(self._cancel)
        except StoreLayoutError as error:
            lines = [error.reason]
        except AttachstoreError as error:
            what = f"the database cannot be checked: {error}".rstrip(".")
            yield Finding(kind=Kind.LOG_UNREADABLE, what=what, path=path)
            return
        if lines:
            more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
            what = f"SQLite's integrity check complains: {_shown(lines[0]).rstrip('.')}{more}"
            yield Finding(kind=Kind.STORE_LAYOUT, what=what, path=path, hint=_MEND_DATABASE)

    def read(self, name: SessionName, outcome: LogOutcome) -> Iterator[list[Event]]:
        """Yield every event that refers to an object and whose line parses, some or none at a time.

        Maybe others too, and those beyond damage: `verified` tells them apart. Then `outcome` says
        how the log is.
        """
        try:
            with self._medium.open(name) as opened:
                log = _PacedLog(opened, self._pace, self._cancel)
                try:
                    scan = Scan(log, name, where=outcome.path, cancel=self._cancel)
                except LogDamagedError as error:  # no header: the events may still be there
                    outcome.damage = Damage(
                        line=error.line, offset_bytes=error.offset_bytes, reason=error.reason
                    )
                    yield from _counted(resync(log, cancel=self._cancel), outcome)
                    return
                outcome.session = scan.header.id
                for run in scan.referring_runs():
                    outcome.events = scan.seq
                    yield run
                yield from _counted(scan.resync(), outcome)
                outcome.tail, outcome.damage = scan.tail, scan.damage
        except SessionMissingError:
            outcome.vanished = True
        except AttachstoreError as error:
            outcome.error = error

    def outcome_of(self, name: SessionName) -> LogOutcome:
        """For `read` to fill in."""
        return LogOutcome(name.id, _shown(self._medium.where(name)))


def _counted(events: Iterator[Event], outcome: LogOutcome) -> Iterator[list[Event]]:
    for event in events:
        outcome.events += 1
        yield [event]


class _PacedLog:
    """A log that is read no faster than the scan may read. Its opener closes it."""

    def __init__(self, log: LogReader, pace: Pace, cancel: CancelFlag) -> None:
        self._log = log
        self._pace = pace
        self._cancel = cancel

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def size(self) -> int:
        return self._log.size()

    def read(self, offset_bytes: int, size_bytes: int) -> bytes:
        block = self._log.read(offset_bytes, size_bytes)
        self._pace.spend(len(block), self._cancel.check)
        return block

    def settle(self) -> int:
        return self._log.settle()

    def close(self) -> None:
        return


def _shown(path: str) -> str:
    """For reports: any program may read them, and a name may be no text."""
    return ascii(path)[1:-1]
