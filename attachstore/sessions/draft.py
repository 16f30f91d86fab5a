"""Draft: an event that was checked and encoded, waiting for its place in a log.

What the caller does to the data afterwards changes nothing: the draft holds bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attachstore.errors import EventTooLargeError, InvalidEventError
from attachstore.reference import Reference
from attachstore.sessions import data as event_data
from attachstore.sessions import record
from attachstore.sessions.event import Event

EVENT_BYTES_MAX = 16 << 20
"""Default limit of a whole log line, its line feed included."""


@dataclass(frozen=True, slots=True)
class Draft:
    type_json: bytes
    data_json: bytes
    references: tuple[Reference, ...]
    time: str | None = None
    """When it happened; None: when it is written. With it, a draft's place fixes its line."""

    @property
    def size_bytes(self) -> int:
        """What it takes in memory while it waits, for limits."""
        return len(self.type_json) + len(self.data_json)


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a log's acknowledged part."""

    seq: int
    chain: bytes
    size_bytes: int

    @property
    def line(self) -> int:
        """Of the last event; the header is line 1."""
        return self.seq + 1


def draft(type: str, data: object, *, where: str, event_bytes_max: int) -> Draft:  # noqa: A002
    """Check and encode an event. Raises InvalidEventError, EventTooLargeError."""
    if not isinstance(type, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
        message = f"an event's type is text, not {type.__class__.__name__}"
        raise TypeError(message)
    if not type:
        raise InvalidEventError(where=where, reason="the type is empty", pointer="type")
    try:
        type_json = event_data.encode_text(type)
    except UnicodeEncodeError:
        raise InvalidEventError(
            where=where, reason="a lone surrogate is not Unicode text", pointer="type"
        ) from None
    data_json, references = event_data.encode(data, where=where, bytes_max=event_bytes_max)
    return Draft(type_json, data_json, tuple(references))


def stamped(item: Draft, time: str, *, where: str, event_bytes_max: int) -> Draft:
    """The draft as of `time`, if its line will fit wherever in the log it comes to stand.

    Raises EventTooLargeError, also for the few bytes that only the longest numbers would need.
    """
    if _FRAME_BYTES + len(time) + item.size_bytes > event_bytes_max:
        raise EventTooLargeError(where=where, event_bytes_max=event_bytes_max)
    return Draft(item.type_json, item.data_json, item.references, time)


def _frame_bytes() -> int:
    longest = 2**63 - 1
    line, _ = record.encode_record(
        seq=longest,
        time="",
        type_json=b"",
        data_json=b"",
        batch=longest,
        chain=record.CHAIN_START,
    )
    return len(line)


_FRAME_BYTES = _frame_bytes()
"""A line without time, type and data, its numbers as long as they can be."""


def place(
    drafts: Sequence[Draft], head: Head, *, time: str, where: str, event_bytes_max: int
) -> tuple[bytes, list[Event], Head]:
    """The drafts' lines as they follow on `head`, their events, and the head after them.

    Raises EventTooLargeError.
    """
    batch = head.seq + 1 if len(drafts) > 1 else None
    lines: list[bytes] = []
    events: list[Event] = []
    for item in drafts:
        line, chain = record.encode_record(
            seq=head.seq + 1,
            time=item.time or time,
            type_json=item.type_json,
            data_json=item.data_json,
            batch=batch,
            chain=head.chain,
        )
        if len(line) > event_bytes_max:
            raise EventTooLargeError(where=where, event_bytes_max=event_bytes_max)
        lines.append(line)
        # Read back before anything is written: what cannot be read is no event.
        events.append(
            record.decode_record(
                line[:-1], number=head.line + 1, offset_bytes=head.size_bytes, verified=True
            )
        )
        head = Head(head.seq + 1, chain, head.size_bytes + len(line))
    return b"".join(lines), events, head
