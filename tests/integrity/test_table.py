"""What a scan remembers of objects, and what logs claim about them, in memory or put aside."""

import copy
import pickle
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attachstore.digest import Digest
from attachstore.disk import Disk
from attachstore.errors import StorageIOError
from attachstore.integrity import claims as claims_module
from attachstore.integrity.claims import Claim
from attachstore.integrity.object_list import ObjectList
from attachstore.integrity.scratch import Scratch
from attachstore.integrity.table import Known, ObjectTable
from attachstore.reference import Reference

hex_digests = st.binary(min_size=32, max_size=32).map(lambda raw: Digest(raw.hex()))
# Digests that crowd at one end: all of them are in one shard.
crowded = st.binary(max_size=2).map(lambda tail: Digest((tail.rjust(32, b"\0")).hex()))


def digests(count: int) -> list[Digest]:
    return sorted(Digest.of(str(number).encode()) for number in range(count))


def reference(digest: Digest, *, width: int, height: int) -> Reference:
    return Reference(
        digest=digest, size=3, media_type="image/png", width=width, height=height, frames=2
    )


@given(st.sets(hex_digests | crowded, max_size=60), st.sampled_from([1, 200, 1 << 20]))
def test_a_list_holds_what_was_added_wherever_it_lies(
    added: set[Digest], memory_bytes: int
) -> None:
    expected = [(digest, size_bytes) for size_bytes, digest in enumerate(sorted(added))]
    listed = ObjectList(Scratch(memory_bytes=memory_bytes))
    for digest, size_bytes in expected:
        listed.append(digest, size_bytes)

    assert list(listed) == expected
    assert len(listed) == len(expected)
    assert listed.size_bytes == sum(size_bytes for _, size_bytes in expected)
    assert [listed[index] for index in range(-len(expected), len(expected))] == expected * 2
    for part in (slice(None), slice(1, 3), slice(3, 1), slice(None, None, -2), slice(-2, None)):
        assert listed[part] == expected[part]
    with pytest.raises(IndexError):
        listed[len(expected)]


def test_a_list_out_of_order_is_refused() -> None:
    """Objects would not be compared with what is said of them, and be called dangling."""
    first, second = digests(2)
    listed = ObjectList()
    listed.append(second, 1)

    with pytest.raises(ValueError, match="not above"):
        listed.append(first, 1)
    with pytest.raises(ValueError, match="not above"):
        listed.append(second, 1)


def test_a_list_that_comes_back_otherwise_ends_the_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects behind the odd one would be passed over, and the scan would say clean."""
    listed = [(digest, 1) for digest in digests(600)]
    listed[300] = (Digest("00" * 32), 1)
    table = ObjectTable()

    def otherwise(_: ObjectList) -> Iterator[tuple[Digest, int]]:
        return iter(listed)

    monkeypatch.setattr(ObjectList, "__iter__", otherwise)

    with pytest.raises(StorageIOError, match="does not come back in order"):
        list(table)


@pytest.mark.parametrize("memory_bytes", [1, 1 << 20])
def test_a_copy_of_a_list_outlives_it(memory_bytes: int) -> None:
    """It must not share a descriptor that the other one closes."""
    listed = ObjectList(Scratch(memory_bytes=memory_bytes))
    expected = [(digest, 7) for digest in digests(3)]
    for digest, size_bytes in expected:
        listed.append(digest, size_bytes)
    copies = [copy.deepcopy(listed), pickle.loads(pickle.dumps(listed))]
    listed.close()

    for other in copies:
        assert list(other) == expected
        assert other.size_bytes == 21
        with pytest.raises(ValueError, match="not above"):
            other.append(expected[0][0], 1)


def test_a_list_that_nobody_holds_lets_its_file_go() -> None:
    closed: list[int] = []

    class Watched(Disk):
        def close(self, descriptor: int) -> None:
            closed.append(descriptor)
            super().close(descriptor)

    listed = ObjectList(Scratch(Watched(), memory_bytes=1))
    listed.append(digests(1)[0], 1)
    assert closed == []

    del listed

    assert len(closed) == 1


def test_the_same_claim_made_often_is_kept_once() -> None:
    (digest,) = digests(1)
    table = ObjectTable()
    table.append(digest, 3)
    for _ in range(3):
        table.claim(reference(digest, width=4, height=5))

    assert list(table) == [Known(digest, 3, (Claim(3, "image/png", 4, 5),))]
    assert list(table.unreferenced()) == []


claims = st.builds(
    Claim,
    st.sampled_from([0, 3, 2**63 - 1]),
    st.sampled_from(["image/png", "text/plain"]),
    st.sampled_from([None, 1, 2**32, 2**63 - 1]),
    st.sampled_from([None, 1, 2**32]),
    st.sampled_from([None, 1]),
    st.sampled_from([None, 2**40]),
)
DIGESTS = digests(6)
LISTED = (0, 2, 3, 5)


@given(
    st.lists(st.tuples(st.integers(0, 5), claims | st.none())),
    st.sampled_from([1, 2, 3, 1000]),
    st.booleans(),
)
def test_all_different_claims_are_kept_for_listed_and_unlisted_objects(
    made: list[tuple[int, Claim | None]], lines_max: int, deep: bool
) -> None:
    """None: it is mentioned only, which claims nothing and keeps it from being unreferenced."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(claims_module, "LINES_MAX", lines_max)
        table = ObjectTable(deep=deep)
        for number in LISTED:
            table.append(DIGESTS[number], number)
        for number, claim in made:
            if claim is None:
                table.mention(DIGESTS[number])
            else:
                table.claim(claim.reference(DIGESTS[number]))

    for _ in range(2):  # it can be gone through as often as one likes
        found = list(table)
        order = [known.digest for known in found if known.size_bytes is not None]
        assert order == [DIGESTS[number] for number in LISTED]
        assert all(one.digest.hex[:2] <= other.digest.hex[:2] for one, other in pairwise(found))
        by_digest = {known.digest: known for known in found}
        assert len(by_digest) == len(found)
        for number, digest in enumerate(DIGESTS):
            said = [claim for which, claim in made if which == number]
            if number not in LISTED and not said:
                assert digest not in by_digest
                continue
            known = by_digest[digest]
            assert known.size_bytes == (number if number in LISTED else None)
            assert len(known.claims) == len(set(known.claims))
            assert set(known.claims) == {
                Claim.of(claim.reference(digest), deep=deep) for claim in said if claim is not None
            }
        mentioned = {which for which, _ in made}
        assert list(table.unreferenced()) == [
            (DIGESTS[number], number) for number in LISTED if number not in mentioned
        ]
    table.close()


@pytest.mark.parametrize("shard", ["00", "7f", "ff"])
def test_objects_of_the_first_and_the_last_shard_are_found(shard: str) -> None:
    """The bounds of the parts, where one more or less hides an object."""
    ends = [Digest(shard + "0" * 62), Digest(shard + "f" * 62)]
    table = ObjectTable()
    for digest in ends:
        table.append(digest, 3)
        table.claim(reference(digest, width=1, height=1))

    assert [(known.digest, len(known.claims)) for known in table] == [(it, 1) for it in ends]
