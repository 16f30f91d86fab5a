"""Reading a session without becoming its writer: nothing is claimed, repaired or written."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Literal

from attachstore.errors import LogDamagedError
from attachstore.sessions import record
from attachstore.sessions.event import Event, SessionView
from attachstore.sessions.log import SessionLog, State
from attachstore.sessions.medium import LogReader, SessionMedium
from attachstore.sessions.names import SessionName
from attachstore.sessions.scan import Scan, resync
from attachstore.threads import CancelFlag

Damaged = Literal["raise", "stop", "resync"]
"""What a reader does at damage: raise, end quietly, or go on with every later line that parses."""
DamagedOrReported = Literal[Damaged, "report"]
"""Or go on so, and raise it in the end."""
_READ_ON = frozenset({"resync", "report"})
_RAISED = frozenset({"raise", "report"})


def read_events(
    medium: SessionMedium,
    name: SessionName,
    held: SessionLog | None,
    *,
    after: int,
    damaged: DamagedOrReported,
    cancel: CancelFlag | None,
) -> Generator[list[Event]]:
    """Yield the session's events, some at a time, never none.

    `held` is the session as this process holds it, if it does.
    """
    if held is not None and held.state is State.PENDING:
        return
    with medium.open(name) as log:
        for run in _runs(medium, name, log, held, damaged, cancel, after=after):
            if run[0].seq > after:
                yield run
            elif wanted := [event for event in run if event.seq > after]:
                yield wanted


def _runs(
    medium: SessionMedium,
    name: SessionName,
    log: LogReader,
    held: SessionLog | None,
    damaged: DamagedOrReported,
    cancel: CancelFlag | None,
    *,
    after: int,
) -> Generator[list[Event]]:
    """The events after `after`; maybe also some before."""
    try:
        scan = _scan(medium, name, log, held, cancel)
    except LogDamagedError:
        if damaged in _READ_ON:
            start = record.CHAIN_START
            yield from _runs_of_one(resync(log, offset_bytes=0, line=1, chain=start, cancel=cancel))
        if damaged in _RAISED:
            raise
        return
    if after > 0 and damaged not in _READ_ON:  # which may find any `seq` anywhere
        scan.skip_to(after)
    yield from scan.runs()
    if damaged in _READ_ON:
        yield from _runs_of_one(scan.resync())
    if damaged in _RAISED:
        scan.raise_damage()


def _runs_of_one(events: Iterator[Event]) -> Iterator[list[Event]]:
    for event in events:
        yield [event]


def view_of(
    medium: SessionMedium,
    name: SessionName,
    held: SessionLog | None,
    *,
    strict: bool,
    cancel: CancelFlag | None,
) -> SessionView:
    """Read the whole log and say what it is like; with `strict`, damage is raised."""
    if held is not None and held.state is State.PENDING:
        return SessionView(
            header=held.header,
            head_seq=0,
            head_chain=record.CHAIN_START.hex(),
            size_bytes=0,
            last_time=None,
            closers=(),
            tail=None,
            damage=None,
        )
    with medium.open(name) as log:
        scan = _scan(medium, name, log, held, cancel).exhaust()
        if strict:
            scan.raise_damage()
        return scan.view()


def _scan(
    medium: SessionMedium,
    name: SessionName,
    log: LogReader,
    held: SessionLog | None,
    cancel: CancelFlag | None,
) -> Scan:
    """A scan up to what is acknowledged, where this process knows that."""
    is_writer = held is not None and held.state is State.OPEN
    end_bytes = held.acknowledged.size_bytes if held is not None and is_writer else None
    return Scan(
        log,
        name,
        where=medium.where(name),
        end_bytes=end_bytes,
        acknowledged=is_writer,
        cancel=cancel,
    )
