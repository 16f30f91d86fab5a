"""Room: zeros behind a busy log's end cost nobody an event, and nobody else sees them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attachstore.disk import Disk
from attachstore.errors import AttachstoreError, LogPoisonedError
from attachstore.sessions import EmitPolicy, SessionLogs, room, session_writer
from attachstore.sessions.room import content_size
from tests.faults import FailingDisk, InterceptedDisk, PowerLossDisk, RecordingDisk, failing_disks
from tests.sessions.jobs import Job, Promise, Tell, check, open_logs
from tests.sessions.opened import Opened
from tests.sessions.places import JsonlPlace

ROOM = 8192


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room from the first append on, and little of it, so that it is filled and made anew."""
    monkeypatch.setattr(room, "BUSY_APPENDS", 0)
    monkeypatch.setattr(room, "BUSY_S", float("inf"))
    monkeypatch.setattr(room, "ROOM_BYTES", ROOM)
    monkeypatch.setattr(room, "ROOM_BYTES_MAX", ROOM * 5 // 4)


def prepare(place: JsonlPlace) -> None:
    logs = open_logs(place.root)
    logs.create("s-1").append_many([("message", 0), ("message", 1)])
    logs.close()
    assert not place.read("s-1").endswith(b"\0")


def prepare_left(place: JsonlPlace) -> None:
    """A writer was killed while it was busy."""
    prepare(place)
    content = place.read("s-1")
    place.write("s-1", content.ljust(ROOM, b"\0"))


def prepare_torn(place: JsonlPlace) -> None:
    """It was killed while it wrote, and half a line is in the room."""
    prepare(place)
    content = place.read("s-1") + b'{"seq":3,"time":'
    place.write("s-1", content.ljust(ROOM, b"\0"))


ADDED: list[Any] = [2, "x" * 3000, "y" * 3000, 5, "z" * 600, "after a rest", 8, 9, "last"]


def work(logs: SessionLogs, tell: Tell) -> None:
    log = logs.load("s-1")
    tell(Promise("s-1", 2))
    for count, data in enumerate(ADDED[:5], 3):
        log.append("message", data)
        tell(Promise("s-1", count))
    log.rest()
    log.append("message", ADDED[5])
    tell(Promise("s-1", 8))
    log.append_many([("message", 8), ("message", 9)])
    tell(Promise("s-1", 10))
    log.close()
    logs.load("s-1").append("message", "last")
    tell(Promise("s-1", 11))


JOBS = [
    Job("room", prepare, work, {"s-1": [0, 1, *ADDED]}),
    Job("room left", prepare_left, work, {"s-1": [0, 1, *ADDED]}),
    Job("torn in room", prepare_torn, work, {"s-1": [0, 1, *ADDED]}),
]


@pytest.fixture(params=JOBS, ids=lambda job: job.name)
def job(request: pytest.FixtureRequest) -> Job:
    return request.param


# -- faults ------------------------------------------------------------------------------------


def test_a_power_cut_at_any_call_costs_nothing_that_was_promised(job: Job, tmp_path: Path) -> None:
    """Blocks of the room that were written and not synced are lost one by one."""
    root = tmp_path / "disk"
    root.mkdir()
    job.prepare(JsonlPlace(root))
    disk = PowerLossDisk(root)
    logs = open_logs(root, disk)
    job.work(logs, disk.acknowledge)
    logs.close()

    for state, promises in disk.crash_moments(into=tmp_path):
        check(job, state, promises)


@pytest.mark.parametrize(
    ("job", "sticky"),
    [(JOBS[0], False), (JOBS[2], True)],
    ids=["room, once", "torn in room, for-ever"],
)
@pytest.mark.parametrize("effect", ["none", "done", "half"])
def test_an_error_at_any_call_costs_nothing_that_was_promised(
    job: Job, effect: Any, sticky: bool, tmp_path: Path
) -> None:
    for number, disk in enumerate(failing_disks(effect=effect, sticky=sticky)):
        root = tmp_path / str(number)
        root.mkdir()
        job.prepare(JsonlPlace(root))
        logs = open_logs(root, disk)
        promises: list[Promise] = []
        with contextlib.suppress(AttachstoreError):
            job.work(logs, promises.append)
        disk.heal()
        logs.close()

        check(job, root, promises)


def test_short_reads_and_writes_are_no_errors(job: Job, tmp_path: Path) -> None:
    job.prepare(JsonlPlace(tmp_path))
    disk = next(iter(failing_disks(effect="short", sticky=True)))
    logs = open_logs(tmp_path, disk)
    promises: list[Promise] = []
    job.work(logs, promises.append)
    logs.close()

    check(job, tmp_path, promises)
    assert promises[-1] == Promise("s-1", 11)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO], ids=["full", "failing"])
@pytest.mark.parametrize("effect", ["none", "half"])
def test_no_event_fails_for_want_of_room(error: int, effect: Any, tmp_path: Path) -> None:
    """The event fits, only the zeros do not: it is written as it was before there was room."""
    prepare(place := JsonlPlace(tmp_path))
    disk = FailingDisk(3, methods={"write"}, error=error, effect=effect)  # the lock, then the line
    logs = open_logs(tmp_path, disk)
    log = logs.load("s-1")

    assert log.append("message", 2).seq == 3
    assert disk.landed
    assert not log.is_ready
    assert not place.read("s-1").endswith(b"\0")
    assert log.append("message", 3).seq == 4
    assert log.is_ready
    logs.close()
    assert [event.data for event in open_logs(tmp_path).events("s-1")] == [0, 1, 2, 3]


def test_a_log_that_could_not_be_cut_back_is_closed_all_the_same(tmp_path: Path) -> None:
    prepare(place := JsonlPlace(tmp_path))
    logs = open_logs(tmp_path, FailingDisk(1, methods={"truncate"}, sticky=True))
    logs.load("s-1").append("message", 2)
    logs.close()
    assert place.read("s-1").endswith(b"\0")

    other = open_logs(tmp_path)
    assert other.load("s-1").head == 3
    assert not place.read("s-1").endswith(b"\0")
    other.close()


# -- order -------------------------------------------------------------------------------------


def test_the_order_of_calls_is_the_argument(tmp_path: Path) -> None:
    """Zeros go out with the event that makes them, in front of its sync; later only events do."""
    prepare(JsonlPlace(tmp_path))
    disk = RecordingDisk(tmp_path)
    logs = open_logs(tmp_path, disk)
    log = logs.load("s-1")
    disk.trace.clear()

    log.append("message", 2)
    log.append("message", 3)
    log.close()

    assert [method for method, _ in disk.trace] == [
        "write",  # the event
        "write",  # zeros
        "sync_data",
        "write",
        "sync_data",
        "truncate",
    ]


def test_few_events_or_slow_ones_make_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(place := JsonlPlace(tmp_path))
    logs = open_logs(tmp_path)
    log = logs.load("s-1")
    monkeypatch.setattr(room, "BUSY_APPENDS", 5)
    for number in range(5):
        log.append("message", number)
        assert not log.is_ready
    log.append("message", "now it is worth it")
    assert log.is_ready
    log.rest()
    monkeypatch.setattr(room, "BUSY_S", -1)
    for number in range(20):
        log.append("message", number)
    assert not log.is_ready
    assert not place.read("s-1").endswith(b"\0")
    logs.close()


def test_large_appends_make_no_room(tmp_path: Path) -> None:
    prepare(place := JsonlPlace(tmp_path))
    logs = open_logs(tmp_path)
    log = logs.load("s-1")

    log.append("message", "x" * room.EVENTS_BYTES_MAX)

    assert not log.is_ready
    assert place.read("s-1").endswith(b"}\n")
    logs.close()


# -- what others see ---------------------------------------------------------------------------


def test_readers_see_a_log_that_ends_with_its_last_event(tmp_path: Path) -> None:
    prepare(place := JsonlPlace(tmp_path))
    logs, other = open_logs(tmp_path), open_logs(tmp_path)
    log = logs.load("s-1")
    log.append("message", 2)
    assert len(place.read("s-1")) == ROOM
    size_bytes = log.acknowledged.size_bytes

    view = other.verify("s-1")
    assert (view.head_seq, view.size_bytes, view.tail) == (3, size_bytes, None)
    (summary,) = other.list()
    assert (summary.head_seq, summary.size_bytes, summary.problem) == (3, size_bytes, None)
    assert [event.data for event in other.events("s-1")] == [0, 1, 2]
    assert [event.data for event in other.events("s-1", after=2)] == [2]
    assert [event.data for event in other.events("s-1", damaged="resync")] == [0, 1, 2]
    child = other.fork("s-1", id="s-2")
    assert (child.head, child.head_chain) == (3, log.head_chain)
    assert not place.read("s-2").endswith(b"\0")
    logs.close()
    assert len(place.read("s-1")) == size_bytes
    other.close()


def test_room_that_a_killed_writer_left_is_nothing_to_keep(tmp_path: Path) -> None:
    prepare_left(place := JsonlPlace(tmp_path))
    before = place.read("s-1").rstrip(b"\0")

    logs = open_logs(tmp_path)
    assert logs.inspect("s-1").tail is None
    assert logs.load("s-1").head == 2

    assert place.read("s-1") == before
    assert place.torn("s-1") == []
    logs.close()


def test_half_a_line_in_the_room_is_kept_without_the_room(tmp_path: Path) -> None:
    prepare_torn(place := JsonlPlace(tmp_path))

    logs = open_logs(tmp_path)
    tail = logs.inspect("s-1").tail
    assert tail is not None
    assert tail.size_bytes == len(b'{"seq":3,"time":')
    assert logs.load("s-1").append("message", 2).seq == 3

    assert [kept.rstrip(b"\0") for kept in place.torn("s-1")] == [b'{"seq":3,"time":']
    logs.close()


def test_a_reader_beside_a_busy_writer_never_sees_damage(tmp_path: Path) -> None:
    """It takes the end of the log first; what lies before that does not change any more."""
    prepare(JsonlPlace(tmp_path))
    logs, other = open_logs(tmp_path), open_logs(tmp_path)
    log = logs.load("s-1")
    faults: list[object] = []
    going_on = True

    def read() -> None:
        while going_on:
            try:
                seen = other.verify("s-1").head_seq
                listed = other.list()[0]
                assert listed.problem is None
                assert listed.head_seq >= seen
            except Exception as error:  # noqa: BLE001 - told by the test
                faults.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(300):
        log.append("message", "x" * (number * 37 % 3000))
    going_on = False
    for reader in readers:
        reader.join()

    assert faults == []
    logs.close()
    other.close()


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "longer": lambda content: content + b"more\n",
    "shorter": lambda content: content[:-1],
    "cut back": lambda content: content.rstrip(b"\0"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_another_programs_change_of_the_length_stops_the_writer(
    change: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    prepare(place := JsonlPlace(tmp_path))
    logs = open_logs(tmp_path)
    log = logs.load("s-1")
    log.append("message", 2)
    changed = change(place.read("s-1"))
    place.write("s-1", changed)

    with pytest.raises(LogPoisonedError, match="another program"):
        log.append("message", 3)
    assert place.read("s-1") == changed
    logs.close()


def test_a_writer_that_failed_leaves_what_it_does_not_know_about(tmp_path: Path) -> None:
    """What is behind the head may be an event that did reach the disk: only a load may judge."""
    prepare(place := JsonlPlace(tmp_path))
    disk = FailingDisk(2, methods={"sync_data"})
    logs = open_logs(tmp_path, disk)
    log = logs.load("s-1")
    log.append("message", 2)
    with pytest.raises(AttachstoreError):
        log.append("message", 3)
    before = place.read("s-1")

    log.rest()
    log.close()

    assert place.read("s-1") == before
    assert logs.load("s-1").head == 4
    logs.close()


# -- rest --------------------------------------------------------------------------------------


async def test_an_idle_session_is_cut_back_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that whoever looks at the file with other tools sees lines and nothing else."""
    monkeypatch.setattr(session_writer, "REST_AFTER_S", 0.02)
    place = JsonlPlace(tmp_path)
    opened = Opened(place, emit=EmitPolicy(delay_s=0.001))
    session = await opened.sessions.create("s-1")
    for number in range(3):
        await session.append("message", number)
        await session.append("message", number)
        await _until(lambda: not place.read("s-1").endswith(b"\0"))
        await session.emit("message", number)
        await session.flush()
        await _until(lambda: not place.read("s-1").endswith(b"\0"))

    assert session.head == 9
    await opened.close()


async def test_the_timer_that_lets_a_session_rest_keeps_nothing_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_writer, "REST_AFTER_S", 0.05)
    opened = Opened(JsonlPlace(tmp_path))
    session = await opened.sessions.create("s-1")
    await session.append("message", 1)
    await session.append("message", 2)
    assert opened.logs.held("s-1") is not None

    await opened.close()  # with the timer set
    await asyncio.sleep(0.1)


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


# -- where a log ends --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", 0),
        (b"line\n", 5),
        (b"line\n\0\0\0", 8),
        (b"line\n".ljust(ROOM, b"\0"), 5),
        (b"x" * ROOM, ROOM),
        (b"x" * (ROOM - 1) + b"\0", ROOM - 1),
        ((b"x" * ROOM).ljust(2 * ROOM, b"\0"), ROOM),
        ((b"x" * 10).ljust(2 * ROOM, b"\0"), 2 * ROOM),
        (bytes(ROOM), ROOM),
    ],
    ids=["empty", "plain", "odd length", "room", "full", "one", "whole", "too much", "only zeros"],
)
def test_the_log_in_a_file_ends_before_its_room(
    content: bytes, expected: int, tmp_path: Path
) -> None:
    """Zeros that room does not explain are left to the rule for tails."""
    disk: Disk = InterceptedDisk()
    path = tmp_path / "file"
    path.write_bytes(content)
    descriptor = disk.open_read(path)
    try:
        assert content_size(disk, descriptor, len(content)) == expected
    finally:
        disk.close(descriptor)
