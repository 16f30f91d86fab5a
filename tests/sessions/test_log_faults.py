"""Durability of session logs: power cut at every call, an error at every call, order of calls."""

from __future__ import annotations

import contextlib
import errno
import os
import random
from pathlib import Path
from typing import Any

import pytest

from attachstore.disk import Disk
from attachstore.errors import (
    AttachstoreError,
    LogPoisonedError,
    StorageFullError,
    StorageIOError,
    StorePoisonedError,
)
from attachstore.sessions import SessionLogs
from tests.conformance.session_medium import confirm
from tests.faults import FailingDisk, InterceptedDisk, PowerLossDisk, RecordingDisk, failing_disks
from tests.sessions.jobs import JOBS, Job, Promise, check, open_logs
from tests.sessions.places import JsonlPlace, SealedPlace, UnsyncedDisk
from tests.sessions.sealed_jobs import SEALED_JOBS, sealed


class NamedDisk(InterceptedDisk):
    """A file system without unnamed temporary files."""

    def intercept(self, method: str, call: Any, arguments: tuple[Any, ...]) -> Any:
        if method == "open_temporary":
            raise OSError(errno.EOPNOTSUPP, "not here")
        return call()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count


@pytest.fixture(params=[*JOBS, *SEALED_JOBS], ids=lambda job: job.name)
def job(request: pytest.FixtureRequest) -> Job:
    return request.param


# -- power -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Disk, NamedDisk], ids=["unnamed", "named"])
def test_a_power_cut_at_any_call_costs_nothing_that_was_promised(
    job: Job, kind: type[Disk], memory_path: Path
) -> None:
    """Unsynced blocks, sizes and names are lost one by one, or zeros; no tail is called damage."""
    root = memory_path / "disk"
    root.mkdir()
    place = JsonlPlace(root)
    job.prepare(place)
    disk = PowerLossDisk(root, disk=kind())
    logs = open_logs(root, disk)
    job.work(logs, disk.acknowledge)
    logs.close()

    states = 0
    for state, promises in disk.crash_moments(into=memory_path):
        check(job, state, promises)
        states += 1

    assert states > len(disk.acknowledged)


def test_what_a_loader_found_survives_although_its_writer_never_synced(memory_path: Path) -> None:
    """The writer was killed before its sync. Whoever reports its event must have synced it."""
    root = memory_path / "disk"
    root.mkdir()
    JOBS[1].prepare(JsonlPlace(root))
    disk = PowerLossDisk(root)
    killed = open_logs(root, FailingDisk(1, methods={"sync_data"}, disk=disk))
    with pytest.raises(StorageIOError):
        killed.load("s-1").append("message", 2)
    killed.close()

    logs = open_logs(root, disk)
    fork = logs.fork("s-1", id="s-2")
    disk.acknowledge(Promise("s-2", fork.head))
    head = logs.load("s-1").head
    disk.acknowledge(Promise("s-1", head))
    logs.close()

    assert (fork.head, head) == (3, 3)
    both = Job("both", JOBS[1].prepare, JOBS[1].work, {"s-1": [0, 1, 2], "s-2": [0, 1, 2]})
    for state, promises in disk.crash_moments(into=memory_path):
        check(both, state, promises)


@pytest.mark.parametrize("number", [1, 2])
def test_a_loader_makes_the_name_durable_that_its_maker_did_not_come_to(
    number: int, memory_path: Path
) -> None:
    """The maker was killed between link and sync; what is appended now is promised all the same."""
    root = memory_path / "disk"
    root.mkdir()
    JsonlPlace(root)
    disk = PowerLossDisk(root)
    syncs = 0

    def die(method: str, call: Any, arguments: tuple[Any, ...]) -> Any:
        nonlocal syncs
        syncs += method == "sync_directory"
        if method == "sync_directory" and syncs == number:
            raise SystemExit
        return call()

    dying = InterceptedDisk(disk)
    dying.intercept = die
    killed = open_logs(root, dying)
    with pytest.raises(SystemExit):
        killed.create("s-1").append("message", 0)

    logs = open_logs(root, disk)
    logs.load("s-1").append("message", 1)
    disk.acknowledge(Promise("s-1", 2))
    logs.close()

    job = Job("killed", JOBS[0].prepare, JOBS[0].work, {"s-1": [0, 1]})
    for state, promises in disk.crash_moments(into=memory_path):
        check(job, state, promises)


def test_a_loader_believes_the_medium_not_the_cache(memory_path: Path) -> None:
    """After a failed write-back the cache shows what the medium lost: sync, drop, then read."""
    JOBS[1].prepare(place := JsonlPlace(memory_path))
    disk = RecordingDisk(memory_path, methods={"sync_file", "drop_cache", "read_into"})
    logs = SessionLogs(JsonlPlace(memory_path, disk).medium(), confirm)

    logs.load("s-1")

    assert [call for call, _ in disk.trace][:3] == ["sync_file", "drop_cache", "read_into"]
    disk.trace.clear()
    SessionLogs(JsonlPlace(memory_path, disk).medium(), confirm).fork("s-1", id="s-2")
    assert [call for call, _ in disk.trace][:3] == ["sync_file", "drop_cache", "read_into"]
    assert place.read("s-2")


# -- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sticky", [False, True], ids=["once", "for-ever"])
@pytest.mark.parametrize("effect", ["none", "done", "half"])
def test_an_error_at_any_call_costs_nothing_that_was_promised(
    job: Job, effect: Any, sticky: bool, memory_path: Path
) -> None:
    """Nothing but our own errors comes out, no descriptor stays, and a retry is served."""
    open_before = descriptors()
    for number, disk in enumerate(failing_disks(effect=effect, sticky=sticky, disk=UnsyncedDisk())):
        root = memory_path / str(number)
        root.mkdir()
        job.prepare(JsonlPlace(root, UnsyncedDisk()))
        logs = open_logs(root, disk)
        promises: list[Promise] = []
        with contextlib.suppress(AttachstoreError):
            job.work(logs, promises.append)
        disk.heal()
        logs.close()

        check(job, root, promises)
        assert descriptors() == open_before, disk.landed


def test_short_reads_and_writes_are_no_errors(job: Job, memory_path: Path) -> None:
    for number, disk in enumerate(failing_disks(effect="short", sticky=True, disk=UnsyncedDisk())):
        root = memory_path / str(number)
        root.mkdir()
        job.prepare(JsonlPlace(root, UnsyncedDisk()))
        logs = open_logs(root, disk)
        promises: list[Promise] = []
        job.work(logs, promises.append)
        logs.close()

        check(job, root, promises)
        assert promises
        if number > 8:
            break


def test_a_failed_append_poisons_the_session_until_it_is_loaded_again(memory_path: Path) -> None:
    """The kernel says OK to a second sync, so the same writer may not go on."""
    JOBS[1].prepare(JsonlPlace(memory_path))
    disk = FailingDisk(1, methods={"sync_data"})
    logs = open_logs(memory_path, disk)
    log = logs.load("s-1")

    with pytest.raises(StorageIOError):
        log.append("message", 2)
    with pytest.raises(LogPoisonedError, match="failed"):
        log.append("message", 3)
    assert log.head == 2

    again = logs.load("s-1")
    assert again is not log
    assert again.head == 3, "the bytes had reached the disk after all"
    assert again.append("message", 3).seq == 4
    logs.close()


def test_a_failed_write_leaves_half_a_line_that_the_next_load_cuts(memory_path: Path) -> None:
    JOBS[1].prepare(place := JsonlPlace(memory_path))
    disk = FailingDisk(2, methods={"write"}, error=errno.EIO, effect="half")
    logs = open_logs(memory_path, disk)
    log = logs.load("s-1")  # the first write is the lock's text

    with pytest.raises(StorageIOError):
        log.append("message", "x" * 100)

    assert logs.load("s-1").append("message", 2).seq == 3
    assert len(place.torn("s-1")) == 1
    logs.close()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_gets_back_what_the_failed_append_took(memory_path: Path, error: int) -> None:
    """The half of a large event would keep out every small one."""
    JOBS[1].prepare(place := JsonlPlace(memory_path))
    before = place.path("s-1").read_bytes()
    disk = FailingDisk(2, methods={"write"}, error=error, effect="half")
    logs = open_logs(memory_path, disk)
    log = logs.load("s-1")

    with pytest.raises(StorageFullError):
        log.append("message", "x" * 100)

    assert place.path("s-1").read_bytes() == before
    with pytest.raises(LogPoisonedError):
        log.append("message", 2)
    assert logs.load("s-1").append("message", 2).seq == 3
    assert place.torn("s-1") == []
    logs.close()


def test_a_full_disk_gets_back_what_a_sealed_log_took(memory_path: Path) -> None:
    place = SealedPlace(memory_path, UnsyncedDisk())
    path = sealed(place, "message")
    disk = FailingDisk(methods={"write"}, error=errno.ENOSPC, effect="half", disk=UnsyncedDisk())
    logs = SessionLogs(place.medium(disk), confirm)
    log = logs.load("s-1")
    log.append("message", "small")
    before = path.read_bytes()
    disk.fail_at = disk.calls + 1

    with pytest.raises(StorageFullError):
        log.append("message", random.Random(1).randbytes(2_000).hex())

    assert path.read_bytes() == before
    assert logs.load("s-1").append("message", "more").seq == 3
    assert place.torn("s-1") == []
    logs.close()


def test_what_cannot_be_given_back_is_a_tail(memory_path: Path) -> None:
    JOBS[1].prepare(place := JsonlPlace(memory_path))
    inner = FailingDisk(2, methods={"write"}, error=errno.ENOSPC, effect="half")
    logs = open_logs(memory_path, FailingDisk(2, methods={"truncate"}, disk=inner))
    log = logs.load("s-1")  # the first of both is the lock's text

    with pytest.raises(StorageFullError):
        log.append("message", "x" * 100)

    assert logs.load("s-1").append("message", 2).seq == 3
    assert len(place.torn("s-1")) == 1
    logs.close()


def test_a_first_append_can_be_tried_again_after_a_full_disk(memory_path: Path) -> None:
    """Nothing of the log had become visible, so there is nothing to doubt."""
    JsonlPlace(memory_path)
    logs = open_logs(memory_path, FailingDisk(2, methods={"write"}, error=errno.ENOSPC))
    log = logs.create("s-1")

    with pytest.raises(StorageFullError):
        log.append("message", 1)

    assert list((memory_path / "sessions").iterdir()) == []
    assert log.append("message", 1).seq == 1
    logs.close()


def test_a_failed_sync_of_names_takes_the_log_back_and_poisons_the_medium(
    memory_path: Path,
) -> None:
    """A later sync by anyone would say OK; so nothing may be left that looks promised."""
    for fail_at in (1, 2):
        root = memory_path / str(fail_at)
        root.mkdir()
        place = JsonlPlace(root)
        logs = open_logs(root, FailingDisk(fail_at, methods={"sync_directory"}))
        log = logs.create("s-1")

        with pytest.raises(StorageIOError):
            log.append("message", 1)
        assert not place.path("s-1").exists()
        for call in (
            lambda log=log: log.append("message", 1),
            lambda logs=logs: logs.create("s-2").append("message", 1),
        ):
            with pytest.raises(StorePoisonedError):
                call()
        assert logs.list() == []
        logs.close()


# -- order -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "create",
            [
                "open_lock locks/.medium",
                "open_lock locks/s-1",
                "make_directory sessions/s-1",
                "open_temporary sessions/s-1",
                "write sessions/s-1/<unnamed>",
                "sync_file sessions/s-1/<unnamed>",
                "link_open_file sessions/s-1/<unnamed> sessions/s-1/log.jsonl",
                "sync_directory sessions/s-1",
                "sync_directory sessions",
                "write sessions/s-1/<unnamed>",
                "sync_data sessions/s-1/<unnamed>",
            ],
        ),
        (
            "append",
            [
                "open_lock locks/.medium",
                "open_lock locks/s-1",
                "sync_file sessions/s-1/log.jsonl",
                "sync_directory sessions/s-1",
                "sync_directory sessions",
                "write sessions/s-1/log.jsonl",
                "sync_data sessions/s-1/log.jsonl",
            ],
        ),
        (
            "settle",
            [
                "open_lock locks/.medium",
                "open_lock locks/s-1",
                "sync_file sessions/s-1/log.jsonl",
                "sync_directory sessions/s-1",
                "sync_directory sessions",
                "make_directory sessions/s-1/torn",
                "create sessions/s-1/torn/<tail>",
                "write sessions/s-1/torn/<tail>",
                "sync_file sessions/s-1/torn/<tail>",
                "sync_directory sessions/s-1/torn",
                "sync_directory sessions/s-1",
                "truncate sessions/s-1/log.jsonl",
                "sync_file sessions/s-1/log.jsonl",
                "write sessions/s-1/log.jsonl",
                "sync_data sessions/s-1/log.jsonl",
            ],
        ),
        (
            "delete",
            [
                "open_lock locks/.medium",
                "open_lock locks/s-1",
                "rename sessions/s-1 sessions/.deleted-<random>",
                "sync_directory sessions",
                "unlink sessions/.deleted-<random>/log.jsonl",
                "remove_directory sessions/.deleted-<random>",
                "unlink locks/s-1",
            ],
        ),
    ],
)
def test_the_order_of_calls_is_the_argument(
    name: str, expected: list[str], memory_path: Path
) -> None:
    (job,) = [each for each in JOBS if each.name == name]
    job.prepare(JsonlPlace(memory_path))
    disk = RecordingDisk(memory_path)
    logs = open_logs(memory_path, disk)

    job.work(logs, lambda _: None)
    logs.close()

    tail = f"{'torn/'}"
    shown = [
        f"{call} {names}" if tail not in names else f"{call} {names.rsplit('/', 1)[0]}/<tail>"
        for call, names in disk.trace
        if "locks/" not in names or call in {"open_lock", "unlink"}
    ]
    assert shown == expected
