"""Session ids become path segments: injective, short, harmless."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attachstore.digest import Digest
from attachstore.errors import InvalidSessionIdError
from attachstore.sessions.names import SessionName, escape

ids = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(
    lambda text: len(text.encode()) <= 512
)


@pytest.mark.parametrize(
    ("session_id", "segment"),
    [
        ("s-1", "s-1"),
        ("A.b_C-9", "A.b_C-9"),
        (".", "%2E"),
        ("..", "%2E."),
        ("../x", "%2E.%2Fx"),
        ("a b", "a%20b"),
        ("%41", "%2541"),
        ("x~y", "x%7Ey"),
        ("é", "%C3%A9"),
        ("a" * 200, "a" * 200),
        ("a" * 201, "a" * 100 + "~" + Digest.of(b"a" * 201).hex),
        ("é" * 40, ("%C3%A9" * 17)[:100] + "~" + Digest.of("é".encode() * 40).hex),
    ],
)
def test_the_escaping_is_fixed(session_id: str, segment: str) -> None:
    assert escape(session_id) == segment


@given(ids, ids)
def test_two_ids_never_share_a_segment(one: str, other: str) -> None:
    assert (escape(one) == escape(other)) == (one == other)


@given(ids)
def test_a_segment_is_a_harmless_file_name_that_leads_back(session_id: str) -> None:
    segment = escape(session_id)

    assert re.fullmatch(r"(?!\.)[A-Za-z0-9_.%~-]{1,200}", segment)
    found = SessionName.from_segment(segment)
    assert found is not None
    assert found.segment == segment
    assert found.is_hashed or found.id == session_id
    assert found.belongs_to(session_id)
    assert not found.belongs_to(session_id + "x"[: 512 - len(session_id.encode())] or "x" * 513)


@pytest.mark.parametrize(
    "segment",
    [".hidden", ".deleted-0", "a b", "%2e", "%41", "a%2", "é", "a/b", "", "a" * 201, "x~y", "%FF"],
)
def test_entries_that_no_id_leads_to_are_no_sessions(segment: str) -> None:
    assert SessionName.from_segment(segment) is None


@pytest.mark.parametrize(
    ("session_id", "reason"),
    [("", "empty"), ("a\0b", "NUL"), ("x" * 513, "513"), ("é" * 257, "514"), ("\ud800", "UTF-8")],
)
def test_what_is_no_id_is_refused(session_id: str, reason: str) -> None:
    with pytest.raises(InvalidSessionIdError, match=reason):
        escape(session_id)


@pytest.mark.parametrize("session_id", [None, 1, b"s-1"])
def test_an_id_of_another_type_is_a_wrong_call(session_id: object) -> None:
    with pytest.raises(TypeError):
        escape(session_id)  # type: ignore[arg-type] # a wrong call on purpose
