"""Store: cancelled calls, forked processes and threads, on real directories."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from attachstore import Store
from tests.descriptors import open_descriptors

TEXT = b"hello\n"
MIB = 1 << 20


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with Store.open(tmp_path / "store") as store:
        yield store


async def stream_of(*blocks: bytes) -> AsyncIterator[bytes]:
    for block in blocks:
        await asyncio.sleep(0)
        yield block


def staging(store: Store) -> list[Path]:
    return list((store.root / "staging").iterdir())


@pytest.mark.parametrize("round_", range(3))
async def test_a_cancelled_call_is_over_when_it_returns(
    store: Store, tmp_path: Path, round_: int
) -> None:
    """No thread, temporary file or descriptor is left, and what is there is whole."""
    data = os.urandom(5 * MIB)
    source = tmp_path / "source"
    source.write_bytes(data.hex().encode())
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: store.attach(source),
        lambda: store.attach(stream_of(*[data.hex().encode()[n::7] for n in range(7)])),
        lambda: store.attach_many([source, bytes(data.hex().encode())]),
    ]
    gc.collect()  # what earlier tests left to the collector is not counted
    descriptors = open_descriptors()
    for call in calls:
        for delay_ms in range(0, 24, 8):
            task = asyncio.ensure_future(call())
            await asyncio.sleep((delay_ms + 3 * round_) / 1000)
            task.cancel()
            await asyncio.wait([task])
            assert staging(store) == []
            gc.collect()
            assert open_descriptors() <= descriptors

    assert (await store.scan()).clean


async def test_a_batch_that_is_cancelled_before_its_commits_begin_is_closed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their tasks exist by then and have not run: nobody but the batch can close its files."""
    source = tmp_path / "source"
    source.write_bytes(os.urandom(MIB).hex().encode())
    gather = asyncio.gather

    def cancelling(*commits: Awaitable[object], **options: bool) -> Awaitable[list[object]]:
        asyncio.get_running_loop().call_soon(task.cancel)
        together: Awaitable[list[object]] = gather(*commits, **options)  # type: ignore[call-overload] - passed on
        return together

    await store.attach_many([source])  # whatever stays open is open from here on
    source.write_bytes(os.urandom(MIB).hex().encode())
    descriptors = open_descriptors()
    task = asyncio.ensure_future(store.attach_many([source]))
    monkeypatch.setattr(asyncio, "gather", cancelling)

    with pytest.raises(asyncio.CancelledError):
        await task
    assert open_descriptors() <= descriptors
    assert staging(store) == []


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
async def test_after_a_fork_the_childs_handle_is_dead(store: Store) -> None:
    reference = await store.attach(TEXT)
    child = os.fork()
    if child == 0:
        # Only the exit status gets out: pytest's own state is shared with the parent.
        status = 1
        try:
            store.read(reference).send(None)
        except ValueError as error:
            status = 0 if "os.fork" in str(error) else 2
        finally:
            os._exit(status)

    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0


async def test_a_close_that_is_cancelled_again_and_again_still_releases_everything(
    tmp_path: Path,
) -> None:
    """The first cancellation ends the block; the others meet the close that follows."""
    before = open_descriptors()

    async def work() -> None:
        async with Store.open(tmp_path / "store") as store:
            for number in range(3):
                session = await store.sessions.create(f"s-{number}")
                await session.append("message", "kept open")
            begun.set()
            await asyncio.sleep(60)

    begun = asyncio.Event()
    task = asyncio.ensure_future(work())
    await begun.wait()
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)

    assert task.cancelled()
    assert open_descriptors() <= before


async def test_closing_ends_the_threads(tmp_path: Path) -> None:
    before = threading.active_count()
    async with Store.open(tmp_path / "store") as store:
        await store.attach_many([os.urandom(10).hex().encode() for _ in range(50)])

    assert threading.active_count() == before
