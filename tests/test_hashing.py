"""HasherBeside: the same digest, whoever hashes, and no thread left behind."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator

import pytest

from attachstore import hashing
from attachstore.digest import Digest, Hasher
from attachstore.hashing import BESIDE_FROM_BYTES, HasherBeside

BLOCK = 512 << 10
DATA = os.urandom(BESIDE_FROM_BYTES + 1)


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    monkeypatch.setattr(hashing, "usable_cores", lambda: 2)
    yield
    assert threads() == []


def threads() -> list[str]:
    names = (thread.name for thread in threading.enumerate())
    return [name for name in names if name.startswith("attachstore-hash")]


def feed(hasher: HasherBeside, data: bytes) -> None:
    """As a reader with two buffers does."""
    buffers = bytearray(BLOCK), bytearray(BLOCK)
    for number, start in enumerate(range(0, len(data), BLOCK)):
        block = data[start : start + BLOCK]
        buffer = memoryview(buffers[number % 2])[: len(block)]
        buffer[:] = block
        hasher.update(buffer)


def test_a_thread_hashes_what_is_large_and_ends_with_it() -> None:
    for size_bytes, beside in ((BESIDE_FROM_BYTES - 1, []), (len(DATA), ["attachstore-hash_0"])):
        hasher = HasherBeside(size_bytes)
        feed(hasher, DATA[:size_bytes])

        assert threads() == beside
        assert hasher.digest() == Digest.of(DATA[:size_bytes])
        hasher.close()
        hasher.close()
        assert threads() == []


def test_without_a_second_core_there_is_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "usable_cores", lambda: 1)
    hasher = HasherBeside(len(DATA))

    feed(hasher, DATA)

    assert threads() == []
    assert hasher.digest() == Digest.of(DATA)


def test_without_a_thread_the_caller_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    hasher = HasherBeside(len(DATA))

    feed(hasher, DATA)

    assert hasher.digest() == Digest.of(DATA)


def test_what_goes_wrong_in_the_thread_is_raised_in_the_next_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("no memory for a hash")

    monkeypatch.setattr(Hasher, "update", fail)
    hasher = HasherBeside(len(DATA))
    hasher.update(memoryview(DATA)[:BLOCK])

    with pytest.raises(MemoryError):
        hasher.digest()
    hasher.close()


def test_closing_waits_for_the_block_that_is_being_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def linger(*_: object) -> None:
        begun.set()
        assert may_end.wait(60)
        ended.set()

    monkeypatch.setattr(Hasher, "update", linger)
    hasher = HasherBeside(len(DATA))
    hasher.update(memoryview(DATA)[:BLOCK])
    assert begun.wait(60)
    threading.Timer(0.05, may_end.set).start()

    hasher.close()

    assert ended.is_set()
