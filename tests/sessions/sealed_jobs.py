"""Pieces of work on sealed logs, for the oracle of jobs.py; see there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from attachstore.sessions import SessionLogs
from tests.conformance.session_place import confirm
from tests.sessions.jobs import BIG, Job, Promise, Tell
from tests.sessions.places import JsonlPlace


def sealed(place: JsonlPlace, *types: str) -> Path:
    """A sealed session with events 0, 1 …, and where its log is."""
    logs = SessionLogs(place.medium(), confirm)
    log = logs.create("s-1")
    for number, type_ in enumerate(types):
        log.append(type_, number)
    log.close()
    logs.seal("s-1")
    logs.close()
    return place.directory("s-1") / "log.jsonl.zst"


def unended(place: JsonlPlace, *data: object) -> Path:
    """As if the process that appended `data` to a sealed log of two events had been killed."""
    path = sealed(place, "message", "message")
    logs = SessionLogs(place.medium(), confirm)
    log = logs.load("s-1")
    for value in data:
        log.append("message", value)
    stored = path.read_bytes()
    logs.close()
    path.write_bytes(stored)
    return path


def _two_events(place: JsonlPlace) -> None:
    sealed(place, "message", "message")


def _open_turn(place: JsonlPlace) -> None:
    sealed(place, "turn/start")


def _torn(end: bytes) -> Callable[[JsonlPlace], None]:
    def prepare(place: JsonlPlace) -> None:
        path = unended(place, 2)
        path.write_bytes(path.read_bytes() + end)

    return prepare


def _broken(place: JsonlPlace) -> None:
    path = unended(place)
    whole = path.read_bytes()
    logs = SessionLogs(place.medium(), confirm)
    logs.load("s-1").append("message", 2)
    logs.close()
    stored = bytearray(path.read_bytes())
    stored[len(whole) + 12] ^= 1
    path.write_bytes(bytes(stored))


def _append(logs: SessionLogs, tell: Tell) -> None:
    log = logs.load("s-1")
    tell(Promise("s-1", 2))
    log.append_many([("message", each) for each in BIG])
    tell(Promise("s-1", 5))
    log.append("message", "last")
    tell(Promise("s-1", 6))
    log.close()
    logs.load("s-1").append("message", "again")
    tell(Promise("s-1", 7))


def _mend(logs: SessionLogs, tell: Tell) -> None:
    log = logs.load("s-1")
    tell(Promise("s-1", 3))
    log.append("message", 3)
    tell(Promise("s-1", 4))
    log.append("message", 4)
    tell(Promise("s-1", 5))


def _resume(logs: SessionLogs, tell: Tell) -> None:
    logs.load("s-1")
    tell(Promise("s-1", 2))


def _fork(logs: SessionLogs, tell: Tell) -> None:
    child = logs.fork("s-1", id="s-2")
    tell(Promise("s-2", 3))
    child.append("message", "own")
    tell(Promise("s-2", 4))


def _repair(logs: SessionLogs, tell: Tell) -> None:
    logs.repair("s-1")
    tell(Promise("s-1", 2))
    logs.load("s-1").append("message", "on")
    tell(Promise("s-1", 3))


SEALED_JOBS = [
    Job("sealed-append", _two_events, _append, {"s-1": [0, 1, *BIG, "last", "again"]}),
    Job("sealed-mend", _torn(b""), _mend, {"s-1": [0, 1, 2, 3, 4]}),
    Job("sealed-torn", _torn(b"\x9d\x04\x00torn"), _mend, {"s-1": [0, 1, 2, 3, 4]}),
    Job("sealed-resume", _open_turn, _resume, {"s-1": [0, {"reason": "interrupted"}]}),
    Job("sealed-fork", _torn(b""), _fork, {"s-1": [0, 1, 2], "s-2": [0, 1, 2, "own"]}),
    Job("sealed-repair", _broken, _repair, {"s-1": [0, 1, "on"]}, may_stay_damaged=True),
]
