"""The JSONL medium keeps the contract, and its files are what the reference says."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from attachstore.disk import Disk, ReadOnlyDisk
from attachstore.errors import (
    LogDamagedError,
    SessionMissingError,
    StorageReadOnlyError,
    StoreLayoutError,
)
from attachstore.sessions import SessionLogs
from attachstore.sessions.jsonl import JsonlMedium
from attachstore.sessions.names import SessionName
from tests.conformance.session_contract import SessionContractConformance
from tests.conformance.session_damage import SessionDamageConformance
from tests.conformance.session_kills import SessionKillConformance
from tests.conformance.session_medium import (
    SessionMediumConformance,
    confirm,
    content_of,
    filled,
)
from tests.conformance.session_suffix import SessionSuffixConformance
from tests.faults import InterceptedDisk, RecordingDisk
from tests.sessions.places import JsonlPlace


@pytest.fixture
def place(tmp_path: Path) -> JsonlPlace:
    return JsonlPlace(tmp_path)


@pytest.fixture
def logs(place: JsonlPlace) -> SessionLogs:
    return SessionLogs(place.medium(), confirm)


class TestJsonlMedium(SessionMediumConformance):
    pass


class TestDamageInJsonl(SessionDamageConformance):
    pass


class TestSuffixInJsonl(SessionSuffixConformance):
    pass


class TestContractInJsonl(SessionContractConformance):
    pass


class TestKillsInJsonl(SessionKillConformance):
    pass


def tree(root: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
    }


# -- layout ------------------------------------------------------------------------------------


def test_a_session_is_a_directory_with_a_log(place: JsonlPlace, logs: SessionLogs) -> None:
    filled(logs, "a/b", 1)

    assert set(tree(place.root)) == {
        "locks",
        "locks/.medium",
        "locks/a%2Fb",
        "sessions",
        "sessions/a%2Fb",
        "sessions/a%2Fb/log.jsonl",
    }
    mode = stat.S_IMODE(place.path("a/b").stat().st_mode)
    assert mode & 0o222 == 0o200, "others must not write"


def test_making_the_directories_is_safe_to_repeat(tmp_path: Path) -> None:
    for _ in range(2):
        JsonlMedium.create(tmp_path, Disk())

    assert set(tree(tmp_path)) == {"locks", "sessions"}


def test_missing_empty_directories_are_made_again(
    place: JsonlPlace, logs: SessionLogs, caplog: pytest.LogCaptureFixture
) -> None:
    """Tools that copy a store may leave out empty directories. That is nothing to warn of."""
    (place.root / "locks").rmdir()
    (place.root / "sessions").rmdir()
    assert logs.list() == []
    assert list(logs.medium.strays()) == []

    filled(logs, "s-1", 1)

    assert content_of(logs, "s-1") == [1]
    assert caplog.records == []


@pytest.mark.parametrize("wrong", ["locks", "locks/s-1", "sessions/s-1/torn"])
def test_a_link_in_the_place_of_ours_is_a_broken_layout_and_no_disk_error(
    place: JsonlPlace, logs: SessionLogs, wrong: str
) -> None:
    """`storage-io` would send the reader to dmesg."""
    filled(logs, "s-1", 1)
    logs.close()
    with place.path("s-1").open("ab") as log:
        log.write(b"torn")
    path = place.root / wrong
    if path.exists():
        path.rename(place.root / "moved")
    path.symlink_to(place.path("s-1"))

    with pytest.raises(StoreLayoutError) as caught:
        SessionLogs(place.medium(), confirm).load("s-1")

    assert caught.value.where.startswith(str(path))


@pytest.mark.parametrize("kind", ["link", "fifo", "directory"])
def test_a_log_that_is_no_file_is_refused_at_once(
    place: JsonlPlace, logs: SessionLogs, kind: str
) -> None:
    filled(logs, "s-1", 1)
    path = place.path("s-1")
    path.rename(place.root / "moved")
    if kind == "link":
        path.symlink_to(place.root / "moved")
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()

    for call in (logs.inspect, logs.load):
        with pytest.raises(StoreLayoutError):
            call("s-1")
    (summary,) = logs.list()
    assert isinstance(summary.problem, StoreLayoutError)


def test_what_belongs_to_no_session_is_told_to_a_scan(place: JsonlPlace, logs: SessionLogs) -> None:
    filled(logs, "s-1", 1)
    place.write("s-1", place.read("s-1") + b"x")
    logs.load("s-1")
    sessions = place.root / "sessions"
    (sessions / "s-1" / "notes.txt").touch()
    (sessions / "a b").mkdir()
    (sessions / "README").touch()
    (sessions / "s-1" / ".new-0123456789abcdef").touch()
    (sessions / "empty").mkdir()

    assert set(logs.medium.strays()) == {
        str(sessions / stray) for stray in ("s-1/notes.txt", "a b", "README")
    }
    assert [summary.id for summary in logs.list()] == ["s-1"]


# -- read-only ---------------------------------------------------------------------------------


def test_reading_works_on_a_disk_that_changes_nothing(place: JsonlPlace) -> None:
    logs = SessionLogs(place.medium(), confirm)
    filled(logs, "s-1", 1, 2)
    place.write("s-1", place.read("s-1") + b"torn")
    before = tree(place.root)
    reading = SessionLogs(JsonlMedium(place.root, ReadOnlyDisk()), confirm)

    assert content_of(reading, "s-1") == [1, 2]
    assert reading.verify("s-1").head_seq == 2
    assert len(reading.list()) == 1
    calls: list[Any] = [
        lambda: reading.load("s-1"),
        lambda: reading.create("s-2").append("message", 1),
        lambda: reading.fork("s-1", id="s-3"),
        lambda: reading.delete("s-1"),
        lambda: reading.repair("s-1"),
    ]
    for call in calls:
        with pytest.raises(StorageReadOnlyError):
            call()
    with pytest.raises(SessionMissingError):
        reading.load("nobody")
    assert tree(place.root) == before


def test_reading_makes_no_changing_call_and_takes_no_lock(place: JsonlPlace) -> None:
    logs = SessionLogs(place.medium(), confirm)
    filled(logs, "s-1", 1)
    disk = RecordingDisk(place.root)
    reading = SessionLogs(JsonlMedium(place.root, disk), confirm)

    content_of(reading, "s-1")
    reading.inspect("s-1")
    reading.list()

    assert disk.trace == []


# -- leftovers of killed processes -------------------------------------------------------------


def test_a_killed_deletion_is_finished_by_the_next_writer(place: JsonlPlace) -> None:
    filled(SessionLogs(place.medium(), confirm), "s-1", 1)
    leftover = place.root / "sessions" / ".deleted-0123456789abcdef"
    (leftover / "torn" / "deep").mkdir(parents=True)
    (leftover / "torn" / "1-2").write_bytes(b"x")
    (leftover / "link").symlink_to(place.root / "locks")
    logs = SessionLogs(place.medium(), confirm)

    assert [summary.id for summary in logs.list()] == ["s-1"]
    assert leftover.exists(), "a listing changes nothing"
    logs.load("s-1")
    assert not leftover.exists()
    assert (place.root / "locks").exists(), "links are not followed"


def test_a_killed_creation_is_cleared_by_the_next(place: JsonlPlace, logs: SessionLogs) -> None:
    stale = place.directory("s-1") / ".new-0123456789abcdef"
    stale.parent.mkdir()
    stale.write_bytes(b"half a log")

    assert logs.list() == []
    logs.create("s-1").append("message", 1)

    assert sorted(path.name for path in place.directory("s-1").iterdir()) == ["log.jsonl"]


# -- beside writers ----------------------------------------------------------------------------


class MeanwhileDisk(InterceptedDisk):
    """Does something just before the n-th read of a log."""

    def __init__(self, number: int, meanwhile: Any) -> None:
        super().__init__()
        self.reads = 0
        self.number = number
        self.meanwhile = meanwhile

    def intercept(self, method: str, call: Any, arguments: tuple[Any, ...]) -> Any:
        if method == "read_into":
            self.reads += 1
            if self.reads == self.number:
                self.meanwhile()
        return call()


def test_damage_is_read_a_second_time_before_it_is_told(place: JsonlPlace) -> None:
    """A writer may cut a tail and write over it between two reads of a reader."""
    writing = SessionLogs(place.medium(), confirm)
    filled(writing, "s-1", 1, 2)
    *first, later = place.read("s-1").splitlines(keepends=True)
    sound = b"".join(first)
    # The header, the records, the line's end, its NULs; then the records once more.
    for number in range(1, 6):
        place.write("s-1", sound + b"looks like damage\n")
        disk = MeanwhileDisk(number, lambda: place.write("s-1", sound + later))
        reading = SessionLogs(JsonlMedium(place.root, disk), confirm)
        assert content_of(reading, "s-1") in ([1], [1, 2])
    place.write("s-1", sound + b"looks like damage\n")
    with pytest.raises(LogDamagedError):
        writing.verify("s-1")


def test_a_reader_sees_a_prefix_while_another_writes(place: JsonlPlace, logs: SessionLogs) -> None:
    """Many appends, of small events and of batches; no reader ever calls anything damage."""
    log = logs.create("s-1")
    log.append("message", 0)
    done = threading.Event()

    def write() -> None:
        for number in range(1, 200, 4):
            log.append("message", number)
            log.append_many([("message", number + more) for more in (1, 2, 3)])
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    other = SessionLogs(place.medium(), confirm)
    rounds = 0
    while not done.is_set() or rounds == 0:
        content = content_of(other, "s-1")
        assert content == list(range(len(content)))
        forked = other.fork("s-1", id=f"fork-{rounds}")
        assert content_of(other, forked.id) == list(range(forked.head))
        assert [summary.problem for summary in other.list()] == [None] * (rounds + 2)
        rounds += 1
    writer.join()
    assert other.verify("s-1").head_seq == log.head


def test_a_parent_that_changes_under_a_fork_leaves_no_fork(place: JsonlPlace) -> None:
    """The lines are checked again as they are copied."""
    writing = SessionLogs(place.medium(), confirm)
    filled(writing, "s-1", 1, 2)
    sound = place.read("s-1")
    refused = 0
    for number in range(1, 8):
        place.write("s-1", sound)
        changed = sound.replace(b'"data":1', b'"data":7')
        disk = MeanwhileDisk(number, lambda changed=changed: place.write("s-1", changed))
        logs = SessionLogs(JsonlMedium(place.root, disk), confirm)
        try:
            fork = logs.fork("s-1", id=f"fork-{number}")
        except LogDamagedError:
            refused += 1
            assert not place.directory(f"fork-{number}").exists()
        else:
            assert content_of(writing, fork.id) == [1, 2]
    assert refused >= 2


def test_a_claim_is_given_back_if_the_sweep_before_the_first_write_fails(
    place: JsonlPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the session would be busy until the process ends."""

    def starved(*_: object) -> None:
        raise MemoryError

    name = SessionName.of("s-1")
    medium = place.medium()
    with monkeypatch.context() as patch:
        patch.setattr("attachstore.sessions.jsonl.sweep", starved)
        with pytest.raises(MemoryError):
            medium.claim(name)

    place.medium().claim(name).release()
