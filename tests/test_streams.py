"""Streams: sources that misbehave, and a store that goes first."""

from __future__ import annotations

import contextlib
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Self

import pytest

from attachstore import Store, streams
from attachstore.errors import ResourceExhaustedError, SourceUnreadableError

MIB = 1 << 20


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with Store.open(tmp_path / "store") as store:
        yield store


class _Failing(io.RawIOBase):
    """A file as gzip, zipfile or a host's own class may be: `read` does what it is told."""

    def __init__(self, outcome: Exception | None) -> None:
        super().__init__()
        self._outcome = outcome

    def read(self, size: int = -1, /) -> bytes | None:
        if self._outcome is not None:
            raise self._outcome
        return None  # what a non-blocking file says that has nothing yet


@pytest.mark.parametrize("outcome", [EOFError("cut"), RuntimeError("odd"), OSError(5, "x"), None])
async def test_a_file_that_fails_says_so_and_leaves_nothing(
    store: Store, outcome: Exception | None
) -> None:
    """gzip raises EOFError and zlib.error; None is no end: the rest would be lost unnoticed."""
    with pytest.raises(SourceUnreadableError):
        await store.attach(_Failing(outcome), declared="text/plain")

    assert not [digest async for digest in store.list()]


class _NoMemory(bytearray):
    def __iadd__(self, other: object) -> Self:
        raise MemoryError


async def test_no_memory_for_what_waits_is_told_as_such(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is not taken for the source's fault."""

    async def source() -> AsyncIterator[bytes]:
        yield b"text"

    monkeypatch.setattr(streams, "bytearray", _NoMemory, raising=False)
    with pytest.raises(ResourceExhaustedError):
        await store.attach(source(), declared="text/plain")


def descriptors_below(root: Path) -> list[str]:
    found: list[str] = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            target = str(link.readlink())
            found += [target] if target.startswith(str(root)) else []
    return found


async def test_a_store_closed_under_its_streams_leaves_no_descriptor(tmp_path: Path) -> None:
    """A runtime that shuts down closes the store first; what its tasks hold comes after."""
    store = await Store.open(tmp_path / "store")
    reference = await store.attach(b"text " * 2 * MIB)

    async def source() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"more text " * (MIB // 4)
        await store.close()
        yield b"end"

    async with store.open_attachment(reference):
        with pytest.raises(ValueError, match="closed"):
            await store.attach(source())

    assert descriptors_below(store.root) == []
