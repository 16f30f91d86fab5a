"""What a session log says: events, its header, and what a look at it finds. Pure values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from attachstore.errors import AttachstoreError, LogDamagedError

TURN_PREFIX = "turn/"
TURN_START = "turn/start"
TURN_END = "turn/end"
INTERRUPTED: Mapping[str, str] = {"reason": "interrupted"}


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One event of a session log.

    A msgspec Struct, because a replay makes millions of them, and unknown to the garbage
    collector, which would look through all those that are on their way: it is freed when nobody
    refers to it, unless somebody puts it into its own `data`.

    `data` is any JSON value, with Reference objects where attachments were put. `time` is UTC
    in RFC 3339 form with microseconds. `chain` (32 hex digits) stands for this event and all
    before it: two logs with the same chain at the same `seq` have the same history.
    """

    seq: int
    """Position in the log, from 1, without gaps."""
    time: str
    type: str
    data: Any
    chain: str
    batch: int | None = None
    """`seq` of the first event of the append that wrote this one, if it wrote several."""
    has_references: bool = False
    """Whether `data` holds a Reference somewhere; most do not, and need not be searched."""
    verified: bool = True
    """Whether the chain proves that the event is the one written after its predecessor."""
    line: int
    """Line in the log, from 1; the header is line 1."""
    offset_bytes: int
    """Where the line begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """Where a fork branched off: its log begins with the parent's events up to `seq`."""

    id: str
    seq: int
    chain: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHeader:
    """First line of a log. `cwd` is the absolute working directory of its maker, if known."""

    id: str
    created_at: str
    cwd: str | None = None
    parent: Parent | None = None
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def title(self) -> str | None:
        """`meta["title"]`, if it is text."""
        title = self.meta.get("title")
        return title if isinstance(title, str) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """Bytes at the end that were never acknowledged. Readers ignore them, a load cuts them."""

    offset_bytes: int
    size_bytes: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """The first place in a log that no crash can explain. Only an explicit repair cuts it."""

    line: int
    offset_bytes: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """A log as one reading found it; making it changed nothing.

    Head, chain and time are those of the last event of the intact part. `closers` are the
    events that a load would add to close an interrupted turn; they are not in the log.
    """

    header: SessionHeader
    head_seq: int
    head_chain: str
    size_bytes: int
    last_time: str | None
    closers: tuple[Event, ...]
    tail: Tail | None
    damage: Damage | None

    @property
    def has_header(self) -> bool:
        """Whether the header could be read; else it says nothing but the id that was asked for."""
        return bool(self.header.created_at)

    def damage_up_to(self, at: int | None) -> Damage | None:
        """The damage, unless all events up to `at` (None: all there are) come before it."""
        is_behind = at is not None and at <= self.head_seq and self.has_header
        return None if is_behind else self.damage


def view_without_header(error: LogDamagedError) -> SessionView:
    """What can be said of a log whose header is damaged, as `error` says: where, and why."""
    damage = Damage(line=error.line, offset_bytes=error.offset_bytes, reason=error.reason)
    return SessionView(
        header=SessionHeader(id=error.session, created_at=""),
        head_seq=0,
        head_chain="",
        size_bytes=0,
        last_time=None,
        closers=(),
        tail=None,
        damage=damage,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """One line of a listing: what the header and the last line say. Nothing else was read.

    `problem` says why the session cannot be used as it is; then the other fields hold what
    could be found out.
    """

    id: str
    title: str | None
    meta: Mapping[str, Any]
    head_seq: int
    head_chain: str
    size_bytes: int
    last_time: str | None
    parent: Parent | None
    problem: AttachstoreError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport:
    """What an explicit repair cut off, and where it keeps the bytes (None: nothing was cut)."""

    id: str
    head_seq: int
    offset_bytes: int
    cut_bytes: int
    kept: str | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SealReport:
    """A sealed log: its history is the same as before, what it takes is not."""

    id: str
    head_seq: int
    head_chain: str
    size_bytes: int
    """Of the log that readers see."""
    stored_bytes: int
    """Of the file that holds it."""
