"""What is no directory of ours where one must be: told as such, never "missing", never the disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from attachstore.disk import Disk
from attachstore.errors import LogDamagedError, StoreLayoutError
from attachstore.sessions import SessionLogs
from attachstore.sessions.jsonl import JsonlMedium
from tests.conformance.session_medium import confirm


def as_file(path: Path) -> None:
    path.touch()


def as_pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.fixture
def logs(tmp_path: Path) -> SessionLogs:
    logs = SessionLogs(JsonlMedium.create(tmp_path, Disk()), confirm)
    logs.create("s-1").append("message", 1)
    logs.create("s-2").append("message", 2)
    for session_id in ("s-1", "s-2"):
        logs.load(session_id).close()
    return logs


@pytest.mark.parametrize("make", [as_file, as_pipe])
def test_a_session_that_is_no_directory_is_a_broken_layout(
    logs: SessionLogs, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """Only ENOENT means that there is no session; the others go on as before."""
    (tmp_path / "sessions" / "s-1").rename(tmp_path / "aside")
    make(tmp_path / "sessions" / "s-1")

    for call in (logs.inspect, logs.load, logs.delete):
        with pytest.raises(StoreLayoutError):
            call("s-1")
    assert [summary.id for summary in logs.list()] == ["s-2"]
    assert [event.data for event in logs.events("s-2")] == [2]
    assert list(logs.medium.strays()) == [str(tmp_path / "sessions" / "s-1")]


@pytest.mark.parametrize("make", [as_file, as_pipe])
def test_sessions_that_is_no_directory_is_a_broken_layout(
    logs: SessionLogs, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    (tmp_path / "sessions").rename(tmp_path / "aside")
    make(tmp_path / "sessions")

    for call in (lambda: logs.inspect("s-1"), lambda: logs.load("s-1"), logs.list):
        with pytest.raises(StoreLayoutError):
            call()
    with pytest.raises(StoreLayoutError):
        logs.create("s-3").append("message", 3)


def test_a_fork_of_a_log_that_lost_acknowledged_events_is_refused(
    logs: SessionLogs, tmp_path: Path
) -> None:
    """Another program cut it under its writer: a shorter fork would hide that."""
    parent = logs.load("s-1")
    parent.append("message", 3)
    path = tmp_path / "sessions" / "s-1" / "log.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex(b"\n", 0, -1) + 1])

    with pytest.raises(LogDamagedError):
        logs.fork("s-1", id="s-3")
    assert logs.fork("s-1", at=1, id="s-4").head == 1
