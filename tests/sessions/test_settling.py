"""What is relied upon, the medium has: bytes and names of writers that did not get so far.

A writer may have been killed before its sync, or its sync may have failed: then the cache shows
what no disk holds. Whoever vouches for such a log, removes its twin or judges it, settles it first.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attachstore.disk import Disk
from attachstore.sessions import SessionLogs
from attachstore.sessions.mending import MENDING
from attachstore.sessions.names import SessionName
from attachstore.sessions.transfer import survey
from attachstore.sessions.zstd_frames import library
from tests.conformance.session_place import confirm, content_of
from tests.faults import InterceptedDisk, PowerLossDisk, RecordingDisk
from tests.sessions.jobs import open_logs
from tests.sessions.places import JsonlPlace, SealedPlace
from tests.sessions.sealed_jobs import sealed, unended

NAME = SessionName.of("s-1")


class DyingDisk(InterceptedDisk):
    """Its process is killed at the n-th call of `method`."""

    def __init__(self, method: str, number: int, disk: Disk) -> None:
        super().__init__(disk)
        self._method = method
        self._left = number

    def intercept(self, method: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        self._left -= method == self._method
        if method == self._method and self._left == 0:
            raise SystemExit
        return call()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "disk"
    root.mkdir()
    return root


def lines_of(root: Path, events: int) -> list[bytes]:
    """The header and events 0, 1 …, of s-1, which is there afterwards."""
    logs = open_logs(root)
    log = logs.create("s-1")
    for number in range(events):
        log.append("message", number)
    logs.close()
    return JsonlPlace(root).read("s-1").splitlines(keepends=True)


def append_in_vain(disk: PowerLossDisk, path: Path, data: bytes) -> None:
    """Its sync fails; the cache shows the bytes nevertheless, and later syncs say OK."""
    descriptor = disk.open_write(path)
    disk.write(descriptor, data, path.stat().st_size)
    disk.fail_sync_at = disk.syncs + 1
    with pytest.raises(OSError, match="injected"):
        disk.sync_file(descriptor)
    disk.close(descriptor)


# -- names -------------------------------------------------------------------------------------


def load(logs: SessionLogs) -> int:
    return logs.load("s-1").head


def prepare(logs: SessionLogs) -> int:
    return logs.prepare("s-1").view.head_seq


def repair(logs: SessionLogs) -> int:
    return logs.repair("s-1").head_seq


def seal(logs: SessionLogs) -> int:
    return logs.seal("s-1").head_seq


def survey_it(logs: SessionLogs) -> int:
    return survey(logs.medium, NAME).head_seq


ACTS = [load, prepare, repair, seal, survey_it]


@pytest.mark.parametrize("act", ACTS)
def test_whoever_vouches_for_a_log_makes_the_name_durable_that_its_maker_did_not(
    act: Callable[[SessionLogs], int], root: Path, tmp_path: Path
) -> None:
    """The maker was killed between the sync of the session's directory and that of `sessions/`."""
    JsonlPlace(root)
    disk = PowerLossDisk(root)
    with pytest.raises(SystemExit):
        open_logs(root, DyingDisk("sync_directory", 2, disk)).create("s-1").append("message", 0)

    logs = open_logs(root, disk)
    assert act(logs) == 1
    logs.close()

    for state in disk.crash_states(into=tmp_path):
        assert content_of(open_logs(state), "s-1") == [0]


# -- bytes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("act", ACTS)
def test_whoever_vouches_for_a_log_says_what_the_medium_has(
    act: Callable[[SessionLogs], int], root: Path
) -> None:
    JsonlPlace(root)
    lines = lines_of(root, 3)
    JsonlPlace(root).write("s-1", b"".join(lines[:3]))
    disk = PowerLossDisk(root)
    append_in_vain(disk, JsonlPlace(root).path("s-1"), lines[3])

    logs = open_logs(root, disk)
    assert act(logs) == 2
    logs.close()
    assert content_of(open_logs(root), "s-1") == [0, 1]


@pytest.mark.parametrize("act", ACTS)
def test_what_a_killed_writer_added_to_a_sealed_log_is_durable_before_it_is_vouched_for(
    act: Callable[[SessionLogs], int], root: Path, tmp_path: Path
) -> None:
    """It was killed between the write of a block and the sync."""
    sealed(SealedPlace(root), "message", "message")
    disk = PowerLossDisk(root)
    killed = open_logs(root, DyingDisk("sync_data", 1, disk))
    log = killed.load("s-1")
    with pytest.raises(SystemExit):
        log.append("message", 2)
    killed.close()  # which lets go of the lock

    logs = open_logs(root, disk)
    assert act(logs) == 3
    for state in disk.crash_states(into=tmp_path):
        assert content_of(open_logs(state), "s-1") == [0, 1, 2]
    logs.close()


def test_a_sealed_log_is_judged_by_the_medium_not_the_cache(root: Path) -> None:
    path = sealed(SealedPlace(root), "message", "message")
    whole = path.read_bytes()
    logs = open_logs(root)
    logs.load("s-1").append("message", 2)
    logs.close()
    added = path.read_bytes()[len(whole) :]
    path.write_bytes(whole)
    disk = PowerLossDisk(root)
    append_in_vain(disk, path, added)

    assert open_logs(root, disk).load("s-1").head == 2


# -- two files ---------------------------------------------------------------------------------


def two_files(root: Path, raw_events: int, sealed_events: int) -> tuple[SealedPlace, list[bytes]]:
    """As a killed seal or unseal leaves them, one perhaps further than the other."""
    place = SealedPlace(root)
    lines = lines_of(root, 5)
    place.write("s-1", b"".join(lines[: sealed_events + 1]))
    place.path("s-1").write_bytes(b"".join(lines[: raw_events + 1]))
    return place, lines


def test_a_plain_log_that_only_the_cache_has_does_not_win(root: Path, tmp_path: Path) -> None:
    place, lines = two_files(root, 2, 3)
    disk = PowerLossDisk(root)
    append_in_vain(disk, place.path("s-1"), lines[3] + lines[4])

    logs = open_logs(root, disk)
    assert logs.load("s-1").head == 3
    logs.close()
    for state in disk.crash_states(into=tmp_path):
        assert content_of(open_logs(state), "s-1") == [0, 1, 2]


def test_a_sealed_log_that_only_the_cache_has_does_not_win(root: Path, tmp_path: Path) -> None:
    place, lines = two_files(root, 3, 2)
    disk = PowerLossDisk(root)
    append_in_vain(disk, place.sealed_path("s-1"), library().compress(lines[3]))

    logs = open_logs(root, disk)
    assert logs.load("s-1").head == 3
    logs.close()
    for state in disk.crash_states(into=tmp_path):
        assert content_of(open_logs(state), "s-1") == [0, 1, 2]


def test_the_file_that_loses_is_kept_durably(root: Path, tmp_path: Path) -> None:
    place, _ = two_files(root, 3, 5)
    loser = place.path("s-1").read_bytes()
    power = PowerLossDisk(root)
    disk = RecordingDisk(root, disk=power)
    open_logs(root, disk).close()

    SessionLogs(place.medium(disk), confirm).medium.open_writer(NAME).close()

    for state in power.crash_states(into=tmp_path):
        assert JsonlPlace(state).torn("s-1") == [loser]
        assert not JsonlPlace(state).path("s-1").exists()
    start = disk.trace.index(("make_directory", "sessions/s-1/torn"))
    assert disk.trace[start:] == [
        ("make_directory", "sessions/s-1/torn"),
        ("sync_directory", "sessions/s-1"),  # a rename into a directory that is gone loses a file
        ("rename", "sessions/s-1/log.jsonl sessions/s-1/torn/log.jsonl-<random>"),
        ("sync_directory", "sessions/s-1/torn"),
        ("sync_directory", "sessions/s-1"),
    ]


@pytest.mark.parametrize("change", ["seal", "unseal"])
def test_a_change_of_form_is_durable_when_it_returns(
    change: str, root: Path, tmp_path: Path
) -> None:
    """Who unseals because a program needs plain files has plain files, whatever happens."""
    if change == "unseal":
        sealed(SealedPlace(root), "message", "message")
    else:
        JsonlPlace(root)
        lines_of(root, 2)
    disk = PowerLossDisk(root)

    getattr(open_logs(root, disk), change)("s-1")

    expected = {"log.jsonl"} if change == "unseal" else {"log.jsonl.zst"}
    for state in disk.crash_states(into=tmp_path):
        assert {path.name for path in JsonlPlace(state).directory("s-1").iterdir()} == expected


def test_a_mending_is_durable_before_another_process_relies_on_it(
    root: Path, tmp_path: Path
) -> None:
    """Who wrote it was killed before the sync of its name; the log is cut in reliance on it."""
    unended(SealedPlace(root), 2, 3)
    disk = PowerLossDisk(root)
    killed = open_logs(root, DyingDisk("sync_directory", 3, disk))
    log = killed.load("s-1")  # which makes two
    with pytest.raises(SystemExit):
        log.append("message", 4)
    killed.close()
    assert JsonlPlace(root).directory("s-1").joinpath(MENDING).exists()

    logs = open_logs(root, disk)
    logs.load("s-1")
    for state, _ in disk.crash_moments(into=tmp_path):
        assert content_of(open_logs(state), "s-1")[:4] == [0, 1, 2, 3]
