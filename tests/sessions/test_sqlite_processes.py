"""Real processes on one database: killed while they write, many at once, forked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attachstore.errors import SessionBusyError
from attachstore.sessions import SessionLogs
from tests.conformance.session_medium import confirm, content_of
from tests.sessions.places import SqlitePlace

WRITER = """
import os, sys
from pathlib import Path
from attachstore.disk import Disk
from attachstore.errors import SessionMissingError
from attachstore.sessions import SessionLogs
from attachstore.sessions.sqlite import SqliteMedium

name = sys.argv[2]
logs = SessionLogs(SqliteMedium(Path(sys.argv[1]), Disk()), lambda reference: None)
try:
    log = logs.load(name)
except SessionMissingError:
    log = logs.create(name)
number = log.head
while True:
    batch = [("message", [number + more, "x" * 20_000]) for more in range(1 + number % 3)]
    number = log.append_many(batch)[-1].seq
    os.write(1, b"%d\\n" % number)
"""


@pytest.fixture
def place(tmp_path: Path) -> SqlitePlace:
    return SqlitePlace(tmp_path)


def start_writer(place: SqlitePlace, name: str = "s-1") -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", WRITER, str(place.root), name]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def kill(writer: subprocess.Popen[bytes]) -> int:
    """SIGKILL; the last event that was acknowledged before, 0 if there was none."""
    writer.send_signal(signal.SIGKILL)
    output, _ = writer.communicate()
    numbers = output.split(b"\n")[:-1]
    return int(numbers[-1]) if numbers else 0


def wait_for_an_event(writer: subprocess.Popen[bytes]) -> int:
    assert writer.stdout is not None
    return int(writer.stdout.readline())


def test_no_acknowledged_event_is_lost_when_writers_are_killed(place: SqlitePlace) -> None:
    """Two processes, at moments that differ; each round goes on where the last ended."""
    promised = {"s-1": 0, "s-2": 0}
    for round_ in range(8):
        writers = {name: start_writer(place, name) for name in promised}
        for name, writer in writers.items():
            promised[name] = max(promised[name], wait_for_an_event(writer))
        time.sleep(0.004 * round_)
        for name, writer in writers.items():
            promised[name] = max(promised[name], kill(writer))

        logs = SessionLogs(place.medium(), confirm)
        for name, head in promised.items():
            log = logs.load(name)
            assert log.head >= head
            numbers = [number for number, _ in content_of(logs, name)]
            assert numbers == list(range(log.head)), "a prefix of what was tried, nothing else"
            promised[name] = log.head
            assert place.torn(name) == [], "a transaction leaves no tail"
        logs.close()


def test_a_second_process_is_refused_with_the_pid_until_the_first_is_dead(
    place: SqlitePlace,
) -> None:
    logs = SessionLogs(place.medium(), confirm)
    writer = start_writer(place)
    wait_for_an_event(writer)

    with pytest.raises(SessionBusyError, match=f"process {writer.pid} "):
        logs.load("s-1")
    assert logs.fork("s-1", id="s-2").head >= 1
    logs.create("s-3").append("message", "others go on")
    kill(writer)

    log = logs.load("s-1")
    assert log.append("message", "mine").seq == log.head


def test_a_forked_child_neither_uses_nor_closes_its_parents_connections(
    place: SqlitePlace,
) -> None:
    """SQLite forbids both; the parent goes on as if nothing had been."""
    logs = SessionLogs(place.medium(), confirm)
    log = logs.create("s-1")
    log.append("message", 1)

    pid = os.fork()
    if pid == 0:  # pragma: no cover - another process
        refused = 0
        for call in (lambda: log.append("message", 2), logs.list, lambda: logs.load("s-1")):
            try:
                call()
            except ValueError:
                refused += 1
        try:
            logs.medium.exists(log.name)
        except ValueError:
            refused += 1
        log.close()
        logs.close()
        own = SessionLogs(place.medium(), confirm)
        refused += content_of(own, "s-1") == [1]
        own.close()
        os._exit(refused)
    _, status = os.waitpid(pid, 0)

    assert os.waitstatus_to_exitcode(status) == 5
    with pytest.raises(SessionBusyError):
        SessionLogs(place.medium(), confirm).load("s-1")
    assert log.append("message", 2).seq == 2
    assert content_of(logs, "s-1") == [1, 2]
