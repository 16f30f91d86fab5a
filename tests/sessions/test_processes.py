"""Real processes: killed while they write, two at one session, forked."""

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
from tests.conformance.session_medium import confirm, content_of, filled
from tests.sessions.places import JsonlPlace

WRITER = """
import os, sys
from pathlib import Path
from attachstore.disk import Disk
from attachstore.sessions import JsonlMedium, SessionLogs

logs = SessionLogs(JsonlMedium(Path(sys.argv[1]), Disk()), lambda reference: None)
try:
    log = logs.load("s-1")
except Exception:
    log = logs.create("s-1")
number = log.head
while True:
    batch = [("message", [number + more, "x" * 20_000]) for more in range(1 + number % 3)]
    events = log.append_many(batch)
    number = events[-1].seq
    os.write(1, b"%d\\n" % number)
"""


@pytest.fixture
def place(tmp_path: Path) -> JsonlPlace:
    return JsonlPlace(tmp_path)


@pytest.fixture
def logs(place: JsonlPlace) -> SessionLogs:
    return SessionLogs(place.medium(), confirm)


def start_writer(place: JsonlPlace) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", WRITER, str(place.root)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def acknowledged(writer: subprocess.Popen[bytes]) -> int:
    """Wait for the next acknowledgement."""
    assert writer.stdout is not None
    return int(writer.stdout.readline())


def kill(writer: subprocess.Popen[bytes]) -> int:
    """SIGKILL; the last event that was acknowledged before, 0 if there was none."""
    writer.send_signal(signal.SIGKILL)
    output, _ = writer.communicate()
    numbers = output.split(b"\n")[:-1]
    return int(numbers[-1]) if numbers else 0


@pytest.mark.parametrize("is_sealed", [False, True], ids=["plain", "sealed"])
def test_no_acknowledged_event_is_lost_when_the_writer_is_killed(
    place: JsonlPlace, logs: SessionLogs, is_sealed: bool
) -> None:
    """At moments that differ from round to round; each round goes on where the last ended."""
    promised = 0
    if is_sealed:
        filled(logs, "s-1", [0, "x"])
        logs.seal("s-1")
    for round_ in range(8):
        writer = start_writer(place)
        promised = max(promised, acknowledged(writer))
        time.sleep(0.003 * round_)
        promised = max(promised, kill(writer))

        log = logs.load("s-1")
        assert log.head >= promised
        assert [number for number, _ in content_of(logs, "s-1")] == list(range(log.head))
        promised = log.head
        log.close()
        form = "log.jsonl.zst" if is_sealed else "log.jsonl"
        assert {path.name for path in place.directory("s-1").iterdir()} <= {form, "torn"}


def test_a_second_process_is_refused_with_the_pid_until_the_first_is_dead(
    place: JsonlPlace, logs: SessionLogs
) -> None:
    """The kernel drops a dead process's lock: there is none to remove by hand."""
    writer = start_writer(place)
    acknowledged(writer)

    with pytest.raises(SessionBusyError, match=f"process {writer.pid} "):
        logs.load("s-1")
    child = logs.fork("s-1", id="s-2")
    assert child.head >= 1, "a fork of a live session needs no lock"
    kill(writer)

    log = logs.load("s-1")
    assert log.append("message", "mine").seq == log.head


def test_after_a_fork_of_the_process_the_childs_handles_are_dead(
    place: JsonlPlace, logs: SessionLogs
) -> None:
    """And its death frees nothing of the parent's."""
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
        log.close()
        os._exit(refused)
    _, status = os.waitpid(pid, 0)

    assert os.waitstatus_to_exitcode(status) == 3
    with pytest.raises(SessionBusyError):
        SessionLogs(place.medium(), confirm).load("s-1")
    assert log.append("message", 2).seq == 2


def test_sessions_of_many_processes_are_all_there(place: JsonlPlace, logs: SessionLogs) -> None:
    """Creating, deleting and listing at once; each process has ids of its own."""
    script = WRITER.partition("try:")[0] + (
        "for number in range(25):\n"
        "    for keep in (True, False):\n"
        "        name = f'{sys.argv[2]}-{number}-{keep}'\n"
        "        logs.create(name).append('message', number)\n"
        "        logs.list()\n"
        "        if not keep: logs.delete(name)\n"
    )
    command = [sys.executable, "-c", script, str(place.root)]
    workers = [subprocess.Popen([*command, str(number)]) for number in range(3)]
    for worker in workers:
        assert worker.wait() == 0

    expected = {f"{worker}-{number}-True" for worker in range(3) for number in range(25)}
    assert {summary.id for summary in logs.list()} == expected
    assert list(logs.medium.strays()) == []
    filled(logs, "last", 1)
