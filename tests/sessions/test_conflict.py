"""A writer that finds its log changed behind its back: tried again, and nothing lost silently."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from attachstore import Store
from attachstore.errors import LogDamagedError, LogPoisonedError, SequenceConflictError
from attachstore.sessions.names import SessionName

KINDS = ["jsonl", "sqlite"]


@pytest.fixture(params=KINDS)
async def store(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    async with Store.open(
        tmp_path / "store", sessions=request.param, decode_in_process=True
    ) as opened:
        yield opened


async def intrude(store: Store, *data: object) -> None:
    """Another writer, after somebody removed the lock by hand, as some advise."""
    (store.root / "locks" / "s-1").unlink()
    async with (
        Store.open(store.root, decode_in_process=True) as other,
        await other.sessions.load("s-1") as session,
    ):
        for each in data:
            await session.append("message", each)


async def data_of(store: Store) -> list[object]:
    return [event.data async for event in store.sessions.read("s-1")]


async def test_the_event_goes_behind_what_the_other_wrote(store: Store) -> None:
    session = await store.sessions.create("s-1")
    await session.append("message", 1)
    await intrude(store, "other", "other still")

    assert (await session.append("message", 2)).seq == 4
    assert (await session.append("message", 3)).seq == 5
    await session.close()

    assert await data_of(store) == [1, "other", "other still", 2, 3]
    assert (await store.sessions.verify("s-1")).head_seq == 5


async def test_whoever_says_where_the_head_is_decides(store: Store) -> None:
    session = await store.sessions.create("s-1")
    await session.append("message", 1)
    await intrude(store, "other")

    with pytest.raises(SequenceConflictError):
        await session.append("message", 2, after=1)
    assert (await session.append("message", 2, after=2)).seq == 3
    await session.close()
    assert await data_of(store) == [1, "other", 2]


async def test_a_log_that_lost_what_was_acknowledged_is_not_gone_on_with(store: Store) -> None:
    """Cut at a line's end it is a valid log, which only its writer knows to be too short."""
    session = await store.sessions.create("s-1")
    await session.append("message", 1)
    event = await session.append("message", 2)
    (store.root / "locks" / "s-1").unlink()
    name = SessionName.of("s-1")
    async with Store.open(store.root, decode_in_process=True) as other:
        with other.logs.medium.open_writer(name) as log:
            log.cut(event.offset_bytes)

    with pytest.raises(LogDamagedError, match="event 2, which was acknowledged, is not there"):
        await session.append("message", 3)
    assert await data_of(store) == [1]


async def test_after_a_failed_append_nothing_is_tried_again_by_itself(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of it may be there: that is for the caller to look at."""
    session = await store.sessions.create("s-1")
    await session.append("message", 1)
    held = store.logs.held("s-1")
    assert held is not None

    def fail(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(type(held._writer), "append", fail)
    with pytest.raises(RuntimeError):
        await session.append("message", 2)
    monkeypatch.undo()

    with pytest.raises(LogPoisonedError):
        await session.append("message", 2)
