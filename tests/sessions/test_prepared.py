"""prepare, for asyncio: a resume that can be looked at first, and that one task wins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from attachstore import Store
from attachstore.blocking import Store as BlockingStore
from attachstore.errors import SessionBusyError
from attachstore.sessions.prepared_session import PreparedSession


@pytest.fixture(params=["jsonl", "sqlite"])
async def store(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    async with Store.open(
        tmp_path / "store", sessions=request.param, decode_in_process=True
    ) as opened:
        async with await opened.sessions.create("s-1") as session:
            await session.append("turn/start", 1)
        yield opened


async def test_of_many_tasks_one_resumes(store: Store) -> None:
    outcomes = await asyncio.gather(
        *(store.sessions.prepare("s-1") for _ in range(20)), return_exceptions=True
    )

    (prepared,) = [each for each in outcomes if isinstance(each, PreparedSession)]
    assert all(isinstance(each, SessionBusyError) for each in outcomes if each is not prepared)
    session = await prepared.resume()
    assert await store.sessions.load("s-1") is session
    assert (session.head, [event.type for event in prepared.view.closers]) == (2, ["turn/end"])
    await session.append("message", 3)


async def test_leaving_it_unused_changes_nothing(store: Store) -> None:
    async with await store.sessions.prepare("s-1") as prepared:
        assert prepared.view.head_seq == 1
        with pytest.raises(SessionBusyError):
            await store.sessions.load("s-1")

    assert (await store.sessions.inspect("s-1")).head_seq == 1
    async with await store.sessions.prepare("s-1") as prepared:
        session = await prepared.resume(close_turn=False)
    assert (await session.append("message", 2)).seq == 2


async def test_a_cancelled_prepare_reserves_nothing(store: Store) -> None:
    task = asyncio.create_task(store.sessions.prepare("s-1"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await (await store.sessions.prepare("s-1")).release()


async def test_closing_the_store_releases_it(store: Store) -> None:
    prepared = await store.sessions.prepare("s-1")
    await store.close()

    await prepared.release()
    async with Store.open(store.root, decode_in_process=True) as again:
        assert (await again.sessions.load("s-1")).head == 2


def test_scripts_prepare_too(tmp_path: Path) -> None:
    with BlockingStore.open(tmp_path / "store", decode_in_process=True) as store:
        store.sessions.create("s-1").append("message", 1)
        store.sessions.close("s-1")
        with store.sessions.prepare("s-1") as prepared:
            assert prepared.view.head_seq == 1
            session = prepared.resume()
        assert session.append("message", 2).seq == 2
