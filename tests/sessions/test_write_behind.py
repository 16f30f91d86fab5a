"""Events that are emitted: queued, written together, in order, and never silently lost."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from attachstore.errors import (
    DanglingReferenceError,
    EventTooLargeError,
    InvalidEventError,
    LogPoisonedError,
    SessionMissingError,
    StorageIOError,
)
from attachstore.sessions import EmitPolicy, Session
from attachstore.sessions.draft import Draft
from attachstore.sessions.log import SessionLog
from tests.conformance.session_medium import DANGLING, REFERENCE
from tests.faults import FailingDisk
from tests.sessions.opened import GateDisk, Opened, data_of
from tests.sessions.places import JsonlPlace

NEVER_S = 3600.0
ONLY_BY_FLUSH = EmitPolicy(delay_s=NEVER_S)
AT_ONCE = EmitPolicy(delay_s=0)


@pytest.fixture
def place(tmp_path: Path) -> JsonlPlace:
    return JsonlPlace(tmp_path)


@pytest.fixture
async def opened(place: JsonlPlace) -> AsyncIterator[Opened]:
    opened = Opened(place, emit=ONLY_BY_FLUSH)
    yield opened
    await opened.close()


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def emit_all(session: Session, items: Any) -> None:
    for item in items:
        await session.emit("message", item)


async def test_what_is_emitted_is_in_the_log_once_it_is_flushed(opened: Opened) -> None:
    session = await opened.sessions.create("s-1")

    await emit_all(session, range(5))
    assert (session.queued, session.head) == (5, 0)
    await session.flush()

    assert (session.queued, session.head) == (0, 5)
    assert await data_of(opened.sessions, "s-1") == [0, 1, 2, 3, 4]
    await session.flush()  # nothing to do


async def test_it_is_written_by_itself_at_the_deadline(place: JsonlPlace) -> None:
    opened = Opened(place, emit=EmitPolicy(delay_s=0.001))
    session = await opened.sessions.create("s-1")

    await emit_all(session, "ab")
    await until(lambda: session.head == 2)
    await emit_all(session, "c")
    await until(lambda: session.head == 3)

    assert await data_of(opened.sessions, "s-1") == ["a", "b", "c"]
    await opened.close()


async def test_the_first_event_sets_the_deadline_for_those_after_it(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If each event put it off, a steady stream would never be written."""
    loop = asyncio.get_running_loop()
    delays: list[float] = []
    call_later = loop.call_later

    def remember(delay: float, *rest: Any) -> asyncio.TimerHandle:
        delays.append(delay)
        return call_later(delay, *rest)

    monkeypatch.setattr(loop, "call_later", remember)
    session = await opened.sessions.create("s-1")
    await emit_all(session, range(10))
    assert delays.count(NEVER_S) == 1

    await session.flush()
    await emit_all(session, range(2))

    assert delays.count(NEVER_S) == 2


async def test_an_event_is_a_snapshot_with_the_time_of_its_emit(opened: Opened) -> None:
    session = await opened.sessions.create("s-1")
    data = {"content": [1, REFERENCE]}

    await session.emit("message", data)
    data["content"].append(2)
    data.clear()
    marker = await opened.sessions.create("s-2")
    between = await marker.append("message", None)
    await session.flush()

    (event,) = [event async for event in opened.sessions.read("s-1")]
    assert event.data == {"content": [1, REFERENCE]}
    assert event.time < between.time


async def test_what_is_wrong_with_an_event_is_said_at_once(opened: Opened) -> None:
    """A bad event in the queue would stand in the way of all after it, for ever."""
    session = await opened.sessions.create("s-1")

    with pytest.raises(InvalidEventError):
        await session.emit("message", {1})
    with pytest.raises(InvalidEventError):
        await session.emit("", 1)
    with pytest.raises(DanglingReferenceError):
        await session.emit("message", [DANGLING])
    with pytest.raises(EventTooLargeError):
        await session.emit("message", "x" * ((16 << 20) - 100))

    assert session.queued == 0
    await session.emit("message", "x" * ((16 << 20) - 300))
    await session.flush()


async def test_events_that_come_during_a_write_are_the_next_batch(place: JsonlPlace) -> None:
    disk = GateDisk("sync_data")
    opened = Opened(place, disk, AT_ONCE)
    session = await opened.sessions.create("s-1")
    disk.go_on.set()
    await session.append("message", "first")
    disk.reached.clear()
    disk.go_on.clear()

    await emit_all(session, "ab")
    await disk.wait_reached()
    await emit_all(session, "cd")
    disk.go_on.set()
    await session.flush()

    events = [event async for event in opened.sessions.read("s-1")]
    assert [event.data for event in events] == ["first", "a", "b", "c", "d"]
    assert [event.batch for event in events] == [None, 2, 2, 4, 4]
    await opened.close()


async def test_a_batch_is_bounded_in_events_and_in_bytes(place: JsonlPlace) -> None:
    emit = EmitPolicy(delay_s=NEVER_S, batch_events_max=3, batch_bytes_max=1000)
    opened = Opened(place, emit=emit)
    session = await opened.sessions.create("s-1")

    await emit_all(session, [0, 1, 2, 3, "x" * 600, "y" * 600, "z" * 5000])
    await session.flush()

    batches = [event.batch async for event in opened.sessions.read("s-1")]
    assert batches == [1, 1, 1, 4, 4, None, None]
    await opened.close()


# -- back-pressure -----------------------------------------------------------------------------


async def test_an_emit_waits_while_the_queue_is_full(place: JsonlPlace) -> None:
    """It does not wait for the deadline: what fills the queue is due."""
    disk = GateDisk("sync_file")
    opened = Opened(place, disk, EmitPolicy(delay_s=NEVER_S, events_max=2))
    session = await opened.sessions.create("s-1")

    await emit_all(session, "ab")
    emits = [asyncio.ensure_future(session.emit("message", item)) for item in "cde"]
    await disk.wait_reached()
    await asyncio.sleep(0.01)
    assert [emit.done() for emit in emits] == [False] * 3
    assert session.queued == 2
    disk.go_on.set()
    await asyncio.gather(*emits)
    await session.flush()

    assert await data_of(opened.sessions, "s-1") == ["a", "b", "c", "d", "e"]
    await opened.close()


async def test_bytes_fill_the_queue_too_and_one_event_always_fits(place: JsonlPlace) -> None:
    disk = GateDisk("sync_file")
    opened = Opened(place, disk, EmitPolicy(delay_s=NEVER_S, bytes_max=1000))
    session = await opened.sessions.create("s-1")

    await session.emit("message", "x" * 5000)
    second = asyncio.ensure_future(session.emit("message", "y"))
    await disk.wait_reached()
    assert not second.done()
    disk.go_on.set()
    await second

    await opened.close()


async def test_an_emit_that_is_cancelled_while_it_waits_queued_nothing(place: JsonlPlace) -> None:
    disk = GateDisk("sync_file")
    opened = Opened(place, disk, EmitPolicy(delay_s=NEVER_S, events_max=1))
    session = await opened.sessions.create("s-1")
    await session.emit("message", "a")
    waiting = [asyncio.ensure_future(session.emit("message", item)) for item in "bcd"]
    await disk.wait_reached()

    waiting[0].cancel()
    waiting[1].cancel()
    disk.go_on.set()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    await session.flush()

    assert [type(outcome) for outcome in outcomes[:2]] == [asyncio.CancelledError] * 2
    assert await data_of(opened.sessions, "s-1") == ["a", "d"]
    await opened.close()


async def test_a_stream_that_never_ceases_does_not_hold_a_flush(place: JsonlPlace) -> None:
    emit = EmitPolicy(delay_s=NEVER_S, batch_events_max=1, events_max=5)
    opened = Opened(place, emit=emit)
    session = await opened.sessions.create("s-1")
    await session.append("message", "first")
    going_on = True

    async def stream() -> None:
        while going_on:
            await session.emit("message", "more")
            await asyncio.sleep(0)

    streaming = asyncio.ensure_future(stream())
    await asyncio.sleep(0.01)
    before = session.head + session.queued
    await asyncio.wait_for(session.flush(), 60)
    assert session.head >= before
    going_on = False
    await streaming
    await opened.close()


async def test_who_emits_without_end_lets_others_run(place: JsonlPlace) -> None:
    """An `await` that never waits is no turn for others: no deadline would be kept either."""
    opened = Opened(place, emit=AT_ONCE)
    session = await opened.sessions.create("s-1")
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.ensure_future(other())
    await asyncio.sleep(0)
    before = turns
    for number in range(3000):
        await session.emit("message", number)
    assert turns - before >= 3000 // 256
    running.cancel()
    await session.flush()

    assert await data_of(opened.sessions, "s-1") == list(range(3000))
    await opened.close()


async def test_an_emit_that_is_cancelled_while_others_have_their_turn_admits_nothing(
    opened: Opened,
) -> None:
    session = await opened.sessions.create("s-1")
    admitted = 0
    task = asyncio.ensure_future(session.emit("message", admitted))
    await task
    admitted += 1
    while True:
        task = asyncio.ensure_future(session.emit("message", admitted))
        await asyncio.sleep(0)
        if not task.done():
            break
        admitted += 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await session.emit("message", "next")
    await session.flush()

    assert await data_of(opened.sessions, "s-1") == [*range(admitted), "next"]


# -- order with append -------------------------------------------------------------------------


async def test_an_append_comes_behind_what_was_emitted_before_it(opened: Opened) -> None:
    session = await opened.sessions.create("s-1")
    await session.emit("message", "a")

    append = asyncio.ensure_future(session.append("message", "b"))
    await asyncio.sleep(0)
    await session.emit("message", "c")
    other = asyncio.ensure_future(session.append("message", "d"))
    await asyncio.gather(append, other)

    assert await data_of(opened.sessions, "s-1") == ["a", "b", "c", "d"]


async def test_what_is_emitted_after_an_append_was_called_comes_behind_it(
    place: JsonlPlace,
) -> None:
    """Also if it is due before the append gets its turn."""
    disk = GateDisk("sync_data")
    opened = Opened(place, disk, AT_ONCE)
    session = await opened.sessions.create("s-1")
    await session.emit("message", "first")
    await session.flush()

    running = asyncio.ensure_future(session.append("message", "running"))
    await disk.wait_reached()
    await session.emit("message", "a")
    await asyncio.sleep(0.01)
    append = asyncio.ensure_future(session.append("message", "b"))
    await asyncio.sleep(0)
    await session.emit("message", "c")
    await asyncio.sleep(0.01)
    disk.go_on.set()
    await asyncio.gather(running, append)
    await session.flush()

    assert await data_of(opened.sessions, "s-1") == ["first", "running", "a", "b", "c"]
    await opened.close()


async def test_an_append_behind_events_that_cannot_be_written_raises_their_error(
    place: JsonlPlace,
) -> None:
    disk = FailingDisk(methods={"sync_data"})
    opened = Opened(place, disk, ONLY_BY_FLUSH)
    session = await opened.sessions.create("s-1")
    await session.append("message", "first")
    await session.emit("message", "a")
    disk.calls, disk.fail_at = 0, 1

    with pytest.raises(StorageIOError):
        await session.append("message", "b")
    event = await session.append("message", "c")

    assert event.seq == 3
    assert await data_of(opened.sessions, "s-1") == ["first", "a", "c"]
    await opened.close()


async def test_after_an_append_that_failed_an_emit_is_refused_as_an_append_is(
    place: JsonlPlace,
) -> None:
    disk = FailingDisk(methods={"sync_data"})
    opened = Opened(place, disk, ONLY_BY_FLUSH)
    session = await opened.sessions.create("s-1")
    await session.append("message", "first")
    disk.calls, disk.fail_at = 0, 1
    with pytest.raises(StorageIOError):
        await session.append("message", "a")

    with pytest.raises(LogPoisonedError):
        await session.emit("message", "b")

    assert (await opened.sessions.load("s-1")).head >= 1
    await opened.close()


async def test_events_emitted_during_an_append_that_fails_are_written_all_the_same(
    place: JsonlPlace,
) -> None:
    disk = GateDisk("sync_data")
    failing = FailingDisk(methods={"sync_data"}, disk=disk, effect="done")
    opened = Opened(place, failing, ONLY_BY_FLUSH)
    session = await opened.sessions.create("s-1")
    await session.emit("message", "first")
    await session.flush()
    failing.calls, failing.fail_at = 0, 1

    append = asyncio.ensure_future(session.append("message", "a"))
    await disk.wait_reached()
    await session.emit("message", "b")
    disk.go_on.set()
    with pytest.raises(StorageIOError):
        await append
    await session.flush()

    assert await data_of(opened.sessions, "s-1") == ["first", "a", "b"]
    await opened.close()


# -- sessions that come and go -----------------------------------------------------------------


async def test_a_session_that_is_forgotten_keeps_its_events(opened: Opened) -> None:
    await (await opened.sessions.create("s-1")).emit("message", "a")
    gc.collect()

    await (await opened.sessions.load("s-1")).flush()

    assert await data_of(opened.sessions, "s-1") == ["a"]


async def test_many_sessions_at_once(place: JsonlPlace) -> None:
    opened = Opened(place, emit=EmitPolicy(delay_s=0.001, events_max=20, batch_events_max=7))

    async def run(name: str) -> None:
        session = await opened.sessions.create(name)
        for number in range(100):
            await session.emit("message", number)
            if number % 30 == 0:
                await session.append("message", number + 0.5)

    names = [f"s-{number}" for number in range(12)]
    await asyncio.gather(*map(run, names))
    await asyncio.gather(*map(opened.sessions.close, names))

    expected: list[float] = []
    for number in range(100):
        expected += [number, number + 0.5] if number % 30 == 0 else [number]
    for name in names:
        assert await data_of(opened.sessions, name) == expected
    await opened.close()


async def test_closing_the_store_writes_what_was_emitted(place: JsonlPlace) -> None:
    opened = Opened(place, emit=ONLY_BY_FLUSH)
    for name in ("s-1", "s-2"):
        await emit_all(await opened.sessions.create(name), "abc")
    await opened.close()

    again = Opened(place)
    for name in ("s-1", "s-2"):
        assert await data_of(again.sessions, name) == ["a", "b", "c"]
    await again.close()


async def test_deleting_a_session_gives_up_what_was_emitted(opened: Opened) -> None:
    session = await opened.sessions.create("s-1")
    await session.append("message", "first")
    await session.emit("message", "a")

    await opened.sessions.delete("s-1")

    assert session.queued == 0
    with pytest.raises(ValueError, match="closed"):
        await session.emit("message", "b")
    with pytest.raises(SessionMissingError):
        await data_of(opened.sessions, "s-1")


@pytest.mark.parametrize("delay_s", [-1, -0.001, float("nan"), float("inf"), float("-inf")])
def test_a_delay_ends(delay_s: float) -> None:
    """A deadline at NaN comes in no order to any other: the event loop's timers would be lost."""
    with pytest.raises(ValueError, match="delay_s must be 0 or more and finite"):
        EmitPolicy(delay_s=delay_s)


@pytest.mark.parametrize(
    "limit", ["events_max", "bytes_max", "batch_events_max", "batch_bytes_max"]
)
def test_limits_that_make_no_sense_are_refused(limit: str) -> None:
    some: dict[str, Any] = {limit: 0}
    with pytest.raises(ValueError, match=f"{limit} must be 1 or more"):
        EmitPolicy(**some)
    for wrong in (1.5, True, "5", None):
        some[limit] = wrong
        with pytest.raises(TypeError, match=f"{limit} is an int"):
            EmitPolicy(**some)


@pytest.mark.parametrize("delay_s", [None, "0.05", True])
def test_a_delay_is_a_number(delay_s: Any) -> None:
    with pytest.raises(TypeError, match="delay_s is a number of seconds"):
        EmitPolicy(delay_s=delay_s)


class ComesBetweenError(Exception):
    """Comes where an interrupt may: behind any call."""


@pytest.mark.parametrize("appended", [[], [0]], ids=["the first write", "a later write"])
async def test_what_is_interrupted_behind_its_write_is_not_written_again(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, appended: list[int]
) -> None:
    session = await opened.sessions.create("s-1")
    for item in appended:
        await session.append("message", item)
    await emit_all(session, [1, 2])
    write = SessionLog.add_drafts

    def write_and_be_interrupted(log: SessionLog, drafts: Sequence[Draft]) -> None:
        write(log, drafts)
        raise ComesBetweenError

    with monkeypatch.context() as patch:
        patch.setattr(SessionLog, "add_drafts", write_and_be_interrupted)
        with pytest.raises(ComesBetweenError):
            await session.flush()
    await emit_all(session, [3])
    await session.flush()

    assert await data_of(opened.sessions, "s-1") == [*appended, 1, 2, 3]
