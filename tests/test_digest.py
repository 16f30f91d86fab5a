"""Digest: a value that is safe to use as a name."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from attachstore.digest import (
    SHARED_FROM_BYTES,
    Digest,
    Hasher,
    chained,
    chained_all,
    checksum,
    hex_digits,
)
from attachstore.errors import InvalidReferenceError
from tests.waiting import wait_until

# The first 32 bytes of the empty input, from the BLAKE3 test vectors.
EMPTY = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"


def test_the_digest_of_nothing_is_the_published_one() -> None:
    """A wrong variant of BLAKE3 (keyed, derived) would make every store unreadable elsewhere."""
    assert Digest.of(b"").hex == EMPTY


@pytest.mark.parametrize("size_bytes", [SHARED_FROM_BYTES - 1, SHARED_FROM_BYTES])
def test_many_bytes_hash_to_what_one_thread_hashes_them_to(size_bytes: int) -> None:
    data = bytes(range(256)) * (size_bytes // 256) + bytes(size_bytes % 256)
    blocks = Hasher(size_bytes)
    for start in range(0, size_bytes, 1 << 20):
        blocks.update(data[start : start + (1 << 20)])

    assert Digest.of(data).hex == blake3(data).hexdigest()
    assert blocks.digest() == Digest.of(data)


COUNTS_THREADS = """
import os, time
import attachstore.digest as digest
digest.usable_cores = lambda: 2
def threads():
    return len(os.listdir("/proc/self/task"))
few = digest.Hasher(digest.SHARED_FROM_BYTES - 1)
assert threads() == 1, threads()
many = digest.Hasher(digest.SHARED_FROM_BYTES)
assert threads() == 3, threads()
del few, many
deadline_s = time.monotonic() + 60
while threads() > 1:
    assert time.monotonic() < deadline_s, threads()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_threads_are_started_for_many_bytes_only_and_end_with_the_hash() -> None:
    subprocess.run([sys.executable, "-c", COUNTS_THREADS], check=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_hashes_what_its_parent_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads are not copied by a fork: a child that waited for its parent's would never end."""
    monkeypatch.setattr("attachstore.digest.usable_cores", lambda: 2)
    data = bytes(SHARED_FROM_BYTES)
    expected = Digest.of(data)

    child = os.fork()
    if child == 0:
        os._exit(0 if Digest.of(data) == expected else 1)

    wait_until(lambda: os.waitpid(child, os.WNOHANG) == (child, 0))


def test_without_threads_one_hashes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        pass

    def starved(*data: bytes, max_threads: int = 1) -> blake3:
        if max_threads > 1:
            raise PanicException
        return blake3(*data)

    monkeypatch.setattr("attachstore.digest.usable_cores", lambda: 2)
    monkeypatch.setattr("attachstore.digest.blake3", starved)
    data = bytes(SHARED_FROM_BYTES)

    assert Digest.of(data).hex == blake3(data).hexdigest()


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


def test_the_digits_of_a_small_block_are_those_of_its_digest() -> None:
    assert hex_digits(memoryview(b"abc")) == Digest.of(b"abc").hex


def test_a_checksum_is_the_front_of_the_hash_of_its_parts() -> None:
    assert checksum(b"a", b"bc") == blake3(b"abc").digest()[:16]


@given(st.binary(min_size=16, max_size=16), st.lists(st.binary(max_size=3000), max_size=5))
def test_a_chain_of_many_is_that_of_each(before: bytes, bodies: list[bytes]) -> None:
    one_by_one = [before]
    for body in bodies:
        one_by_one.append(chained(one_by_one[-1], body))

    assert chained_all(before, bodies) == one_by_one[1:]


class PanicException(BaseException):
    """As the library's own, which no `except Exception` catches."""


class Starved:
    """A hash that finds no memory for what it is asked."""

    def __init__(self, *_: bytes) -> None:
        return

    def reset(self) -> None:
        return

    def update(self, _: bytes) -> None:
        raise PanicException

    def hexdigest(self) -> str:
        raise PanicException

    def digest(self, _: int) -> bytes:
        raise PanicException


@pytest.mark.parametrize(
    "ask",
    [
        lambda: Digest.of(b"x"),
        lambda: Hasher().update(b"x"),
        lambda: Hasher().digest(),
        lambda: checksum(b"x"),
        lambda: chained(b"x", b"y"),
        lambda: chained_all(b"x", [b"y"]),
        lambda: hex_digits(b"x"),
    ],
    ids=["of", "update", "digest", "checksum", "chained", "chained_all", "hex_digits"],
)
def test_a_panic_of_the_library_is_a_memory_error(
    ask: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a BaseException of Rust's, which no caller would catch."""
    monkeypatch.setattr("attachstore.digest.blake3", Starved)

    with pytest.raises(MemoryError):
        ask()


def test_another_error_is_no_panic(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: bytes) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr("attachstore.digest.blake3", interrupted)

    with pytest.raises(KeyboardInterrupt):
        chained(b"x", b"y")
