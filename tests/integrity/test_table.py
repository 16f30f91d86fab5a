"""The arrays in which a scan remembers objects, and what logs claim about them."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attachstore.digest import Digest
from attachstore.integrity.table import Claim, ObjectList, ObjectTable
from attachstore.reference import Reference

hex_digests = st.binary(min_size=32, max_size=32).map(lambda raw: Digest(raw.hex()))
# Digests that crowd at one end: the search guesses by value and must not rely on the guess.
crowded = st.binary(max_size=2).map(lambda tail: Digest((tail.rjust(32, b"\0")).hex()))


def digests(count: int) -> list[Digest]:
    return sorted(Digest.of(str(number).encode()) for number in range(count))


def reference(digest: Digest, *, width: int, height: int) -> Reference:
    return Reference(
        digest=digest, size=3, media_type="image/png", width=width, height=height, frames=2
    )


@given(st.sets(hex_digests | crowded, max_size=60), st.lists(hex_digests | crowded, max_size=20))
def test_every_listed_digest_is_found_and_no_other(
    listed: set[Digest], others: list[Digest]
) -> None:
    table = ObjectList()
    for size_bytes, digest in enumerate(sorted(listed)):
        table.append(digest, size_bytes)

    for index, digest in enumerate(sorted(listed)):
        assert table.find(digest) == index
        assert table[index] == (digest, index)
    for digest in set(others) - listed:
        assert table.find(digest) is None


def test_a_list_out_of_order_is_refused() -> None:
    """The search would miss objects, and a scan call them dangling."""
    first, second = digests(2)
    table = ObjectList()
    table.append(second, 1)

    with pytest.raises(ValueError, match="not above"):
        table.append(first, 1)
    with pytest.raises(ValueError, match="not above"):
        table.append(second, 1)


def test_the_same_claim_made_often_is_kept_once() -> None:
    (digest,) = digests(1)
    table = ObjectTable()
    table.append(digest, 3)
    for _ in range(3):
        table.claim(reference(digest, width=4, height=5))

    assert table.claims(0) == (Claim(3, "image/png", 4, 5),)
    assert table.is_referenced(0)


claims = st.builds(
    Claim,
    st.sampled_from([0, 3, 2**63 - 1]),
    st.sampled_from(["image/png", "text/plain"]),
    st.sampled_from([None, 1, 2**32 - 1, 2**32, 2**63 - 1]),
    st.sampled_from([None, 1, 2**32]),
)


@given(st.lists(st.tuples(st.integers(0, 3), claims)))
def test_all_different_claims_are_kept_for_listed_and_unlisted_objects(
    made: list[tuple[int, Claim]],
) -> None:
    """Also those that do not fit the arrays: other sizes, sides of 2**32 and more."""
    known = digests(4)
    table = ObjectTable()
    for digest in known[:3]:
        table.append(digest, 3)
    for number, claim in made:
        table.claim(claim.reference(known[number]))

    for number in range(3):
        expected = {claim for which, claim in made if which == number}
        assert set(table.claims(number)) == expected
        assert len(table.claims(number)) == len(expected)
        assert table.is_referenced(number) == bool(expected)
    unlisted = {claim for which, claim in made if which == 3}
    assert table.unlisted == ({known[3]: unlisted} if unlisted else {})


def test_an_object_costs_at_most_64_bytes_of_memory() -> None:
    """50 by the docstring; arrays grow ahead of need by an eighth."""
    listed = digests(20_000)
    references = [reference(digest, width=1, height=1) for digest in listed]
    tracemalloc.start()
    try:
        table = ObjectTable()
        for digest, made in zip(listed, references, strict=True):
            table.append(digest, 3)
            table.claim(made)
        used_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert used_bytes / len(listed) < 64
