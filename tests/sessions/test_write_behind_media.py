"""Emitted events on every medium: the rules are above the seam, so they hold on each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import pytest

from attachstore import EmitPolicy, blocking
from attachstore.errors import AttachstoreError, StorageIOError
from attachstore.sessions import SessionLogs, Sessions
from attachstore.sessions.medium import LogWriter, SessionMedium
from attachstore.threads import Worker
from tests.conformance.session_medium import confirm
from tests.sessions.opened import data_of, put
from tests.sessions.places import BornSealedPlace, JsonlPlace, MemoryPlace, SqlitePlace

Place = MemoryPlace | JsonlPlace | SqlitePlace
When = Literal["before", "after"]


@pytest.fixture(params=["memory", "jsonl", "sealed", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    kind = str(request.param)
    if kind == "memory":
        return MemoryPlace()
    places = {"jsonl": JsonlPlace, "sealed": BornSealedPlace, "sqlite": SqlitePlace}
    return places[kind](tmp_path)


def failing_once(
    medium: SessionMedium, monkeypatch: pytest.MonkeyPatch, when: When, method: str
) -> None:
    """The next `method` of the medium, or append of a writer of its, fails before or after."""
    left = [1]

    def wrapped(call: Callable[..., Any]) -> Callable[..., Any]:
        def fail(*arguments: Any) -> Any:
            if not left:
                return call(*arguments)
            left.clear()
            if when == "after":
                result = call(*arguments)
                if result is not None:
                    result.close()
            raise StorageIOError(where="test", reason="injected")

        return fail

    if method == "add":
        monkeypatch.setattr(medium, "add", wrapped(medium.add))
        return
    add = medium.add

    def add_failing(name: Any, content: Iterable[bytes]) -> LogWriter:
        writer = add(name, content)
        monkeypatch.setattr(writer, "append", wrapped(writer.append), raising=True)
        return writer

    monkeypatch.setattr(medium, "add", add_failing)


@pytest.mark.parametrize("method", ["add", "append"])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_write_that_failed_before_or_after_it_took_effect_is_made_good(
    place: Place, monkeypatch: pytest.MonkeyPatch, when: When, method: str
) -> None:
    """The first write makes the log, the others add to it; of each the outcome may be unknown."""
    medium, worker = place.medium(), Worker("test", 4)
    logs = SessionLogs(medium, confirm)
    sessions = Sessions(logs, worker, put)
    sessions.emit_policy = EmitPolicy(delay_s=3600, batch_events_max=2)
    failing_once(medium, monkeypatch, when, method)
    session = await sessions.create("s-1")
    failures = 0

    for number in range(7):
        await session.emit("message", number)
    while session.queued:
        try:
            await session.flush()
        except AttachstoreError:
            failures += 1

    assert failures == 1
    assert await data_of(sessions, "s-1") == list(range(7))
    assert (await sessions.verify("s-1")).head_seq == 7
    await session.emit("message", 7)
    await sessions.close_all()
    worker.close()

    again = SessionLogs(place.medium(), confirm)
    assert [event.data for event in again.events("s-1")] == list(range(8))
    again.close()


async def test_after_a_fork_of_the_process_the_child_writes_nothing(tmp_path: Path) -> None:
    """Its copy of the queue is the parent's business."""
    place, worker = JsonlPlace(tmp_path), Worker("test", 4)
    sessions = Sessions(SessionLogs(place.medium(), confirm), worker, put)
    sessions.emit_policy = EmitPolicy(delay_s=3600)
    session = await sessions.create("s-1")
    await session.append("message", 0)
    await session.emit("message", 1)

    pid = os.fork()
    if pid == 0:  # pragma: no cover - another process
        refused = 0
        for call in (session.emit("message", 2), session.flush()):
            try:
                call.send(None)
            except ValueError:
                refused += 1
            except BaseException:  # noqa: BLE001 - told by the number
                pass
        os._exit(refused)
    _, status = os.waitpid(pid, 0)

    assert os.waitstatus_to_exitcode(status) == 2
    await session.flush()
    assert await data_of(sessions, "s-1") == [0, 1]
    await sessions.close_all()
    worker.close()


@pytest.mark.parametrize("medium", ["jsonl", "sqlite"])
def test_scripts_emit_without_asyncio(tmp_path: Path, medium: str) -> None:
    emit = EmitPolicy(delay_s=3600)
    with blocking.Store.open(tmp_path / "store", sessions=medium, emit=emit) as store:
        session = store.sessions.create("s-1")
        for number in range(3):
            session.emit("message", number)
        assert (session.queued, session.failure) == (3, None)
        session.flush()
        assert session.queued == 0
        session.emit("message", 3)
        closed = store.sessions.create("s-2")
        closed.close()
        with pytest.raises(ValueError, match="adopts"):
            session.adopt(closed)

    with blocking.Store.open(tmp_path / "store") as store:
        assert [event.data for event in store.sessions.read("s-1")] == [0, 1, 2, 3]
