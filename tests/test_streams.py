"""Streams: sources that misbehave, and a store that goes first."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self, cast

import pytest

from attachstore import Store, admitting, streams
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


async def test_a_stream_that_ends_as_its_store_closes_leaves_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it was gathered, and no thread is left to attach it."""
    store = await Store.open(tmp_path / "store")
    gathered = streams.gather

    async def gather_and_close(*arguments: Any) -> Any:
        content = await gathered(*arguments)
        await store.close()
        return content

    monkeypatch.setattr(admitting, "gather", gather_and_close)

    async def source() -> AsyncIterator[bytes]:
        yield b"some text " * MIB

    with pytest.raises(ValueError, match="closed"):
        await store.attach(source())
    store = await Store.open(tmp_path / "store")
    with pytest.raises(ValueError, match="closed"):
        await store.attach_many([source()])

    assert descriptors_below(store.root) == []


async def test_a_file_that_has_no_bytes_yet_is_not_at_its_end(store: Store) -> None:
    """What a non-blocking file says then; the attachment would be cut short."""
    blocks = [b"first", None, b"second", b""]

    class Asynchronous:
        async def read(self, _size: int) -> bytes | None:
            return blocks.pop(0)

    class Blocking:
        def read(self, _size: int) -> bytes | None:
            return blocks.pop(0)

    for source in (Asynchronous(), Blocking()):
        blocks[:] = [b"first", None, b"second", b""]
        with pytest.raises(SourceUnreadableError, match="no bytes yet"):
            await store.attach(cast("Any", source), declared="text/plain")
    assert [digest async for digest in store.list()] == []


async def test_a_stream_that_is_closed_is_not_an_empty_one(store: Store) -> None:
    reference = await store.attach(b"some text")
    async with store.open_attachment(reference) as stream:
        assert await stream.read(4) == b"some"

    with pytest.raises(ValueError, match="the stream is closed"):
        await stream.read()
    with pytest.raises(ValueError, match="the stream is closed"):
        [block async for block in stream]


async def test_a_stream_that_is_closed_under_a_read_has_not_ended(store: Store) -> None:
    """What had been read by then would pass for all of it."""
    reference = await store.attach(os.urandom(5 * MIB).hex().encode())
    async with store.open_attachment(reference) as stream:
        reading = asyncio.create_task(stream.read())
        await asyncio.sleep(0)

    with pytest.raises(ValueError, match="the stream is closed"):
        await reading


@pytest.mark.parametrize("size_mib", [4, 9], ids=["held in memory", "read again"])
async def test_a_cancelled_read_of_a_stream_takes_nothing(store: Store, size_mib: int) -> None:
    """A timeout, and then the read again, is how people write it."""
    data = os.urandom(size_mib * MIB // 2).hex().encode()
    reference = await store.attach(data)
    async with store.open_attachment(reference) as stream:
        parts = [await stream.read(MIB // 2)]
        for size in (MIB, -1, 3 * MIB):
            task = asyncio.create_task(stream.read(size))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            parts.append(await stream.read(MIB))
        parts.append(await stream.read())

    assert b"".join(parts) == data


async def test_reads_of_one_stream_by_several_tasks_give_each_byte_once(store: Store) -> None:
    data = os.urandom(MIB).hex().encode()
    reference = await store.attach(data)
    async with store.open_attachment(reference) as stream:
        parts = await asyncio.gather(*(stream.read(MIB // 4) for _ in range(8)))

    assert b"".join(parts) == data


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
