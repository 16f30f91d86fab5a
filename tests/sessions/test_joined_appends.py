"""Appends that are called together share a sync, and nothing else: order, errors, cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attachstore.digest import Digest
from attachstore.disk import Disk
from attachstore.errors import (
    DanglingReferenceError,
    LogPoisonedError,
    ResourceExhaustedError,
    SequenceConflictError,
    StorageIOError,
)
from attachstore.sessions import EmitPolicy, Session
from attachstore.sessions.log import SessionLog
from tests.conformance.session_medium import REFERENCE
from tests.faults import FailingDisk, RecordingDisk
from tests.sessions.opened import GateDisk, Opened, data_of
from tests.sessions.places import JsonlPlace

Open = Callable[[Disk], AbstractAsyncContextManager[tuple[Opened, Session]]]
UNKNOWN = replace(REFERENCE, digest=Digest.of(b"nobody has it"))


@pytest.fixture
def place(tmp_path: Path) -> JsonlPlace:
    return JsonlPlace(tmp_path)


@pytest.fixture
def opened(place: JsonlPlace) -> Open:
    """A session with one event, and room behind it."""

    @asynccontextmanager
    async def opened(disk: Disk) -> AsyncGenerator[tuple[Opened, Session]]:
        opened = Opened(place, disk, EmitPolicy(delay_s=1000))
        session = await opened.sessions.create("s-1")
        await session.append("message", 0)
        await session.append("message", 1)
        try:
            yield opened, session
        finally:
            await opened.close()

    return opened


def appended(session: Session, *data: Any) -> list[asyncio.Task[Any]]:
    return [asyncio.create_task(session.append("message", it)) for it in data]


async def test_those_who_wait_share_one_write_and_one_sync(opened: Open, place: JsonlPlace) -> None:
    disk = RecordingDisk(place.root, methods={"write", "sync_data"})
    async with opened(disk) as (at, session):
        disk.trace.clear()

        events = await asyncio.gather(*appended(session, *range(2, 50)))

        assert [call for call, _ in disk.trace] == ["write", "sync_data"] * 2
        assert [event.seq for event in events] == list(range(3, 51))
        assert [event.data for event in events] == list(range(2, 50))
        assert {event.batch for event in events[1:]} == {4}
        assert await data_of(at.sessions, "s-1") == list(range(50))
        assert (await at.sessions.verify("s-1")).head_seq == 50


async def test_calls_with_several_events_stay_together(opened: Open) -> None:
    async with opened(Disk()) as (at, session):
        pairs = [[("message", [call, number]) for number in range(3)] for call in range(5)]

        found = await asyncio.gather(*(session.append_many(it) for it in pairs))

        assert [[event.data for event in events] for events in found] == [
            [[call, number] for number in range(3)] for call in range(5)
        ]
        assert (await data_of(at.sessions, "s-1"))[2:] == [
            [call, number] for call in range(5) for number in range(3)
        ]


async def test_what_was_emitted_before_a_call_comes_before_it(opened: Open) -> None:
    """So a call behind an emit does not go along with one before it."""
    async with opened(Disk()) as (at, session):
        first = appended(session, "first", "second")
        await asyncio.sleep(0)
        await session.emit("message", "emitted")
        last = appended(session, "last")
        await asyncio.gather(*first, *last)

        found = await data_of(at.sessions, "s-1")
        assert found[2:] == ["first", "second", "emitted", "last"]


async def test_who_says_where_the_head_is_decides_alone(opened: Open) -> None:
    async with opened(Disk()) as (at, session):
        calls = [
            session.append("message", "a"),
            session.append("message", "b", after=3),
            session.append("message", "c", after=3),
            session.append("message", "d"),
        ]
        _, b, c, d = await asyncio.gather(*calls, return_exceptions=True)

        assert not isinstance(b, BaseException)
        assert isinstance(c, SequenceConflictError)
        assert c.head_seq == 4
        assert not isinstance(d, BaseException)
        assert (await data_of(at.sessions, "s-1"))[2:] == ["a", "b", "d"]


async def test_what_is_wrong_with_one_call_is_told_to_it_alone(opened: Open) -> None:
    async with opened(Disk()) as (at, session):
        tasks = appended(session, "a", "b", {"file": UNKNOWN}, "d", {"file": REFERENCE})

        outcomes = await asyncio.gather(*tasks, return_exceptions=True)

        assert [type(it) for it in outcomes if isinstance(it, BaseException)] == [
            DanglingReferenceError
        ]
        assert (await data_of(at.sessions, "s-1"))[2:] == ["a", "b", "d", {"file": REFERENCE}]


@pytest.mark.parametrize("method", ["write", "sync_data"])
async def test_a_write_that_fails_is_told_once_and_the_others_that_the_log_is_poisoned(
    opened: Open, method: str
) -> None:
    disk = FailingDisk(methods={method})
    async with opened(disk) as (_, session):
        disk.fail_at = disk.calls + 2  # the first call is written by itself
        first, *others = await asyncio.gather(
            *appended(session, *range(2, 6)), return_exceptions=True
        )

        assert not isinstance(first, BaseException)
        assert [type(it) for it in others] == [StorageIOError, LogPoisonedError, LogPoisonedError]


async def test_who_is_cancelled_before_his_turn_has_written_nothing(opened: Open) -> None:
    disk = GateDisk("sync_data")
    disk.go_on.set()
    async with opened(disk) as (at, session):
        disk.reached.clear()
        disk.go_on.clear()
        first, second, third = appended(session, "first", "second", "third")
        await disk.wait_reached()
        second.cancel()
        await asyncio.sleep(0)
        disk.go_on.set()
        await asyncio.gather(first, third)

        with pytest.raises(asyncio.CancelledError):
            await second
        assert (await data_of(at.sessions, "s-1"))[2:] == ["first", "third"]


async def test_a_cancelled_leader_costs_nobody_else_his_outcome(opened: Open) -> None:
    disk = GateDisk("sync_data")
    disk.go_on.set()
    async with opened(disk) as (at, session):
        first, leader, third = appended(session, "first", "leader", "third")
        await first
        disk.reached.clear()
        disk.go_on.clear()
        await disk.wait_reached()
        leader.cancel()
        await asyncio.sleep(0.01)
        assert not leader.done()
        disk.go_on.set()

        assert (await third).seq == 5
        with pytest.raises(asyncio.CancelledError):
            await leader
        assert (await data_of(at.sessions, "s-1"))[2:] == ["first", "leader", "third"]


async def test_without_a_thread_nobody_is_forgotten(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who was taken along by one who could not write has his own turn."""
    async with opened(Disk()) as (at, session):
        finish, refused = at.worker.finish, [MemoryError()]

        async def refusing_once(*arguments: Any, **options: Any) -> Any:
            if refused:
                raise refused.pop()
            return await finish(*arguments, **options)

        monkeypatch.setattr(at.worker, "finish", refusing_once)
        outcomes = await asyncio.gather(*appended(session, *"abcd"), return_exceptions=True)

        assert [isinstance(it, MemoryError) for it in outcomes] == [False, True, False, False]
        assert (await data_of(at.sessions, "s-1"))[2:] == ["a", "c", "d"]


async def test_without_memory_each_caller_is_told_so_in_our_words(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(Disk()) as (at, session):
        await session.append("message", 2)

        def starving(*_: object, **__: object) -> None:
            raise MemoryError

        monkeypatch.setattr(SessionLog, "append_drafts", starving)
        outcomes = await asyncio.gather(*appended(session, *"abc"), return_exceptions=True)
        monkeypatch.undo()

        assert [type(it) for it in outcomes] == [ResourceExhaustedError] * 3
        assert await data_of(at.sessions, "s-1") == [0, 1, 2]


async def test_a_batch_that_would_be_too_large_is_two(
    opened: Open, place: JsonlPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attachstore.sessions.joined_appends.BATCH_BYTES_MAX", 1000)
    disk = RecordingDisk(place.root, methods={"sync_data"})
    async with opened(disk) as (_, session):
        disk.trace.clear()

        await asyncio.gather(*appended(session, "a", *["x" * 400] * 4))

        assert len(disk.trace) == 3
