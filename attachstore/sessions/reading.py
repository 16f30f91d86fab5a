"""Reading a session without becoming its writer: nothing is claimed, repaired or written."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Literal, TypeVar

from attachstore.deferred import Deferred
from attachstore.errors import LogDamagedError
from attachstore.sessions.event import Event, SessionView
from attachstore.sessions.log import SessionLog, State
from attachstore.sessions.medium import LogReader, SessionMedium
from attachstore.sessions.names import SessionName
from attachstore.sessions.scan import Scan, resync
from attachstore.sessions.undecoded import BEGINNING, Position, Undecoded
from attachstore.threads import CancelFlag

R = TypeVar("R")

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
    damaged: Damaged,
    cancel: CancelFlag | None,
    start: Position = BEGINNING,
) -> Generator[list[Event]]:
    """Yield the session's events, some at a time, never none.

    `held` is the session as this process holds it, if it does. `start` is where another reading
    of the same log has come to, with what it found there proven.
    """
    if held is not None and held.state is State.PENDING:
        return
    with medium.open(name) as log:
        scan = partial(_scan, medium, name, log, held, cancel)
        for run in _runs(scan, log, cancel, Scan.runs, after=after, damaged=damaged, start=start):
            if run[0].seq > after:
                yield run
            elif wanted := [event for event in run if event.seq > after]:
                yield wanted


def read_referring(
    medium: SessionMedium, name: SessionName, held: SessionLog | None, *, cancel: CancelFlag | None
) -> Generator[list[Event]]:
    """Every event that refers to an object, and maybe others, some or none at a time.

    With every later line that parses, at damage; in the end that is raised all the same.
    """
    with medium.open(name) as log:
        scan = partial(_scan, medium, name, log, held, cancel)
        yield from _runs(scan, log, cancel, Scan.referring_runs, after=0, damaged="report")


def read_deferred(
    medium: SessionMedium,
    name: SessionName,
    held: SessionLog | None,
    *,
    after: int,
    damaged: Damaged,
    cancel: CancelFlag | None,
) -> Generator[list[Event] | Deferred[Event]]:
    """As `read_events`, but what can be decoded where it is wanted is left to whoever wants it."""
    read = partial(read_events, medium, name, held, after=after, damaged=damaged, cancel=cancel)
    if after > 0:  # what is passed over has to be told apart, event by event
        yield from read()
        return
    if held is not None and held.state is State.PENDING:
        return
    with medium.open(name) as log:
        scan = partial(_scan, medium, name, log, held, cancel)
        for run in _runs(scan, log, cancel, Scan.undecoded_runs, after=0, damaged=damaged):
            if isinstance(run, Undecoded):
                otherwise = partial(read, start=run.before)
                yield Deferred(len(run.lengths), len(run.lines), run.events, otherwise)
            else:
                yield run


def _runs(
    scan_log: Callable[[], Scan],
    log: LogReader,
    cancel: CancelFlag | None,
    runs_of: Callable[[Scan], Iterator[R]],
    *,
    after: int,
    damaged: DamagedOrReported,
    start: Position = BEGINNING,
) -> Generator[list[Event] | R]:
    """What `runs_of` yields of the events after `after`; maybe also some before."""
    try:
        scan = scan_log()
    except LogDamagedError:
        if damaged in _READ_ON:
            yield from _runs_of_one(resync(log, start, cancel=cancel))
        if damaged in _RAISED:
            raise
        return
    if start is not BEGINNING:
        scan.resume_at(start)
    elif after > 0 and damaged not in _READ_ON:  # which may find any `seq` anywhere
        scan.skip_to(after)
    yield from runs_of(scan)
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
            head_chain=BEGINNING.chain.hex(),
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
