"""The tree of an event's data: bounded, but for attachments."""

from typing import Any

from attachstore.replay.markup import Html, element
from attachstore.replay.tree import DEPTH_MAX, FIELDS_MAX, TEXT_CHARS_MAX, Tree
from tests.replay.test_markup import Reader


def drawn(value: Any, *pointers: str) -> Reader:
    def card(pointer: str) -> Html:
        return element("figure", pointer)

    return Reader(Tree(pointers, card).value(value, ""))


def test_every_kind_of_value_is_shown() -> None:
    read = drawn({"text": "a", "number": 1.5, "yes": True, "none": None, "[]": [], "{}": {}})

    for expected in ("a", "1.5", "true", "null", "[]", "{}", "6 fields"):
        assert expected in read.text


def test_it_is_folded_unless_an_attachment_is_inside() -> None:
    read = drawn({"a": {"b": [1, None]}, "c": {"d": 1}}, "/a/b/1")

    folds = ["open" in attributes for tag, attributes in read.tags if tag == "details"]
    assert folds == [True, True, True, False]
    assert "/a/b/1" in read.text


def test_a_list_of_attachments_is_a_row_of_cards() -> None:
    read = drawn([None, None], "/0", "/1")

    assert [tag for tag, _ in read.tags] == ["div", "figure", "figure"]


def test_wide_and_deep_data_is_cut_and_says_so() -> None:
    """One event may hold a million values; nobody reads more than some."""
    wide = drawn({f"key {number}": number for number in range(5000)})
    value: Any = 1
    for _ in range(190):
        value = {"in": value}
    deep = drawn(value)
    long = drawn("x" * 100_000)

    assert sum(tag == "dt" for tag, _ in wide.tags) == FIELDS_MAX
    assert f"{5000 - FIELDS_MAX:,} more values not shown" in wide.text
    assert sum(tag == "details" for tag, _ in deep.tags) == DEPTH_MAX
    assert "1 value not shown" in deep.text
    assert len(long.text) < TEXT_CHARS_MAX + 50
    assert f"{100_000 - TEXT_CHARS_MAX:,} more characters" in long.text


def test_attachments_are_drawn_however_wide_or_deep() -> None:
    value: Any = None
    for _ in range(190):
        value = {"in": value}
    deep = drawn(value, "/in" * 190)
    wide = drawn([*range(5000), None], "/5000")

    assert "/in" * 190 in deep.text
    assert "/5000" in wide.text


def test_keys_are_pointer_tokens() -> None:
    """RFC 6901: ~ and / are written ~0 and ~1."""
    assert "/a~1b/~0" in drawn({"a/b": {"~": None}}, "/a~1b/~0").text
