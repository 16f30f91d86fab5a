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
