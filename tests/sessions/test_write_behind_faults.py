"""Emitted events on a disk that fails, under cancellation, and in sessions that cannot be closed.

Whatever happens, after the last flush that succeeded the log holds every event once, in order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from attachstore.errors import (
    AttachstoreError,
    LogDamagedError,
    SessionBusyError,
    SessionExistsError,
    StorageIOError,
)
from attachstore.sessions import EmitPolicy, Session
from tests.faults import Effect, FailingDisk, failing_disks
from tests.sessions.opened import GateDisk, Opened, data_of
from tests.sessions.places import JsonlPlace

ONLY_BY_FLUSH = EmitPolicy(delay_s=3600.0)
EFFECTS: list[Effect] = ["none", "half", "done", "short"]


@pytest.fixture
def place(tmp_path: Path) -> JsonlPlace:
    return JsonlPlace(tmp_path)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def emit_all(session: Session, items: Any) -> None:
    for item in items:
        await session.emit("message", item)


async def fails(work: Awaitable[object]) -> bool:
    try:
        await work
    except AttachstoreError:
        return True
    return False


async def content(place: JsonlPlace, session_id: str = "s-1") -> list[Any]:
    """What another store, with a sound disk, finds."""
    opened = Opened(place)
    try:
        await opened.sessions.verify(session_id)
        return await data_of(opened.sessions, session_id)
    finally:
        await opened.close()


# -- failure -----------------------------------------------------------------------------------


async def test_a_failed_batch_stays_and_nothing_is_tried_until_the_flush(
    place: JsonlPlace,
) -> None:
    told: list[tuple[str, BaseException]] = []
    policy = EmitPolicy(delay_s=0.001, on_failure=lambda name, error: told.append((name, error)))
    disk = FailingDisk(methods={"sync_data"}, sticky=True)
    opened = Opened(place, disk, policy)
    session = await opened.sessions.create("s-1")
    await session.append("message", "first")
    disk.fail_at = 1

    await emit_all(session, "ab")
    await until(lambda: session.failure is not None)
    assert isinstance(session.failure, StorageIOError)
    calls = disk.calls
    await emit_all(session, "cd")
    await asyncio.sleep(0.02)
    assert disk.calls == calls, "a retry that nobody asked for"
    assert (session.queued, session.head) == (4, 1)
    assert told == [("s-1", session.failure)]
    with pytest.raises(StorageIOError):
        await session.flush()
    assert len(told) == 1, "whoever waits is told by the error alone"
    disk.heal()
    await session.flush()

    assert (session.queued, session.failure, session.head) == (0, None, 5)
    assert await content(place) == ["first", "a", "b", "c", "d"]
    await emit_all(session, "e")
    await until(lambda: session.queued == 0)
    await opened.close()
    assert await content(place) == ["first", "a", "b", "c", "d", "e"]


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("method", ["write", "sync_data"])
async def test_no_event_is_lost_or_written_twice_whatever_reached_the_disk(
    place: JsonlPlace, method: str, effect: Effect
) -> None:
    disk = FailingDisk(methods={method}, effect=effect)
    opened = Opened(place, disk, ONLY_BY_FLUSH)
    session = await opened.sessions.create("s-1")
    await session.append("message", "first")
    disk.calls, disk.fail_at = 0, 1
    events = ["x" * 300, "y" * 50, "z" * 300, "end"]

    await emit_all(session, events)
    assert await fails(session.flush()) == (effect != "short")
    await session.flush()

    assert await content(place) == ["first", *events]
    await opened.close()


@pytest.mark.parametrize("effect", ["none", "half", "done"])
async def test_a_failure_at_any_call_of_the_first_write_costs_nothing(
    tmp_path: Path, effect: Effect
) -> None:
    """The first batch comes with the log itself: after a failure nobody knows if that is there.

    Where the store must not be used any more, the events are taken over into a new one.
    """
    for number, disk in enumerate(failing_disks(effect=effect)):
        root = tmp_path / str(number)
        root.mkdir()
        place = JsonlPlace(root)
        opened = Opened(place, disk, ONLY_BY_FLUSH)
        disk.fail_at, fail_at = 0, disk.fail_at
        session = await opened.sessions.create("s-1")
        disk.calls, disk.fail_at = 0, fail_at
        await emit_all(session, "abc")
        await fails(session.flush())
        disk.heal()
        if await fails(session.flush()):
            assert await fails(opened.close())
            await _take_over(place, session)
        else:
            await opened.close()

        assert await content(place) == ["a", "b", "c"], disk.landed


async def _take_over(place: JsonlPlace, closed: Session) -> None:
    opened = Opened(place)
    if any(summary.id == closed.id for summary in await opened.sessions.list()):
        session = await opened.sessions.load(closed.id, close_turn=False)
    else:
        session = await opened.sessions.create(closed.id)
    await session.adopt(closed)
    await session.flush()
    await opened.close()


@pytest.mark.parametrize("effect", ["none", "half", "done"])
@pytest.mark.parametrize("first", [None, "half", "done"])
async def test_a_failure_at_any_call_of_a_later_write_or_of_its_retry_costs_nothing(
    tmp_path: Path, first: Effect | None, effect: Effect
) -> None:
    """With `first` the first write fails always, and then any call of the retry too.

    Where the store must not be used any more, the events are taken over into a new one.
    """
    place = JsonlPlace(tmp_path)
    events = ["a", "b" * 1000, "c"]
    opened = Opened(place)
    await (await opened.sessions.create("s-1")).append("message", "first")
    await opened.close()
    expected = ["first"]
    below = FailingDisk(methods={"write"}, effect=first or "none")
    for disk in failing_disks(effect=effect, disk=below):
        disk.fail_at, fail_at = 0, disk.fail_at
        below.fail_at = 0
        opened = Opened(place, disk, ONLY_BY_FLUSH)
        session = await opened.sessions.load("s-1")
        disk.calls, disk.fail_at = 0, fail_at
        below.calls, below.fail_at = 0, int(first is not None)
        await emit_all(session, events)
        for _ in range(3):
            if not await fails(session.flush()):
                break
        await fails(opened.close())  # closing a descriptor may be what fails
        if session.queued:
            await _take_over(place, session)

        expected += events
        assert await content(place) == expected, disk.landed


async def test_a_full_queue_waits_for_the_flush_that_succeeds(place: JsonlPlace) -> None:
    disk = FailingDisk(methods={"sync_data"}, sticky=True)
    opened = Opened(place, disk, EmitPolicy(delay_s=0, events_max=2))
    session = await opened.sessions.create("s-1")
    await session.append("message", "first")
    disk.fail_at = 1
    await emit_all(session, "ab")
    await until(lambda: session.failure is not None)

    third = asyncio.ensure_future(session.emit("message", "c"))
    await asyncio.sleep(0.01)
    assert not third.done()
    disk.heal()
    await session.flush()
    await third
    await opened.close()

    assert await content(place) == ["first", "a", "b", "c"]


async def test_what_was_emitted_during_a_failure_is_written_once_that_is_over(
    place: JsonlPlace,
) -> None:
    """It found no deadline to wait for, and set none."""
    gate = GateDisk("drop_cache")  # of the log that is opened anew
    disk = FailingDisk(methods={"write"}, disk=gate, effect="half")
    opened = Opened(place, disk, EmitPolicy(delay_s=0))
    session = await opened.sessions.create("s-1")
    await session.append("message", "first")
    disk.calls, disk.fail_at = 0, 1
    await emit_all(session, "a")
    await until(lambda: session.failure is not None)

    append = asyncio.ensure_future(session.append("message", "b"))
    await gate.wait_reached()
    await emit_all(session, "c")
    gate.go_on.set()
    await append
    await until(lambda: session.queued == 0)

    assert await content(place) == ["first", "a", "b", "c"]
    await opened.close()


async def test_a_callback_that_fails_is_logged_and_forgotten(
    place: JsonlPlace, caplog: pytest.LogCaptureFixture
) -> None:
    def on_failure(*_: object) -> None:
        raise RuntimeError("mine")

    disk = FailingDisk(methods={"sync_data"})
    opened = Opened(place, disk, EmitPolicy(delay_s=0, on_failure=on_failure))
    session = await opened.sessions.create("s-1")
    await session.append("message", "first")
    disk.calls, disk.fail_at = 0, 1

    await emit_all(session, "a")
    await until(lambda: session.failure is not None)
    await session.flush()

    assert "on_failure failed" in caplog.text
    await opened.close()


# -- other writers -----------------------------------------------------------------------------


async def test_a_retry_goes_behind_what_another_process_wrote_meanwhile(
    place: JsonlPlace,
) -> None:
    """A poisoned log is given up before it is opened anew; another may be quicker."""
    disk = FailingDisk(methods={"sync_data"}, effect="done")
    opened, other = Opened(place, disk, ONLY_BY_FLUSH), Opened(place)
    session = await opened.sessions.create("s-1")
    await session.append("message", "first")
    disk.calls, disk.fail_at = 0, 1
    await emit_all(session, "ab")
    assert await fails(session.flush())
    held = opened.logs.held("s-1")
    assert held is not None
    held.close()

    theirs = await other.sessions.load("s-1")
    with pytest.raises(SessionBusyError):
        await session.flush()
    await theirs.append("message", "theirs")
    await theirs.close()
    await emit_all(session, "c")
    await session.flush()

    assert await content(place) == ["first", "a", "b", "theirs", "c"]
    await opened.close()
    await other.close()


async def test_an_equal_event_of_another_is_not_taken_for_ours(place: JsonlPlace) -> None:
    """An event is known by its chain, in which its time is."""
    disk = FailingDisk(methods={"write"})
    opened, other = Opened(place, disk, ONLY_BY_FLUSH), Opened(place)
    session = await opened.sessions.create("s-1")
    await session.append("message", "first")
    disk.calls, disk.fail_at = 0, 1
    await emit_all(session, ["same"])
    assert await fails(session.flush())
    held = opened.logs.held("s-1")
    assert held is not None
    held.close()
    theirs = await other.sessions.load("s-1")
    await theirs.append("message", "same")
    await other.close()

    await session.flush()

    assert await content(place) == ["first", "same", "same"]
    await opened.close()


async def test_a_session_that_another_created_first_is_not_written_to(place: JsonlPlace) -> None:
    opened, other = Opened(place, emit=ONLY_BY_FLUSH), Opened(place)
    session = await opened.sessions.create("s-1")
    await emit_all(session, "a")
    await (await other.sessions.create("s-1")).append("message", "theirs")
    await other.close()

    for _ in range(2):
        with pytest.raises(SessionExistsError):
            await session.flush()

    assert session.queued == 1
    with pytest.raises(SessionExistsError):
        await opened.close()
    assert await content(place) == ["theirs"]


async def test_nothing_is_written_to_a_log_that_lost_what_was_acknowledged(
    place: JsonlPlace,
) -> None:
    disk = FailingDisk(methods={"write"})
    opened = Opened(place, disk, ONLY_BY_FLUSH)
    session = await opened.sessions.create("s-1")
    await session.append("message", "first")
    header = place.read("s-1").partition(b"\n")[0] + b"\n"
    disk.calls, disk.fail_at = 0, 1
    await emit_all(session, "a")
    assert await fails(session.flush())
    place.write("s-1", header)

    with pytest.raises(LogDamagedError, match="acknowledged"):
        await session.flush()

    assert place.read("s-1") == header
    with pytest.raises(LogDamagedError):
        await opened.close()


# -- close -------------------------------------------------------------------------------------


async def test_close_writes_what_is_queued_and_takes_nothing_new(place: JsonlPlace) -> None:
    disk = GateDisk("sync_data")
    opened = Opened(place, disk, ONLY_BY_FLUSH)
    session = await opened.sessions.create("s-1")
    await session.append("message", "first")
    await emit_all(session, "ab")

    closes = [asyncio.ensure_future(session.close()) for _ in range(3)]
    await disk.wait_reached()
    with pytest.raises(ValueError, match="closed"):
        await session.emit("message", "c")
    with pytest.raises(ValueError, match="closed"):
        await session.append("message", "c")
    disk.go_on.set()
    await asyncio.gather(*closes, session.close())
    await session.flush()

    assert await content(place) == ["first", "a", "b"]
    await opened.close()


async def test_who_waits_for_room_is_refused_when_the_session_is_closed(
    place: JsonlPlace,
) -> None:
    disk = GateDisk("sync_file")
    opened = Opened(place, disk, EmitPolicy(delay_s=3600, events_max=1))
    session = await opened.sessions.create("s-1")
    await emit_all(session, "a")
    waiting = [asyncio.ensure_future(session.emit("message", item)) for item in "bc"]
    await disk.wait_reached()

    closing = asyncio.ensure_future(session.close())
    await asyncio.sleep(0)
    disk.go_on.set()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    await closing

    assert [type(outcome) for outcome in outcomes] == [ValueError] * 2
    assert await content(place) == ["a"]
    await opened.close()


async def test_a_close_that_fails_keeps_the_events_and_gives_up_the_lock(
    place: JsonlPlace,
) -> None:
    disk = FailingDisk(methods={"write"}, sticky=True)
    opened, other = Opened(place, disk, ONLY_BY_FLUSH), Opened(place)
    session = await opened.sessions.create("s-1")
    await session.append("message", "first")
    await emit_all(session, "ab")
    disk.fail_at = 1

    with pytest.raises(StorageIOError) as first:
        await session.close()
    with pytest.raises(StorageIOError) as second:
        await session.close()
    assert first.value is second.value
    assert session.queued == 2
    theirs = await other.sessions.load("s-1")
    with pytest.raises(SessionBusyError):
        await session.flush()
    await theirs.close()
    with pytest.raises(StorageIOError):
        await session.flush()
    await (await other.sessions.load("s-1")).close()
    disk.heal()
    await session.flush()

    assert session.queued == 0
    assert (await content(place))[:3] == ["first", "a", "b"]
    assert (await other.sessions.load("s-1")).head == 3
    with pytest.raises(ValueError, match="closed"):
        await session.emit("message", "c")
    await opened.close()
    await other.close()


async def test_a_session_that_never_had_a_log_gets_one_after_a_close_that_failed(
    place: JsonlPlace,
) -> None:
    disk = FailingDisk(methods={"write"}, sticky=True)
    opened = Opened(place, disk, ONLY_BY_FLUSH)
    session = await opened.sessions.create("s-1", meta={"title": "T"})
    await emit_all(session, "ab")
    disk.calls, disk.fail_at = 0, 1
    with pytest.raises(StorageIOError):
        await session.close()
    assert await fails(session.flush())
    disk.heal()

    await session.flush()

    assert await content(place) == ["a", "b"]
    assert session.header.title == "T"
    await opened.close()


async def test_what_a_closed_session_left_goes_into_the_one_that_was_loaded_since(
    place: JsonlPlace,
) -> None:
    disk = FailingDisk(methods={"sync_data"})
    opened = Opened(place, disk, ONLY_BY_FLUSH)
    closed = await opened.sessions.create("s-1")
    await closed.append("message", "first")
    await emit_all(closed, "a")
    disk.calls, disk.fail_at = 0, 1
    with pytest.raises(StorageIOError):
        await closed.close()

    session = await opened.sessions.load("s-1")
    assert session is not closed
    await closed.flush()
    await session.append("message", "b")

    assert await content(place) == ["first", "a", "b"]
    await opened.close()


async def test_a_session_with_events_that_failed_is_loaded_as_it_is(place: JsonlPlace) -> None:
    disk = FailingDisk(methods={"sync_data"})
    opened = Opened(place, disk, ONLY_BY_FLUSH)
    session = await opened.sessions.create("s-1")
    await session.append("message", "first")
    await emit_all(session, "a")
    disk.calls, disk.fail_at = 0, 1
    assert await fails(session.flush())

    assert await opened.sessions.load("s-1") is session
    assert (await session.append("message", "b")).seq == 3
    assert await opened.sessions.load("s-1") is session
    await opened.close()


async def test_a_store_that_cannot_write_them_leaves_its_events_to_the_next(
    place: JsonlPlace,
) -> None:
    disk = FailingDisk(methods={"sync_data"}, sticky=True, effect="done")
    opened = Opened(place, disk, ONLY_BY_FLUSH)
    sessions = [await opened.sessions.create(name) for name in ("s-1", "s-2")]
    for session in sessions:
        await session.append("turn/start", "first")
        await emit_all(session, "ab")
    disk.fail_at = 1
    with pytest.raises(StorageIOError):
        await opened.close()

    again = Opened(place, emit=ONLY_BY_FLUSH)
    for session in sessions:
        adopter = await again.sessions.load(session.id, close_turn=False)
        with pytest.raises(ValueError, match="adopts"):
            await adopter.adopt(await again.sessions.create(f"other-{adopter.id}"))
        await adopter.adopt(session)
        await adopter.emit("message", "c")
        await adopter.flush()
        assert await content(place, session.id) == ["first", "a", "b", "c"]
    await again.close()


# -- cancellation ------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["flush", "append", "close"])
@pytest.mark.parametrize("failing", [False, True])
async def test_a_wait_that_is_cancelled_during_the_write_loses_no_outcome(
    place: JsonlPlace, how: str, failing: bool
) -> None:
    gate = GateDisk("sync_data")
    disk = FailingDisk(methods={"sync_data"}, disk=gate, effect="done")
    opened = Opened(place, disk, ONLY_BY_FLUSH)
    session = await opened.sessions.create("s-1")
    await emit_all(session, ["first"])
    await session.flush()
    disk.calls, disk.fail_at = 0, int(failing)
    await emit_all(session, "ab")

    calls = {"flush": session.flush, "close": session.close}
    call = calls.get(how, lambda: session.append("message", "c"))
    waiting = asyncio.ensure_future(call())
    await gate.wait_reached()
    waiting.cancel()
    await asyncio.sleep(0.005)
    assert not waiting.done(), "the caller would go on under a live writer"
    gate.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert session.queued == (2 if failing else 0)
    assert (session.failure is not None) == failing
    await session.flush()

    assert await content(place) == ["first", "a", "b"]
    await opened.close()


async def test_a_flush_that_is_cancelled_in_the_queue_leaves_the_others(
    place: JsonlPlace,
) -> None:
    gate = GateDisk("sync_data")
    opened = Opened(place, gate, ONLY_BY_FLUSH)
    session = await opened.sessions.create("s-1")
    await emit_all(session, ["first"])
    await session.flush()
    await emit_all(session, "ab")
    flushes = [asyncio.ensure_future(session.flush()) for _ in range(3)]
    await gate.wait_reached()

    flushes[1].cancel()
    gate.go_on.set()
    outcomes = await asyncio.gather(*flushes, return_exceptions=True)

    assert outcomes[0] is None
    assert isinstance(outcomes[1], asyncio.CancelledError)
    assert outcomes[2] is None
    assert await content(place) == ["first", "a", "b"]
    await opened.close()


async def test_an_interrupt_behind_a_write_does_not_let_it_be_written_again(
    place: JsonlPlace,
) -> None:
    """Ctrl-C without asyncio.run's handler is raised between any two steps of the main thread."""

    class Interrupted(deque[Any]):
        left = 2

        def popleft(self) -> Any:
            item = super().popleft()
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
            return item

    opened = Opened(place, None, ONLY_BY_FLUSH)
    session = await opened.sessions.create("s-1")
    await emit_all(session, "abc")
    session._writer.queue._queue = Interrupted(session._writer.queue._queue)

    with pytest.raises(KeyboardInterrupt):
        await session.flush()
    await session.flush()
    await opened.close()

    assert await content(place) == ["a", "b", "c"]
