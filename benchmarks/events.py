"""What does an event of 500 bytes cost, beside what a runtime would use instead?

All in one run, in shuffled order: a line written and synced in plain Python, a row committed by
SQLite (WAL, synchronous=FULL), an item added to OpenAI Agents' `SQLiteSession`, an event appended
by ours, and events emitted by ours and flushed. A round adds the same number of events on each
side, but for the emitted ones, of which one sync takes many; quotients are of the times for one.

`SQLiteSession` is measured if `make peers` has installed it into `.peers`, and only then. It
stores the item as JSON, checks nothing, chains nothing, and leaves SQLite's `synchronous` as it
finds it, which is FULL, so that its items are as durable as the others' when the call returns.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sqlite3
import sys
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

from attachstore import Store
from attachstore.sessions import Session
from benchmarks.append import EVENT_BYTES
from benchmarks.measure import Plan, Question, Row, Side, spent

PEERS = Path(__file__).parents[1] / ".peers"
APPENDED = 20
FLOOR, SQLITE, PEER = "a line, fdatasync", "a SQLite row", "SQLiteSession.add_items"
TARGETS = {  # as quotients of time: 0.65 and 20 times the floor's events per second
    "append": {FLOOR: 1 / 0.65, SQLITE: 1.0, PEER: 1.0},
    "emit, flush": {FLOOR: 1 / 20, SQLITE: 1 / 20, PEER: 1 / 20},
}
HOW = {
    FLOOR: "write at the end and fdatasync in plain Python",
    SQLITE: "INSERT and COMMIT, WAL, synchronous=FULL",
    PEER: "openai-agents, WAL, synchronous as SQLite has it (FULL)",
}
OURS_DURABLE = {
    "append": "durable: synced before it returns",
    "emit, flush": "durable: all of them after the flush",
}
ITEM = {"role": "user", "content": "x" * (EVENT_BYTES - len('{"role":"user","content":""}'))}


async def measure(plan: Plan) -> list[Row]:
    emitted = plan.choose(full=4_000, quick=40)
    async with contextlib.AsyncExitStack() as stack:
        store = await stack.enter_async_context(Store.open(plan.directory / "store"))
        appending = await store.sessions.create("appended")
        emitting = await store.sessions.create("emitted")
        sides: dict[str, tuple[int, Side]] = {
            "append": (APPENDED, _append(appending)),
            "emit, flush": (emitted, _emit(emitting, emitted)),
            FLOOR: (APPENDED, stack.enter_context(_lines(plan.directory / "lines"))),
            SQLITE: (APPENDED, stack.enter_context(_rows(plan.directory / "rows.db"))),
        }
        peer = _peer_class()
        if peer is None:
            print(f"{PEER}: not measured, `make peers` installs openai-agents", file=sys.stderr)
        else:
            items = _items(peer, plan.directory / "peer.db")
            sides[PEER] = (APPENDED, await stack.enter_async_context(items))
        each = await spent([side for _, side in sides.values()], rounds=plan.rounds(60))
    names = list(sides)
    per_event = {
        name: [round_ns[names.index(name)] / sides[name][0] for round_ns in each] for name in names
    }
    return [
        _row(ours, theirs, target, per_event)
        for ours, targets in TARGETS.items()
        for theirs, target in targets.items()
        if theirs in sides
    ]


def _row(ours: str, theirs: str, target: float, per_event: dict[str, list[float]]) -> Row:
    question = Question(
        text=f"{ours} / {theirs}",
        floor=HOW[theirs],
        target=round(target, 2),
        ours_durable=OURS_DURABLE[ours],
        floor_durable="durable: synced one by one",
        group="events",
    )
    pairs = zip(per_event[ours], per_event[theirs], strict=True)
    return Row(
        question=question,
        size=f"{EVENT_BYTES} B",
        ratios=tuple(ours_ns / theirs_ns for ours_ns, theirs_ns in pairs),
    )


def _append(session: Session) -> Side:
    async def side() -> None:
        for _ in range(APPENDED):
            await session.append("message", ITEM)

    return side


def _emit(session: Session, count: int) -> Side:
    async def side() -> None:
        for _ in range(count):
            await session.emit("message", ITEM)
        await session.flush()

    return side


@contextlib.contextmanager
def _lines(path: Path) -> Generator[Side]:
    line = b"y" * (EVENT_BYTES - 1) + b"\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    async def side() -> None:
        for _ in range(APPENDED):
            os.write(descriptor, line)
            os.fdatasync(descriptor)

    try:
        yield side
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _rows(path: Path) -> Generator[Side]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert connection.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE event (seq INTEGER PRIMARY KEY, bytes BLOB) STRICT")
        line = b"y" * EVENT_BYTES

        async def side() -> None:
            for _ in range(APPENDED):
                connection.execute("INSERT INTO event (bytes) VALUES (?)", (line,))

        yield side


@contextlib.asynccontextmanager
async def _items(peer: Any, path: Path) -> AsyncGenerator[Side]:
    session = peer("s-1", str(path))
    with contextlib.closing(sqlite3.connect(path)) as connection:
        # What a connection gets that asks for nothing: the peer asks for WAL only.
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,), "not FULL"
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)

    async def side() -> None:
        for _ in range(APPENDED):
            await session.add_items([ITEM])

    try:
        yield side
    finally:
        session.close()


def _peer_class() -> Any:
    """`SQLiteSession`, from .peers alone; None if it is not there."""
    if not (PEERS / "agents").is_dir():
        return None
    sys.path.append(str(PEERS))  # last: what both use is ours
    try:
        return importlib.import_module("agents.memory.sqlite_session").SQLiteSession
    finally:
        sys.path.remove(str(PEERS))
