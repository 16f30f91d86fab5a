"""Any JSON value comes back as it was, references at any depth, look-alikes too."""

from __future__ import annotations

import contextlib
import enum
import json
from collections import OrderedDict
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attachstore.digest import Digest
from attachstore.errors import EventTooLargeError, InvalidEventError
from attachstore.reference import Reference
from attachstore.sessions.data import (
    BadDataError,
    encode,
    from_wire,
    references_in,
    strict_json,
)
from attachstore.sessions.data import decode as decode_own

REFERENCE = Reference(
    digest=Digest.of(b"x"), size=1, media_type="image/png", width=3, height=2, name="caf\u00e9 ~/\n"
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
keys = texts | st.sampled_from(["$attach", "$$attach", "$$$attach", "attach", "$attach2", "", "$"])
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | st.just(REFERENCE)
)
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=4)
        | st.dictionaries(keys, inner, min_size=1, max_size=1)
    ),
    max_leaves=20,
)


def decode(encoded: bytes) -> Any:
    return from_wire(msgspec.json.decode(encoded))


def same(one: Any, other: Any) -> bool:
    """Equality that tells 1 from 1.0 and True, and 0.0 from -0.0, and sees the order of keys."""
    return repr(one) == repr(other)


@given(values)
@example({"$attach": REFERENCE})
@example({"$attach": {"digest": "blake3:" + "0" * 64, "size": 1, "media_type": "a/b"}})
@example([{"$attach": 1}, {"$$attach": {"$$$attach": None}}, {"$attach": 1, "b": 2}])
@example(REFERENCE)
@example([REFERENCE.to_json()])
@example([1e16, 1.0, -0.0, 5e-324, 1.7976931348623157e308, 2**53 + 1, -(2**63)])
def test_any_value_round_trips(value: Any) -> None:
    encoded, found = encode(value, where="s-1")

    assert same(decode(encoded), value)
    assert found == [reference for _, reference in references_in(value)]
    assert same(from_wire(strict_json(encoded)), value)
    assert same(decode_own(encoded), value)
    assert json.loads(encoded) is not ..., "any other JSON parser reads it too"


@given(values)
def test_nothing_a_user_writes_is_taken_for_a_reference(value: Any) -> None:
    """What was written of plain JSON, as other software hands it on, holds no references."""
    plain = json.loads(encode(value, where="s-1")[0])

    encoded, found = encode(plain, where="s-1")

    assert found == []
    assert same(decode(encoded), plain)


def test_the_written_form_is_fixed() -> None:
    value = {"a": [REFERENCE.without_name(), {"$attach": 1}, {"$$attach": 2}], "\u00e9": 1.5}

    reference = (
        f'{{"digest":"{REFERENCE.digest}","size":1,"media_type":"image/png","width":3,"height":2}}'
    )
    expected = (
        f'{{"a":[{{"$attach":{reference}}},{{"$$attach":1}},{{"$$$attach":2}}],"\u00e9":1.5}}'
    )
    assert encode(value, where="s-1")[0] == expected.encode()


class Colour(enum.StrEnum):
    RED = "red"


def nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"k": value}
    return value


UNWRITABLE: list[tuple[Any, str, str]] = [
    ({"a": [0, float("nan")]}, "/a/1", "nan"),
    ({"a/b": {"~": float("-inf")}}, "/a~1b/~0", "-inf"),
    ({"a": "\ud800"}, "/a", "surrogate"),
    ([{"\udfff": 1}], "/0", "surrogate"),
    ({"n": 2**63}, "/n", "64 bits"),
    ({"n": -(2**63) - 1}, "/n", "64 bits"),
    ({"n": 10**5000}, "/n", "64 bits"),
    (nested(201), "/k/0" * 100, "200"),
    ([(1, 2)], "/0", "tuple"),
    ({"b": b"bytes"}, "/b", "bytes"),
    ({"s": {1}}, "/s", "set"),
    ({"o": OrderedDict(a=1)}, "/o", "OrderedDict"),
    ([Colour.RED], "/0", "Colour"),
    ({1: 2}, "the top", "int"),
    ({"a": {None: 2}}, "/a", "NoneType"),
    ({"a": object()}, "/a", "object"),
]


@pytest.mark.parametrize(
    ("value", "pointer", "reason"),
    UNWRITABLE,
    ids=lambda value: None if not isinstance(value, str) else value[:10],
)
def test_what_would_not_come_back_exactly_is_refused(value: Any, pointer: str, reason: str) -> None:
    with pytest.raises(InvalidEventError, match=reason) as refused:
        encode(value, where="s-1")

    assert refused.value.pointer == pointer


def test_200_levels_are_written_and_read() -> None:
    """A reference counts as the two levels it takes."""
    deep, found = encode(nested(200), where="s-1")

    assert decode(deep) == nested(200)
    assert found == []
    value: Any = REFERENCE
    for _ in range(198):
        value = [value]
    assert len(encode(value, where="s-1")[1]) == 1
    with pytest.raises(InvalidEventError, match="200"):
        encode([value], where="s-1")


def test_a_value_that_contains_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)

    with pytest.raises(InvalidEventError, match="200"):
        encode(value, where="s-1")


def test_a_deep_stack_of_the_caller_is_no_recursion_error() -> None:
    def deeper(levels: int) -> None:
        if levels:
            deeper(levels - 1)
        else:
            encode(nested(199), where="s-1")

    with pytest.raises(InvalidEventError, match="stack"):
        deeper(780)


def test_the_limit_is_on_the_encoded_bytes() -> None:
    encode("x" * 98, where="s-1", bytes_max=100)
    with pytest.raises(EventTooLargeError):
        encode("\u00e9" * 50, where="s-1", bytes_max=100)


@pytest.mark.parametrize(
    "raw",
    [
        b"NaN",
        b"[Infinity]",
        b"1e999",
        b"-1e999",
        b"9" * 5000,
        b"9223372036854775808",
        b"-9223372036854775809",
        b'{"a":1,"a":2}',
        b'"\\ud800"',
        b'"\xed\xa0\x80"',
        b'"\xff"',
        b'"\n"',
        b"\xef\xbb\xbf1",
        b"[" * 201 + b"]" * 201,
        b"[" * 100_000,
        b"",
        b"1 2",
        b"01",
    ],
)
def test_strict_reading_refuses_what_json_leaves_open(raw: bytes) -> None:
    with pytest.raises(BadDataError):
        strict_json(raw)


@pytest.mark.parametrize("raw", [b'{"a":"\\ud800"}', b'{"a":'])
def test_what_is_missing_at_the_end_is_said_in_words_that_hold(raw: bytes) -> None:
    with pytest.raises(BadDataError, match="ends too early, or in half of a surrogate pair"):
        strict_json(raw)


@given(st.binary(max_size=40) | st.text(max_size=20).map(str.encode))
def test_strict_reading_of_anything_raises_nothing_else(raw: bytes) -> None:
    with contextlib.suppress(BadDataError):
        from_wire(strict_json(raw))


@pytest.mark.parametrize(
    "body",
    [1, {}, {"digest": "blake3:1"}, {**REFERENCE.to_json()["$attach"], "size": True}, None, []],
)
def test_an_unescaped_look_alike_in_a_log_is_no_data(body: Any) -> None:
    with pytest.raises(BadDataError, match="reference"):
        from_wire([{"$attach": body}])


def test_pointers_lead_to_references_in_document_order() -> None:
    data = {"a/b": [1, REFERENCE], "~": {"x": REFERENCE}, "z": REFERENCE}

    assert [pointer for pointer, _ in references_in(data)] == ["/a~1b/1", "/~0/x", "/z"]
    assert list(references_in(REFERENCE)) == [("", REFERENCE)]
