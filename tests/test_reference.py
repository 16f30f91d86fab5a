"""Reference: strict on the way in, exact on the way out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attachstore.digest import Digest
from attachstore.errors import InvalidNameError, InvalidReferenceError
from attachstore.reference import Reference

DIGEST = Digest.of(b"x")
GOOD: dict[str, Any] = {"digest": str(DIGEST), "size": 1, "media_type": "text/plain"}
COUNTS = st.none() | st.integers(1, 2**63 - 1)


@given(
    st.builds(
        Reference,
        digest=st.binary(max_size=8).map(Digest.of),
        size=st.integers(0, 2**63 - 1),
        media_type=st.sampled_from(["text/plain", "image/svg+xml", "application/x-ndjson"]),
        width=COUNTS,
        height=COUNTS,
        frames=COUNTS,
        pages=COUNTS,
        name=st.none() | st.text(max_size=200),
    )
)
def test_every_reference_comes_back_from_its_written_form(reference: Reference) -> None:
    assert Reference.from_json(reference.to_json()) == reference


def test_absent_fields_are_left_out() -> None:
    reference = Reference(digest=DIGEST, size=1, media_type="text/plain")

    assert reference.to_json() == {"$attach": GOOD}


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        "blake3:…",
        {},
        {**GOOD, "digest": DIGEST.hex},
        {**GOOD, "digest": None},
        {**GOOD, "size": -1},
        {**GOOD, "size": True},
        {**GOOD, "size": 1.0},
        {**GOOD, "size": "1"},
        {**GOOD, "size": 2**63},
        {**GOOD, "media_type": "IMAGE/PNG"},
        {**GOOD, "media_type": "image/png; x=y"},
        {**GOOD, "media_type": "png"},
        {**GOOD, "width": 0},
        {**GOOD, "width": None},
        {**GOOD, "name": 7},
        {**GOOD, "name": "\ud800"},
        {**GOOD, "name": "é" * 513},
        {**GOOD, "colour": "red"},
    ],
)
def test_what_is_not_exactly_a_reference_is_refused(body: object) -> None:
    """A reference read loosely is a reference changed silently."""
    with pytest.raises(InvalidReferenceError):
        Reference.from_json({"$attach": body})


@pytest.mark.parametrize("value", [None, [], 7, {}, {"$attach": GOOD, "more": 1}, {"attach": GOOD}])
def test_only_an_object_with_that_one_key_is_a_reference(value: object) -> None:
    with pytest.raises(InvalidReferenceError):
        Reference.from_json(value)


def test_the_error_says_what_is_wrong_with_it() -> None:
    with pytest.raises(InvalidReferenceError, match="must be an object"):
        Reference.from_json({"$attach": 1})


def test_a_name_is_kept_code_point_for_code_point() -> None:
    """Narrow no-break spaces, NFD and bidi marks are what users' files are called."""
    for name in ("Screenshot 9.41\u202fAM.png", "u\u0308.txt", "../x", "a\u202eb", "\x00", "CON"):
        assert (
            Reference.from_json(
                Reference(digest=DIGEST, size=1, media_type="text/plain", name=name).to_json()
            ).name
            == name
        )


def test_a_name_of_1_024_bytes_is_kept_and_one_more_is_refused() -> None:
    Reference(digest=DIGEST, size=1, media_type="text/plain", name="é" * 512)

    with pytest.raises(InvalidNameError):
        Reference(digest=DIGEST, size=1, media_type="text/plain", name="é" * 512 + "x")
