"""Draft: an event that was checked and encoded, waiting for its place in a log.

What the caller does to the data afterwards changes nothing: the draft holds bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from attachstore.errors import EventTooLargeError, InvalidEventError
from attachstore.reference import Reference
from attachstore.sessions import data as event_data
from attachstore.sessions import record
from attachstore.sessions.event import Event

EVENT_BYTES_MAX = 16 << 20
"""Default limit of a whole log line, its line feed included."""


class Draft(msgspec.Struct, frozen=True, gc=False):
    """Thousands wait in a queue, so it is a Struct that the garbage collector passes over."""

    type: str
    type_json: bytes
    data_json: bytes
    references: tuple[Reference, ...]
    size_bytes: int
    """What it takes in memory while it waits, for limits."""
    time: str | None = None
    """When it happened; None: when it is written. With it, a draft's place fixes its line."""


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


def pair_of(event: object) -> tuple[str, object]:
    """One of several events, given as (type, data). Raises TypeError: text would do, too."""
    found = type(event).__name__
    if isinstance(event, tuple | list):
        pair = cast("Sequence[Any]", event)
        if len(pair) == 2:  # noqa: PLR2004 - a pair
            return pair[0], pair[1]
        found += f" of {len(pair)}"
    message = f"each event is a pair (type, data), not {found}"
    raise TypeError(message)


def draft(
    type: str,  # noqa: A002 - the name of the field
    data: object,
    *,
    where: str,
    event_bytes_max: int,
    time: str | None = None,
) -> Draft:
    """Check and encode an event. Raises InvalidEventError, EventTooLargeError.

    As of `time`, its line must fit wherever in the log it comes to stand: it may be too large
    for the few bytes that only the longest numbers would need.
    """
    if not isinstance(type, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
        message = f"an event's type is text, not {type.__class__.__name__}"
        raise TypeError(message)
    if not type:
        raise InvalidEventError(where=where, reason="the type is empty", pointer="type")
    try:
        plain_type, type_json = (_kept_type if len(type) <= _KEPT_TYPE_MAX else _encode_type)(type)
    except UnicodeEncodeError:
        raise InvalidEventError(
            where=where, reason="a lone surrogate is not Unicode text", pointer="type"
        ) from None
    data_json, references = event_data.encode(data, where=where, bytes_max=event_bytes_max)
    size_bytes = len(type_json) + len(data_json)
    if time is not None and _FRAME_BYTES + len(time) + size_bytes > event_bytes_max:
        raise EventTooLargeError(where=where, event_bytes_max=event_bytes_max)
    return Draft(plain_type, type_json, data_json, tuple(references), size_bytes, time)


def _encode_type(type: str) -> tuple[str, bytes]:  # noqa: A002 - as in `draft`
    """The type as it will be read, and its JSON. Raises UnicodeEncodeError."""
    type_json = event_data.encode_text(type)
    return event_data.decode(type_json), type_json


_KEPT_TYPE_MAX = 100
_kept_type = functools.lru_cache(maxsize=256)(_encode_type)  # a runtime has a handful of them


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


class Placed(msgspec.Struct, frozen=True, gc=False):
    """Drafts as the lines they become behind a certain event."""

    lines: list[bytes]
    chains: list[bytes]
    head: Head
    """The end of the log with them."""


def place(
    drafts: Sequence[Draft], head: Head, *, time: str, where: str, event_bytes_max: int
) -> Placed:
    """The drafts as they follow on `head`. Raises EventTooLargeError.

    Each is encoded once, into what `draft` made of it, and hashed once.
    """
    batch = head.seq + 1 if len(drafts) > 1 else None
    lines: list[bytes] = []
    chains: list[bytes] = []
    size_bytes, chain = head.size_bytes, head.chain
    for seq, item in enumerate(drafts, head.seq + 1):
        line, chain = record.encode_record(
            seq=seq,
            time=item.time or time,
            type_json=item.type_json,
            data_json=item.data_json,
            batch=batch,
            chain=chain,
        )
        if len(line) > event_bytes_max:
            raise EventTooLargeError(where=where, event_bytes_max=event_bytes_max)
        size_bytes += len(line)
        lines.append(line)
        chains.append(chain)
    return Placed(lines, chains, Head(head.seq + len(lines), chain, size_bytes))


def events_of(drafts: Sequence[Draft], placed: Placed, head: Head, time: str) -> list[Event]:
    """The events that the drafts are on the lines that `place` put behind `head`."""
    batch = head.seq + 1 if len(drafts) > 1 else None
    events: list[Event] = []
    offset_bytes = head.size_bytes
    for number, (item, line, chain) in enumerate(
        zip(drafts, placed.lines, placed.chains, strict=True), 1
    ):
        events.append(
            Event(
                seq=head.seq + number,
                time=item.time or time,
                type=item.type,
                data=event_data.decode(item.data_json),
                chain=chain.hex(),
                batch=batch,
                has_references=bool(item.references),
                line=head.line + number,
                offset_bytes=offset_bytes,
            )
        )
        offset_bytes += len(line)
    return events
