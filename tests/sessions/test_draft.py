"""Drafts become lines without a second pass; so what append returns is made beside them."""

from __future__ import annotations

import enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attachstore.errors import EventTooLargeError, InvalidEventError
from attachstore.sessions import record
from attachstore.sessions.draft import Head, draft, events_of, place
from tests.sessions.test_data import same, texts, values

TIME = "2026-11-30T12:00:00.000001Z"
types = texts.filter(bool)


@given(
    st.lists(st.tuples(types, values), min_size=1, max_size=4),
    st.integers(0, 2**40),
    st.booleans(),
)
def test_the_events_that_are_returned_are_those_that_a_reader_finds(
    items: list[tuple[str, Any]], seq: int, stamped: bool
) -> None:
    """Nobody reads a line back before it is written any more: this test stands in for that."""
    head = Head(seq, b"c" * 16, 1000)
    drafts = [
        draft(kind, data, where="s-1", event_bytes_max=1 << 20, time=TIME if stamped else None)
        for kind, data in items
    ]

    placed = place(drafts, head, time=TIME, where="s-1", event_bytes_max=1 << 20)

    found: list[Any] = []
    offset_bytes, chain = head.size_bytes, head.chain
    for number, line in enumerate(placed.lines, head.line + 1):
        found.append(
            record.decode_record(line[:-1], number=number, offset_bytes=offset_bytes, verified=True)
        )
        follows = record.chain_of(line[:-1], chain)
        assert follows is not None
        chain = follows
        offset_bytes += len(line)
    assert same(events_of(drafts, placed, head, TIME), found)
    assert placed.chains[-1] == placed.head.chain == chain
    assert placed.head == Head(seq + len(items), chain, offset_bytes)


class Kind(enum.StrEnum):
    NOTE = "note"


def test_a_type_that_is_a_member_of_an_enum_comes_back_as_plain_text() -> None:
    for kind in ("note", Kind.NOTE, "note"):
        found = draft(kind, 1, where="s-1", event_bytes_max=1000)
        assert (repr(found.type), found.type_json) == ("'note'", b'"note"')


@pytest.mark.parametrize("kind", ["", "\ud800", "\udfff" * 200], ids=["empty", "short", "long"])
def test_a_type_that_cannot_be_written_is_refused(kind: str) -> None:
    for _ in range(2):  # types are remembered; errors are not
        with pytest.raises(InvalidEventError) as caught:
            draft(kind, 1, where="s-1", event_bytes_max=1000)
        assert caught.value.pointer == "type"


def test_an_emitted_event_must_fit_wherever_it_comes_to_stand() -> None:
    line_bytes = 400
    longest = draft("m", "x" * 160, where="s-1", event_bytes_max=line_bytes, time=TIME)
    head = Head(2**63 - 3, b"c" * 16, 0)

    placed = place([longest] * 2, head, time="", where="s-1", event_bytes_max=line_bytes)

    assert max(map(len, placed.lines)) <= line_bytes
    with pytest.raises(EventTooLargeError):
        draft("m", "x" * 300, where="s-1", event_bytes_max=line_bytes, time=TIME)
