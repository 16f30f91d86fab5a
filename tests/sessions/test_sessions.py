"""The asynchronous face: order, cancellation, identity, attaching."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from attachstore.errors import (
    InvalidEventError,
    LogDamagedError,
    SequenceConflictError,
    SessionBusyError,
    SessionMissingError,
)
from attachstore.sessions import Sessions
from tests.conformance.session_medium import REFERENCE
from tests.descriptors import open_descriptors
from tests.sessions.opened import GateDisk, Opened, data_of
from tests.sessions.places import JsonlPlace


@pytest.fixture
def place(tmp_path: Path) -> JsonlPlace:
    return JsonlPlace(tmp_path)


@pytest.fixture
async def opened(place: JsonlPlace) -> AsyncIterator[Opened]:
    opened = Opened(place)
    yield opened
    await opened.close()


@pytest.fixture
def sessions(opened: Opened) -> Sessions:
    return opened.sessions


async def test_a_session_from_its_creation_to_its_deletion(sessions: Sessions) -> None:
    session = await sessions.create("s-1", meta={"title": "T"}, cwd="/somewhere")
    event = await session.append("message", {"content": ["what is this?", REFERENCE]})
    more = await session.append_many([("a", 1), ("b", 2)], after=event.seq)
    assert (session.id, session.head, session.header.cwd) == ("s-1", 3, "/somewhere")
    assert session.head_chain == more[-1].chain

    child = await sessions.fork("s-1", at=event.seq, id="s-2")
    await child.append("message", "own")
    assert await data_of(sessions, "s-2", after=1) == ["own"]
    assert [summary.id for summary in await sessions.list()] == ["s-1", "s-2"]
    assert (await sessions.inspect("s-1")).header.title == "T"
    assert (await sessions.verify("s-1")).head_seq == 3
    await session.close()
    assert (await sessions.repair("s-1")).kept is None

    await sessions.delete("s-1")
    with pytest.raises(SessionMissingError):
        await data_of(sessions, "s-1")
    assert len(await data_of(sessions, "s-2")) == 2


async def test_attaching_is_a_commit_and_an_event(sessions: Sessions) -> None:
    session = await sessions.create("s-1")

    event = await session.attach(b"shot", name="shot.png")

    assert (event.type, event.data) == ("attachment", {"file": REFERENCE})


async def test_events_are_in_the_order_of_the_calls(sessions: Sessions) -> None:
    session = await sessions.create("s-1")

    events = await asyncio.gather(*[session.append("message", number) for number in range(40)])

    assert [event.seq for event in events] == list(range(1, 41))
    assert await data_of(sessions, "s-1") == list(range(40))


async def test_an_event_is_encoded_at_the_call(sessions: Sessions) -> None:
    """Also if the append has to wait for others."""
    session = await sessions.create("s-1")
    data = [1]

    first = asyncio.ensure_future(session.append("message", 0))
    second = asyncio.ensure_future(session.append("message", data))
    await asyncio.sleep(0)
    data.append(2)
    await asyncio.gather(first, second)

    assert await data_of(sessions, "s-1") == [0, [1]]
    with pytest.raises(InvalidEventError):
        await session.append("message", {1})


async def test_loading_a_held_session_gives_the_same_object(
    sessions: Sessions, place: JsonlPlace
) -> None:
    session = await sessions.create("s-1")
    await session.append("turn/start", 1)
    loads = await asyncio.gather(*[sessions.load("s-1") for _ in range(5)])
    assert all(loaded is session for loaded in loads)
    await sessions.close("s-1")

    loads = await asyncio.gather(*[sessions.load("s-1") for _ in range(5)])
    assert all(loaded is loads[0] for loaded in loads)
    assert loads[0] is not session
    assert loads[0].head == 2, "the turn was closed once"


async def test_a_session_that_is_forgotten_stays_held(
    sessions: Sessions, place: JsonlPlace
) -> None:
    """It is released by close, not by the garbage collector."""
    await (await sessions.create("s-1")).append("message", 1)
    gc.collect()
    other = Opened(place)

    with pytest.raises(SessionBusyError):
        await other.sessions.load("s-1")
    assert (await sessions.load("s-1")).head == 1
    await other.close()


async def test_leaving_the_context_closes_the_session(
    sessions: Sessions, place: JsonlPlace
) -> None:
    other = Opened(place)
    async with await sessions.create("s-1") as session:
        await session.append("message", 1)

    assert (await other.sessions.load("s-1")).head == 1
    await other.close()


async def test_an_append_that_was_cancelled_is_there_whole_or_not_at_all(
    place: JsonlPlace,
) -> None:
    """It returns after the write; then `after` tells whether to write once more."""
    disk = GateDisk("sync_data")
    opened = Opened(place, disk)
    session = await opened.sessions.create("s-1")
    await session.append("message", 0)

    append = asyncio.ensure_future(session.append("message", 1, after=1))
    await disk.wait_reached()
    append.cancel()
    await asyncio.sleep(0.01)
    assert not append.done(), "the caller would go on under a live writer"
    disk.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await append

    assert session.head == 2
    with pytest.raises(SequenceConflictError):
        await session.append("message", 1, after=1)
    assert await data_of(opened.sessions, "s-1") == [0, 1]
    await opened.close()


async def test_an_append_that_was_cancelled_in_the_queue_never_happens(place: JsonlPlace) -> None:
    disk = GateDisk("sync_data")
    opened = Opened(place, disk)
    session = await opened.sessions.create("s-1")
    await session.append("message", 0)

    first = asyncio.ensure_future(session.append("message", 1))
    second = asyncio.ensure_future(session.append("message", 2))
    await disk.wait_reached()
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    disk.go_on.set()
    await first

    assert await data_of(opened.sessions, "s-1") == [0, 1]
    await opened.close()


async def test_a_load_that_was_cancelled_holds_no_lock(place: JsonlPlace) -> None:
    """Even if it had the lock when the cancellation came."""
    first = Opened(place)
    await (await first.sessions.create("s-1")).append("message", 1)
    await first.close()
    disk = GateDisk("drop_cache")
    opened, other = Opened(place, disk), Opened(place)
    descriptors = open_descriptors()

    load = asyncio.ensure_future(opened.sessions.load("s-1"))
    await disk.wait_reached()
    with pytest.raises(SessionBusyError):
        await other.sessions.load("s-1")
    load.cancel()
    disk.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await load

    assert open_descriptors() <= descriptors
    assert (await other.sessions.load("s-1")).head == 1
    await opened.close()
    await other.close()


async def test_a_cancelled_load_leaves_the_session_to_a_second_loader(place: JsonlPlace) -> None:
    first = Opened(place)
    await (await first.sessions.create("s-1")).append("message", 1)
    await first.close()
    disk = GateDisk("drop_cache")
    opened = Opened(place, disk)

    cancelled = asyncio.ensure_future(opened.sessions.load("s-1"))
    kept = asyncio.ensure_future(opened.sessions.load("s-1"))
    await disk.wait_reached()
    cancelled.cancel()
    disk.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await cancelled

    session = await kept
    assert (await session.append("message", 2)).seq == 2
    await opened.close()


async def test_a_cancelled_fork_leaves_all_of_it_or_nothing(place: JsonlPlace) -> None:
    disk = GateDisk("sync_directory", "s-2")  # where the fork is; the parent is synced before
    opened = Opened(place)
    session = await opened.sessions.create("s-1")
    await session.append("message", 1)
    await opened.close()
    opened = Opened(place, disk)

    fork = asyncio.ensure_future(opened.sessions.fork("s-1", id="s-2"))
    await disk.wait_reached()
    fork.cancel()
    disk.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await fork

    assert await data_of(opened.sessions, "s-2") == [1]
    assert (await opened.sessions.load("s-2")).head == 1
    await opened.close()


async def test_a_reader_that_stops_early_leaves_no_descriptor(
    sessions: Sessions, place: JsonlPlace
) -> None:
    session = await sessions.create("s-1")
    await session.append_many([("message", number) for number in range(1000)])
    before = open_descriptors()

    events = sessions.read("s-1")
    async for event in events:
        if event.seq == 3:
            break
    await events.aclose()

    assert open_descriptors() <= before


async def test_reading_yields_the_good_events_before_it_raises(
    sessions: Sessions, place: JsonlPlace
) -> None:
    session = await sessions.create("s-1")
    await session.append_many([("message", number) for number in range(3)])
    await session.close()
    place.write("s-1", place.read("s-1").replace(b'"data":1', b'"data":7'))
    seen: list[Any] = []

    with pytest.raises(LogDamagedError):  # noqa: PT012 - what came before counts
        async for event in sessions.read("s-1"):
            seen.append(event.data)  # noqa: PERF401 - the error ends the loop

    assert seen == [0]
    assert await data_of(sessions, "s-1", damaged="stop") == [0]
    assert await data_of(sessions, "s-1", damaged="resync") == [0, 7, 2]


async def test_deleting_a_held_session_closes_it(sessions: Sessions) -> None:
    session = await sessions.create("s-1")
    await session.append("message", 1)

    await sessions.delete("s-1")

    with pytest.raises(ValueError, match="closed"):
        await session.append("message", 2)
    await sessions.create("s-1")


async def test_after_closing_everything_is_a_wrong_call(place: JsonlPlace) -> None:
    opened = Opened(place)
    session = await opened.sessions.create("s-1")
    await opened.close()

    with pytest.raises(ValueError, match="closed"):
        await session.append("message", 1)
    with pytest.raises(ValueError, match="closed"):
        await opened.sessions.load("s-1")
