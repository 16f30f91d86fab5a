"""Wrong calls: TypeError or ValueError that says what is wrong, at once, and nothing is written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from attachstore import EmitPolicy, Store, blocking


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with Store.open(tmp_path / "store", emit=EmitPolicy(delay_s=3600)) as store:
        yield store


@pytest.mark.parametrize("threads_max", [0, -1, 1.0, "4", True])
def test_a_store_has_a_thread_at_least(tmp_path: Path, threads_max: Any) -> None:
    """Without one its first call waited for ever."""
    kind = ValueError if type(threads_max) is int else TypeError
    for opener in (Store.open, blocking.Store.open):
        with pytest.raises(kind, match="threads_max"):
            opener(tmp_path / "store", threads_max=threads_max)
    assert list(tmp_path.iterdir()) == []


async def test_a_session_does_not_adopt_itself(store: Store) -> None:
    session = await store.sessions.create("s-1")
    await session.emit("message", 1)

    async with asyncio.timeout(20):
        with pytest.raises(ValueError, match="adopts"):
            await session.adopt(session)
        await session.flush()

    assert (session.head, session.queued) == (1, 0)


async def test_two_sessions_do_not_adopt_each_other(store: Store) -> None:
    first, second = [await store.sessions.create(name) for name in ("s-1", "s-2")]

    async with asyncio.timeout(20):
        outcomes = await asyncio.gather(
            first.adopt(second), second.adopt(first), return_exceptions=True
        )

    assert [type(outcome) for outcome in outcomes] == [ValueError, ValueError]


WRONG_SEQS: list[Any] = ["0", b"0", True, False, 0.0, -1]


@pytest.mark.parametrize("wrong", WRONG_SEQS)
async def test_a_seq_is_an_int_from_0_on(store: Store, tmp_path: Path, wrong: Any) -> None:
    """`after="0"` was a conflict with event 0, for ever if one tries again as documented."""
    kind = ValueError if type(wrong) is int else TypeError
    session = await store.sessions.create("s-1")
    await session.append("message", 1)
    await session.emit("message", 2)
    with pytest.raises(kind, match="after "):
        await session.append("message", 3, after=wrong)
    with pytest.raises(kind, match="after "):
        await session.append_many([("message", 3)], after=wrong)
    with pytest.raises(kind, match="after "):
        await session.attach(b"text", after=wrong)
    with pytest.raises(kind, match="after "):
        store.sessions.read("s-1", after=wrong)
    with pytest.raises(kind, match="at "):
        await store.sessions.fork("s-1", id="s-2", at=wrong)
    for call in (store.replay, store.readback):
        with pytest.raises(kind, match="at "):
            call("s-1", at=wrong)
    with pytest.raises(kind, match="at "):
        await store.export("s-1", tmp_path / "out", at=wrong)
    with pytest.raises(kind, match="at "):
        await store.write_page("s-1", tmp_path / "page.html", at=wrong)

    assert (session.head, session.queued) == (1, 1)
    assert [digest async for digest in store.list()] == []
    assert [summary.id for summary in await store.sessions.list()] == ["s-1"]
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.parametrize(
    "events",
    ["ab", ["ab"], [b"ab"], [("a",)], [("a", 1, 2)], [{"a": 1, "b": 2}], {"ab": 1}, [None]],
)
async def test_events_are_pairs_of_type_and_data(store: Store, events: Any) -> None:
    """`"ab"` was written as an event of type "a" with the data "b"."""
    session = await store.sessions.create("s-1")
    with pytest.raises(TypeError, match="pair"):
        await session.append_many(events)
    with pytest.raises(TypeError, match="pair"):
        await session.append_many([("a", 1), *events])

    assert session.head == 0
    assert len(await session.append_many([("a", 1), ["b", 2]])) == 2  # type: ignore[list-item]
