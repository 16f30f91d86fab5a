"""Closing a store: once, for everybody, whatever else goes on."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from attachstore import EmitPolicy, Session, Store
from attachstore.errors import StorageIOError
from attachstore.threads import Worker
from tests.descriptors import open_descriptors
from tests.faults import FailingDisk

NOT_YET = EmitPolicy(delay_s=3600)


async def data_in(root: Path) -> list[Any]:
    """Read by another store, which also becomes the session's writer: the name is free."""
    async with Store.open(root) as store:
        await store.sessions.load("s-1")
        return [event.data async for event in store.sessions.read("s-1")]


async def opened(root: Path, **options: Any) -> tuple[Store, Session]:
    store = await Store.open(root, emit=NOT_YET, **options)
    session = await store.sessions.create("s-1")
    await session.append("message", 0)
    return store, session


async def test_tasks_that_close_one_store_share_the_outcome(tmp_path: Path) -> None:
    before = open_descriptors()
    store, session = await opened(tmp_path / "store")
    await session.emit("message", 1)

    outcomes = await asyncio.gather(store.close(), session.close(), store.close(), store.close())
    await store.close()

    assert outcomes == [None] * 4
    assert open_descriptors() <= before
    assert await data_in(tmp_path / "store") == [0, 1]


async def test_a_close_that_fails_fails_for_everybody_and_closes_all_the_same(
    tmp_path: Path,
) -> None:
    """What could not be written is in the session, for a store that is opened anew."""
    before = open_descriptors()
    disk = FailingDisk(methods={"sync_data"}, sticky=True)
    store, session = await opened(tmp_path / "store", disk=disk)
    await session.emit("message", 1)
    await session.emit("message", 2)
    disk.calls, disk.fail_at = 0, 1

    outcomes = await asyncio.gather(store.close(), store.close(), return_exceptions=True)
    with pytest.raises(StorageIOError) as later:
        await store.close()

    assert outcomes == [later.value, later.value]
    assert session.queued == 2
    assert open_descriptors() <= before
    with pytest.raises(ValueError, match="closed"):
        await store.attach(b"objects are closed too")
    async with Store.open(tmp_path / "store") as again:
        new = await again.sessions.load("s-1", close_turn=False)
        await new.adopt(session)
        await new.flush()
        assert (session.queued, new.queued) == (0, 0)
    assert await data_in(tmp_path / "store") == [0, 1, 2]


async def test_the_error_of_a_block_is_not_lost_to_that_of_its_end(tmp_path: Path) -> None:
    disk = FailingDisk(methods={"sync_data"}, sticky=True)

    async def work() -> None:
        async with Store.open(tmp_path / "store", disk=disk, emit=NOT_YET) as store:
            session = await store.sessions.create("s-1")
            await session.append("message", 0)
            await session.emit("message", 1)
            disk.calls, disk.fail_at = 0, 1
            raise LookupError

    with pytest.raises(StorageIOError) as closing:
        await work()
    assert isinstance(closing.value.__context__, LookupError)


@pytest.mark.parametrize("step", ["close", "finish"])
def test_a_close_that_is_interrupted_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Ctrl-C ends the task that closes; who waits for it takes the steps that are left."""
    before, threads = open_descriptors(), threading.active_count()
    interrupted: list[str] = []
    real = getattr(Worker, step)

    def interrupting(worker: Worker, *arguments: Any, **options: Any) -> Any:
        if not interrupted and (step == "close" or "ObjectStore.close" in repr(arguments[0])):
            interrupted.append(step)
            raise KeyboardInterrupt
        return real(worker, *arguments, **options)

    async def work() -> None:
        store, session = await opened(tmp_path / "store", intake=True)
        await store.attach(b"in the intake")
        await session.emit("message", 1)
        monkeypatch.setattr(Worker, step, interrupting)
        await store.close()

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(work())

    assert interrupted == [step]
    assert open_descriptors() <= before
    assert threading.active_count() == threads
    assert not list((tmp_path / "store" / "intake").glob("*"))
    assert asyncio.run(data_in(tmp_path / "store")) == [0, 1]


async def test_who_waits_for_a_close_may_be_dropped(tmp_path: Path) -> None:
    """As by a loop that is thrown away: a coroutine must not await when it is closed."""
    store, _ = await opened(tmp_path / "store")
    waiting = store.close()
    waiting.send(None)

    waiting.close()

    await store.close()
    assert await data_in(tmp_path / "store") == [0]


@pytest.mark.parametrize("taken_before", [1, 5, 30])
async def test_an_emit_beside_a_close_is_refused_or_its_event_is_there(
    tmp_path: Path, taken_before: int
) -> None:
    emit = EmitPolicy(delay_s=0.001, events_max=4, batch_events_max=3)
    store = await Store.open(tmp_path / "store", emit=emit)
    session = await store.sessions.create("s-1")
    taken: list[int] = []

    async def emit_all() -> None:
        while True:
            await session.emit("message", len(taken))
            taken.append(len(taken))

    emitting = asyncio.ensure_future(emit_all())
    while len(taken) < taken_before:
        await asyncio.sleep(0)
    await asyncio.gather(store.close(), store.close())
    with pytest.raises(ValueError, match="closed"):
        await emitting

    assert await data_in(tmp_path / "store") == taken


async def test_an_append_beside_a_close_is_refused_or_its_event_is_there(tmp_path: Path) -> None:
    store, session = await opened(tmp_path / "store")
    appending = [asyncio.ensure_future(session.append("message", n)) for n in range(1, 9)]
    await asyncio.sleep(0)

    await store.close()
    outcomes = await asyncio.gather(*appending, return_exceptions=True)

    refused = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    written = [outcome.data for outcome in outcomes if not isinstance(outcome, BaseException)]
    assert all(isinstance(error, ValueError) for error in refused)
    assert await data_in(tmp_path / "store") == [0, *written]


async def test_a_reader_is_told_that_its_store_was_closed(tmp_path: Path) -> None:
    """And lets go of its log. So is everybody else who comes too late."""
    before = open_descriptors()
    store, session = await opened(tmp_path / "store")
    await session.append_many([("message", number) for number in range(2_000)])
    reading = store.sessions.read("s-1")
    assert (await anext(reading)).data == 0

    listing = store.list()
    references = [await store.attach(b"one"), await store.attach(b"two")]
    assert await anext(listing) in {it.digest for it in references}

    await store.close()

    with pytest.raises(ValueError, match="closed"):
        await anext(reading)
    with pytest.raises(ValueError, match="closed"):
        await anext(listing)
    await reading.aclose()
    assert open_descriptors() <= before
    for call in (
        store.sessions.create("s-2"),
        store.sessions.load("s-1"),
        store.sessions.fork("s-1", id="s-3"),
        store.sessions.inspect("s-1"),
        store.sessions.list(),
        store.sessions.delete("s-1"),
        session.append("message", 1),
        session.emit("message", 1),
        anext(store.sessions.read("s-1")),
    ):
        with pytest.raises(ValueError, match="closed"):
            await call


@pytest.mark.parametrize("steps", range(4))
async def test_a_load_or_a_fork_beside_a_close_keeps_no_lock(tmp_path: Path, steps: int) -> None:
    store, session = await opened(tmp_path / "store")
    await session.close()
    racing = [
        asyncio.ensure_future(store.sessions.load("s-1")),
        asyncio.ensure_future(store.sessions.fork("s-1", id="s-2")),
        asyncio.ensure_future(store.sessions.create("s-3")),
    ]
    for _ in range(steps):
        await asyncio.sleep(0)

    await store.close()
    for outcome in await asyncio.gather(*racing, return_exceptions=True):
        if isinstance(outcome, BaseException):
            assert isinstance(outcome, ValueError)
        else:
            with pytest.raises(ValueError, match="closed"):
                await outcome.append("message", "too late")

    assert await data_in(tmp_path / "store") == [0]


async def test_tasks_that_close_one_session_share_the_outcome(tmp_path: Path) -> None:
    disk = FailingDisk(methods={"sync_data"}, sticky=True)
    store, session = await opened(tmp_path / "store", disk=disk)
    await session.emit("message", 1)
    disk.calls, disk.fail_at = 0, 1

    closing = (session.close(), store.sessions.close("s-1"), session.close())
    outcomes = await asyncio.gather(*closing, return_exceptions=True)

    assert isinstance(outcomes[0], StorageIOError)
    assert outcomes == [outcomes[0]] * 3
    assert session.queued == 1
    disk.heal()
    await session.flush()
    assert session.queued == 0
    assert await data_in(tmp_path / "store") == [0, 1], "the name is free, though the store is open"
    await store.close()


async def test_a_delete_beside_a_close_of_the_session_leaves_nothing(tmp_path: Path) -> None:
    store, session = await opened(tmp_path / "store")
    await session.emit("message", 1)

    await asyncio.gather(session.close(), store.sessions.delete("s-1"))
    await store.close()

    async with Store.open(tmp_path / "store") as again:
        assert await again.sessions.list() == []
        await (await again.sessions.create("s-1")).append("message", "a new one")
