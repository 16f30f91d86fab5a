"""Pieces of work on session logs, and what must be true of the storage after any fault in them.

A job tells what it was promised as it goes on. The oracle opens what is left with a sound disk
and asks: is every promise kept, and is everything else a prefix of what was attempted?
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from attachstore.disk import Disk
from attachstore.errors import LogDamagedError, SessionMissingError
from attachstore.sessions import SessionLogs
from attachstore.sessions.jsonl import JsonlMedium
from tests.conformance.session_medium import confirm
from tests.sessions.places import JsonlPlace, UnsyncedDisk

HALF_LINE = b'{"seq":3,"time":"2026-01-02T03:04:05.000006Z","type":"message","da'
GARBAGE = b"not a record\n"


@dataclass(frozen=True)
class Promise:
    """`session` has at least its first `events` events (None: it is deleted)."""

    session: str
    events: int | None
    kept: bytes = b""
    """Bytes that must be in `torn/`."""


Tell: TypeAlias = Callable[[Promise], None]


@dataclass(frozen=True)
class Job:
    """`attempts` is what each session may hold at most."""

    name: str
    prepare: Callable[[JsonlPlace], None]
    work: Callable[[SessionLogs, Tell], None]
    attempts: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    may_stay_damaged: bool = False
    tail: bytes = b""
    """Unacknowledged bytes at the end of s-1 that may be moved, never lost."""


def open_logs(root: Path, disk: Disk | None = None) -> SessionLogs:
    return SessionLogs(JsonlMedium(root, disk or Disk()), confirm)


def _nothing(_: JsonlPlace) -> None:
    pass


def _two_events(place: JsonlPlace) -> None:
    logs = SessionLogs(place.medium(), confirm)
    log = logs.create("s-1")
    log.append("message", 0)
    log.append("message", 1)
    log.close()


def _two_events_and(end: bytes) -> Callable[[JsonlPlace], None]:
    def prepare(place: JsonlPlace) -> None:
        _two_events(place)
        place.write("s-1", place.read("s-1") + end)

    return prepare


def _open_turn(place: JsonlPlace) -> None:
    log = SessionLogs(place.medium(), confirm).create("s-1")
    log.append("turn/start", 0)
    log.close()


BIG = ["a" * 3000, "b" * 3000, "c" * 3000]


def _create(logs: SessionLogs, tell: Tell) -> None:
    log = logs.create("s-1")
    log.append_many([("message", 0), ("message", 1)])
    tell(Promise("s-1", 2))
    log.append("message", 2)
    tell(Promise("s-1", 3))


def _append(logs: SessionLogs, tell: Tell) -> None:
    log = logs.load("s-1")
    tell(Promise("s-1", 2))
    log.append("message", 2)
    tell(Promise("s-1", 3))


def _batch(logs: SessionLogs, tell: Tell) -> None:
    log = logs.load("s-1")
    log.append_many([("message", each) for each in BIG])
    tell(Promise("s-1", 5))
    log.append("message", "last")
    tell(Promise("s-1", 6))


def _settle(logs: SessionLogs, tell: Tell) -> None:
    log = logs.load("s-1")
    tell(Promise("s-1", 2, kept=HALF_LINE))
    log.append("message", 2)
    tell(Promise("s-1", 3, kept=HALF_LINE))


def _resume(logs: SessionLogs, tell: Tell) -> None:
    logs.load("s-1")
    tell(Promise("s-1", 2))


def _fork(logs: SessionLogs, tell: Tell) -> None:
    child = logs.fork("s-1", at=1, id="s-2")
    tell(Promise("s-2", 1))
    child.append("message", "own")
    tell(Promise("s-2", 2))


def _delete(logs: SessionLogs, tell: Tell) -> None:
    logs.delete("s-1")
    tell(Promise("s-1", None))


def _repair(logs: SessionLogs, tell: Tell) -> None:
    logs.repair("s-1")
    tell(Promise("s-1", 2, kept=GARBAGE))


JOBS = [
    Job("create", _nothing, _create, {"s-1": [0, 1, 2]}),
    Job("append", _two_events, _append, {"s-1": [0, 1, 2]}),
    Job("batch", _two_events, _batch, {"s-1": [0, 1, *BIG, "last"]}),
    Job("settle", _two_events_and(HALF_LINE), _settle, {"s-1": [0, 1, 2]}, tail=HALF_LINE),
    Job("resume", _open_turn, _resume, {"s-1": [0, {"reason": "interrupted"}]}),
    Job("fork", _two_events, _fork, {"s-1": [0, 1], "s-2": [0, "own"]}),
    Job("delete", _two_events, _delete, {"s-1": [0, 1]}),
    Job(
        "repair",
        _two_events_and(GARBAGE),
        _repair,
        {"s-1": [0, 1]},
        may_stay_damaged=True,
        tail=GARBAGE,
    ),
]


def check(job: Job, root: Path, promises: list[Promise]) -> None:
    """Every promise is kept; what else is there is a prefix of the attempts. Twice the same."""
    latest = {promise.session: promise for promise in promises}
    if job.tail:
        _check_tail(job, root)
    found: list[dict[str, Any]] = []
    for _ in range(2):
        logs = open_logs(root, UnsyncedDisk())
        try:
            found.append({each: _settled_content(job, logs, each, latest) for each in job.attempts})
        finally:
            logs.close()
    assert found[0] == found[1], "opening what is left once changed what is there"
    for session_id, promise in latest.items():
        if promise.kept:
            assert promise.kept in JsonlPlace(root).torn(session_id)


def _check_tail(job: Job, root: Path) -> None:
    place = JsonlPlace(root)
    assert job.tail in place.read("s-1") or job.tail in place.torn("s-1")


def _settled_content(
    job: Job, logs: SessionLogs, session_id: str, latest: dict[str, Promise]
) -> list[Any] | None:
    promise = latest.get(session_id)
    try:
        log = logs.load(session_id, close_turn=False)
    except SessionMissingError:
        prepared = job.prepare is not _nothing and session_id == "s-1" and job.name != "delete"
        assert not prepared, "a session that was there is gone"
        assert promise is None or promise.events is None, f"{promise} was broken: it is gone"
        assert session_id not in [summary.id for summary in logs.list()]
        return None
    except LogDamagedError:
        assert job.may_stay_damaged
        assert promise is None, f"{promise} was broken: it is damaged"
        return None
    content = [event.data for event in logs.events(session_id)]
    assert log.head == len(content)
    assert content == job.attempts[session_id][: len(content)], "not a prefix of the attempts"
    if promise is not None:
        assert promise.events is not None, "a deleted session is back"
        assert len(content) >= promise.events, f"{promise} was broken: {len(content)} are there"
    return content
