"""replay: a session read back, each of its references resolved to a typed outcome.

    session log ──events──▶ Event ──resolve──▶ Step ──▶ export, page, or whoever asked

Nothing is executed and nothing is written, repaired or locked: a read-only copy of a store is
enough. Memory is bounded, whatever the length of the session.

 (1) Every reference of an event appears in its step, in the order of the event's data.
 (2) `ok` means: all bytes were read, they hash to the digest, and size, type and pixels are
     those the log says, as by `ObjectStore.read`.
 (3) Equal references (but for their names) are verified once, the outcome is remembered. What
     was `unreadable` is tried again: the medium may have come back.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from attachstore.arguments import check_int
from attachstore.deferred import Deferred
from attachstore.errors import (
    AttachstoreError,
    HeaderMismatchError,
    LogDamagedError,
    ObjectCorruptError,
    ObjectMissingError,
    SequenceConflictError,
)
from attachstore.errors.stored import BEYOND_HEAD
from attachstore.objects.store import ObjectStore
from attachstore.reference import Reference
from attachstore.sessions.data import references_in
from attachstore.sessions.event import Event, SessionView
from attachstore.sessions.logs import SessionLogs
from attachstore.sessions.reading import Damaged
from attachstore.threads import CancelFlag

REMEMBERED_MAX = 65_536
"""Outcomes kept; beyond it the one not asked for longest is forgotten and verified again."""


class Outcome(StrEnum):
    """What became of one reference."""

    OK = "ok"
    MISSING = "missing"
    CORRUPT = "corrupt"
    HEADER_MISMATCH = "header-mismatch"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """One reference of an event; `error` says why, unless the outcome is `ok`."""

    reference: Reference
    pointer: str
    """Where it is in the event's data: a JSON pointer (RFC 6901)."""
    outcome: Outcome
    error: AttachstoreError | None = None


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """An event and what became of its references. A Struct, because there are as many as events.

    The garbage collector has to know those with attachments: an error leads back to its step.
    """

    event: Event
    attachments: tuple[Resolved, ...]

    @property
    def error(self) -> AttachstoreError | None:
        """That of the first attachment that is not `ok`."""
        return next((each.error for each in self.attachments if each.error is not None), None)


def replay(
    logs: SessionLogs,
    objects: ObjectStore,
    session_id: str,
    *,
    at: int | None = None,
    damaged: Damaged = "raise",
    cancel: CancelFlag | None = None,
    resolver: Resolver | None = None,
) -> Generator[list[Step]]:
    """Read the session back up to event `at`, or all of it, resolving every reference.

    Yields some steps at a time, never none. One with attachments comes alone.

    With the `resolver` of another replay what that one verified is not verified again.

    A reference that does not resolve is an outcome, not an exception; `strict` makes it one.
    Damage in the log: "raise" yields the events before it, then raises; "stop" ends there
    quietly; "resync" goes on with every later event that parses (`event.verified` is False for
    those not chained to their predecessor). Damage after `at` is not looked at.

    Raises:
        SessionMissingError, LogDamagedError, UnavailableError: about the log itself.
        SequenceConflictError: after the last event, if `at` is beyond it.
    """
    if at is not None:
        check_int("at", at, 0)
    events = logs.runs(session_id, damaged=damaged, cancel=cancel)
    steps = _steps(events, resolver or Resolver(objects), at, cancel)
    return steps if at is None else _up_to(at, steps, logs, session_id, cancel)


def replay_deferred(
    logs: SessionLogs,
    resolver: Resolver,
    session_id: str,
    *,
    lenient: bool,
    cancel: CancelFlag,
) -> Generator[list[Step] | Deferred[Step]]:
    """As `replay` of all of it, `strict` unless `lenient`, for `Worker.iterate_runs`.

    Steps without attachments are made where they are used, as their events are.
    """
    damaged = "resync" if lenient else "raise"
    events = logs.deferred_runs(session_id, damaged=damaged, cancel=cancel)

    def judged(steps: Generator[list[Step]]) -> Generator[list[Step]]:
        return steps if lenient else strict(steps)

    with contextlib.closing(events):
        for run in events:
            if isinstance(run, Deferred):
                yield run.then(
                    _without_attachments, lambda runs: judged(_steps(runs, resolver, None, cancel))
                )
            else:
                yield from judged(resolver.steps(run, cancel))


def check_at(view: SessionView, at: int | None, where: str) -> None:
    """Raises SequenceConflictError if the log, at `where`, is whole and ends before event `at`."""
    if at is not None and at > view.head_seq and view.damage is None:
        raise SequenceConflictError(
            where=where,
            session=view.header.id,
            expected_seq=at,
            head_seq=view.head_seq,
            hint=BEYOND_HEAD,
        )


def strict(runs: Generator[list[Step]]) -> Generator[list[Step]]:
    """The same steps; after the first with an attachment that is not `ok`, its error is raised."""
    with contextlib.closing(runs):  # the error would keep it, and it the log, open
        for run in runs:
            yield run
            error = run[-1].error
            if error is not None:
                raise error


def drain(steps: Iterable[Step], add: Callable[[Step], object]) -> AttachstoreError | None:
    """Hand every step to `add`; return the error that the steps ended in, if they did.

    An error that `add` raises is raised.
    """
    pending = iter(steps)
    while True:
        try:
            step = next(pending, None)
        except AttachstoreError as error:
            return error
        if step is None:
            return None
        add(step)


def _steps(
    runs: Generator[list[Event]], resolver: Resolver, at: int | None, cancel: CancelFlag | None
) -> Generator[list[Step]]:
    with contextlib.closing(runs):
        if at == 0:
            return
        for run in runs:
            wanted, ended = _wanted(run, at)
            yield from resolver.steps(wanted, cancel)
            if ended:
                return


def _without_attachments(events: list[Event]) -> list[Step]:
    return [Step(event=event, attachments=()) for event in events]


def _wanted(run: list[Event], at: int | None) -> tuple[list[Event], bool]:
    """Those up to event `at`; and whether nothing more is read: the next line may be damaged."""
    if at is None or run[-1].seq < at:
        return run, False
    reached = any(event.seq >= at and event.verified for event in run)
    return [event for event in run if event.seq <= at], reached


def _up_to(
    at: int,
    runs: Generator[list[Step]],
    logs: SessionLogs,
    session_id: str,
    cancel: CancelFlag | None,
) -> Generator[list[Step]]:
    """The same steps; a log that ends too early is no shorter session, but a wrong `at`."""
    last_seq = 0
    with contextlib.closing(runs):
        for run in runs:
            last_seq = max(last_seq, run[-1].event.seq)
            yield run
    if last_seq < at:  # rare, so the log may be read once more to see whether it is damaged
        with contextlib.suppress(LogDamagedError):  # the header is: who knows where the log ended
            check_at(logs.inspect(session_id, cancel=cancel), at, logs.where(session_id))


class Resolver:
    """Verifies references, each distinct one once. Not for two threads at once."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._known: OrderedDict[Reference, tuple[Outcome, AttachstoreError | None]] = OrderedDict()

    def steps(
        self, events: Iterable[Event], cancel: CancelFlag | None = None
    ) -> Generator[list[Step]]:
        """The events with what became of their references; one that has some comes alone.

        So that those before it are seen before its attachments are read: they may be large.
        """
        plain: list[Event] = []
        for event in events:
            if not event.has_references:  # as most
                plain.append(event)
                continue
            if plain:
                yield _without_attachments(plain)
                plain = []
            yield [self.step(event, cancel)]
        if plain:
            yield _without_attachments(plain)

    def step(self, event: Event, cancel: CancelFlag | None = None) -> Step:
        """The event with what became of its references."""
        attachments: list[Resolved] = []
        for pointer, reference in references_in(event.data):
            outcome, error = self.resolve(reference, cancel)
            attachments.append(
                Resolved(reference=reference, pointer=pointer, outcome=outcome, error=error)
            )
        return Step(event=event, attachments=tuple(attachments))

    def resolve(
        self, reference: Reference, cancel: CancelFlag | None = None
    ) -> tuple[Outcome, AttachstoreError | None]:
        """The outcome and its error. Costs one read and hash of the object, the first time."""
        key = reference.without_name()
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            return known
        error = self._verify(reference, cancel)
        found = outcome_of(error), error
        if found[0] is not Outcome.UNREADABLE:
            self._known[key] = found
            if len(self._known) > REMEMBERED_MAX:
                self._known.popitem(last=False)
        return found

    def _verify(self, reference: Reference, cancel: CancelFlag | None) -> AttachstoreError | None:
        try:
            self._objects.stream(reference, cancel).close()
        except AttachstoreError as error:
            return error
        return None


def outcome_of(error: AttachstoreError | None) -> Outcome:
    """The outcome that an error from reading an object stands for; none stands for `ok`."""
    if error is None:
        return Outcome.OK
    if isinstance(error, ObjectMissingError):
        return Outcome.MISSING
    if isinstance(error, ObjectCorruptError):
        return Outcome.CORRUPT
    if isinstance(error, HeaderMismatchError):
        return Outcome.HEADER_MISMATCH
    return Outcome.UNREADABLE
