"""Digest: a value that is safe to use as a name."""

from __future__ import annotations

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from attachstore.digest import Digest, Hasher, checksum
from attachstore.errors import InvalidReferenceError

# The first 32 bytes of the empty input, from the BLAKE3 test vectors.
EMPTY = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"


def test_the_digest_of_nothing_is_the_published_one() -> None:
    """A wrong variant of BLAKE3 (keyed, derived) would make every store unreadable elsewhere."""
    assert Digest.of(b"").hex == EMPTY


@given(st.lists(st.binary(max_size=200)))
def test_blocks_hash_to_what_the_whole_hashes_to(blocks: list[bytes]) -> None:
    hasher = Hasher()
    for block in blocks:
        hasher.update(block)

    assert hasher.digest() == Digest.of(b"".join(blocks))


def test_the_written_form_comes_back() -> None:
    digest = Digest.of(b"x")

    assert Digest.parse(str(digest)) == digest
    assert str(digest).startswith("blake3:")


@pytest.mark.parametrize(
    "text",
    [
        "",
        EMPTY,
        "sha256:" + EMPTY,
        "blake3:" + EMPTY.upper(),
        "blake3:" + EMPTY[:-1],
        "blake3:" + EMPTY + "\n",
        "blake3:../../../../etc/passwd" + EMPTY[:40],
        "blake3:" + "٣" * 64,  # digits, and not ours
    ],
)
def test_nothing_but_a_digest_parses_as_one(text: str) -> None:
    """A digest becomes a path: a slash, a dot or a foreign digit must never get that far."""
    with pytest.raises(InvalidReferenceError):
        Digest.parse(text)


def test_a_digest_cannot_be_made_of_anything_else() -> None:
    with pytest.raises(ValueError, match="64 lower-case hex"):
        Digest("../" + EMPTY[3:])


def test_a_checksum_is_the_front_of_the_hash_of_its_parts() -> None:
    assert checksum(b"a", b"bc") == blake3(b"abc").digest()[:16]


def test_a_panic_of_the_library_is_a_memory_error() -> None:
    """It is a BaseException of Rust's, which no caller would catch."""

    class PanicException(BaseException):
        pass

    class Starved:
        def update(self, _: bytes) -> None:
            raise PanicException

    hasher = Hasher()
    hasher._state = Starved()  # pyright: ignore[reportAttributeAccessIssue] - stands in for it

    with pytest.raises(MemoryError):
        hasher.update(b"x")
