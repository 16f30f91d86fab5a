"""A store with sessions of every kind, and what they hold, read in whatever medium they are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from attachstore import layout
from attachstore.blocking import Store
from attachstore.disk import Disk
from attachstore.errors import LogDamagedError
from attachstore.layout import read_marker
from attachstore.opening import create_medium, medium_of
from attachstore.sessions import SessionLogs
from attachstore.sessions.event import Event, Parent
from attachstore.sessions.names import SessionName

OTHER = {"jsonl": "sqlite", "sqlite": "jsonl"}
LONG_ID = "é" * 200
TAIL = b'{"seq":4,"time":"2026-01-0'


@dataclass(frozen=True)
class Content:
    """A session as a reader finds it."""

    parent: Parent | None
    meta: object
    events: tuple[Event, ...]
    tail_bytes: int
    damage: str | None


def make(root: Path, sessions: str) -> Path:
    """s-1, which has a fork; one with a tail, one in the middle of a turn, one with a long id."""
    with Store.open(root, sessions=sessions, decode_in_process=True) as store:
        reference = store.attach(b"a note", declared="text/plain", name="note.txt")
        with store.sessions.create("s-1", meta={"title": "First"}) as session:
            session.append("message", {"file": reference})
            session.append_many([("message", number) for number in range(3)])
        with store.sessions.fork("s-1", at=2, id="s-1.fork") as fork:
            fork.append("message", "of its own")
        with store.sessions.create(LONG_ID) as session:
            session.append("message", "x" * 3000)
        with store.sessions.create("turn") as session:
            session.append("turn/start", None)
        with store.sessions.create("tail") as session:
            session.append_many([("message", number) for number in range(3)])
    write(root, sessions, "tail", TAIL)
    return root


def make_small(root: Path, sessions: str) -> Path:
    """Two sessions, and nothing that a conversion does not look at: for thousands of runs."""
    root.mkdir()
    (root / "staging").mkdir()
    create_medium(sessions, root, Disk())
    layout.write_marker(Disk(), root, sessions=sessions)
    medium = medium_of(sessions, root, Disk())
    logs = SessionLogs(medium, lambda _: None)
    logs.create("s-1").append_many([("message", number) for number in range(3)])
    logs.fork("s-1", at=2, id="s-2").append("message", "x" * 3000)
    logs.close()
    write(root, sessions, "s-1", TAIL)
    return root


def write(root: Path, sessions: str, session_id: str, end: bytes) -> None:
    """Add `end` to a log as a killed writer might have left it."""
    name = SessionName.of(session_id)
    medium = medium_of(sessions, root, Disk())
    with medium.open_writer(name) as log:
        log.append(end, log.size())
    medium.close()


def medium_in(root: Path) -> str:
    marker = read_marker(Disk(), root)
    assert marker is not None
    return marker.sessions


def contents(root: Path) -> dict[str, Content]:
    """Every session of the store, in the medium that it names."""
    medium = medium_of(medium_in(root), root, Disk())
    logs = SessionLogs(medium, lambda _: None)
    found: dict[str, Content] = {}
    for summary in logs.list():
        try:
            view = logs.inspect(summary.id)
        except LogDamagedError as error:
            found[summary.id] = Content(None, None, (), 0, error.reason)
            continue
        events = tuple(logs.events(summary.id, damaged="stop"))
        found[summary.id] = Content(
            parent=view.header.parent,
            meta=view.header.meta,
            events=events,
            tail_bytes=0 if view.tail is None else view.tail.size_bytes,
            damage=None if view.damage is None else view.damage.reason,
        )
    logs.close()
    return found


def entries(root: Path) -> set[str]:
    """Everything below the root, but for locks."""
    return {
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.relative_to(root).parts[0] not in {layout.LOCKS, "objects"}
    }
