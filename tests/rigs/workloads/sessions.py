"""Workloads on session logs, for logs in files and, where it differs, for logs in SQLite."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from unittest import mock

from tests.rigs.stored import log_of
from tests.rigs.workloads.contents import SMALL
from tests.rigs.workloads.scene import Scene, event_data
from tests.rigs.workloads.workload import Part, Workload

JSONL, SQLITE = "jsonl", "sqlite"
OTHER = "other"


async def no_session(scene: Scene, medium: str) -> None:
    async with scene.store(medium):
        pass


async def one_session(scene: Scene, medium: str) -> None:
    """A session s-1 with four events: one with a reference, a batch of two, a last one."""
    async with scene.store(medium) as store:
        reference = await scene.put(store, SMALL[0])
        handle = await scene.create(store, "s-1")
        assert handle is not None
        await handle.append("start/1", file=reference)
        await handle.append("start/2", "start/3")
        await handle.append("start/4")


async def torn_tail(scene: Scene, medium: str) -> None:
    """As `one_session`, and half a line of an append that was never acknowledged."""
    await one_session(scene, medium)
    tail = b'{"seq":5,"time":"2026-01-02T03:04:05.000000Z","type":"message","data":{"mark":"los'
    append_raw(scene.root, "s-1", tail)
    scene.journal.given("tail", id="s-1", bytes=tail.hex())


async def damaged(scene: Scene, medium: str) -> None:
    """As `one_session`, and then a byte of the second event is another."""
    await one_session(scene, medium)
    overwrite(scene.root, "s-1", b'"mark":"start/2"', b'"mark":"start/?"')
    log = log_of(scene.root, "s-1")
    assert log is not None
    bad = log.content[log.proven_bytes :]
    scene.journal.given("damaged", id="s-1", good_seq=len(log.events), bytes=bad.hex())


async def sealed(scene: Scene) -> None:
    await one_session(scene, JSONL)
    async with scene.store() as store:
        await scene.seal(store, "s-1")


async def loose_end(scene: Scene) -> None:
    """As `sealed`, with an event that was appended by a writer who was killed before it closed."""
    await sealed(scene)
    async with scene.store() as store:
        handle = await scene.load(store, "s-1")
        assert handle is not None
        await handle.append("loose/1")
    path = scene.root / "sessions" / "s-1" / "log.jsonl.zst"
    path.write_bytes(path.read_bytes()[:-10])  # of the trailer, which only a close writes


async def no_store(_: Scene) -> None:
    """Nothing; the workload makes it."""


async def create(scene: Scene, medium: str) -> None:
    """A store that is not there yet, and the first things in it."""
    async with scene.store(medium) as store:
        reference = await scene.put(store, SMALL[0])
        handle = await scene.create(store, "s-1")
        if handle is not None:
            await handle.append("first/1", file=reference)


async def append_one(scene: Scene) -> None:
    """A new session and its first events, then an event of a session that is loaded."""
    async with scene.store() as store:
        new = await scene.create(store, "s-2")
        if new is not None:
            await new.append("new/1")
            await new.append("new/2")
        old = await scene.load(store, "s-1")
        if old is not None:
            await old.append("more/1")
            await old.append("more/2")


async def append_batch(scene: Scene) -> None:
    async with scene.store() as store:
        handle = await scene.load(store, "s-1")
        if handle is not None:
            await handle.append("batch/1", "batch/2", "batch/3")
            await handle.append("batch/4", "batch/5")


async def append_together(scene: Scene) -> None:
    """Calls that do not wait for each other; those that find one being written share a write."""
    async with scene.store() as store:
        handle = await scene.load(store, "s-1")
        if handle is not None:
            calls = (handle.append(f"together/{number}") for number in range(4))
            for outcome in await asyncio.gather(*calls, return_exceptions=True):
                if outcome is not None:
                    raise outcome
            await handle.append("behind/1")


async def append_busily(scene: Scene) -> None:
    """So many in a row that the log gets room for the next ones, and the next one is too long."""
    with (
        mock.patch("attachstore.sessions.room.BUSY_APPENDS", 2),
        mock.patch("attachstore.sessions.room.BUSY_S", float("inf")),
        mock.patch("attachstore.sessions.room.ROOM_BYTES", 4 << 10),
        mock.patch("attachstore.sessions.room.ROOM_BYTES_MAX", 5 << 10),
    ):
        async with scene.store() as store:
            handle = await scene.load(store, "s-1")
            if handle is not None:
                for number in range(1, 7):
                    await handle.append(f"busy/{number}")
                await handle.append("long/" + "x" * 300, "last/1")


async def write_behind(scene: Scene) -> None:
    """Emitted events; what a failed flush left is flushed once more, and at the latest by close."""
    async with scene.store() as store:
        handle = await scene.load(store, "s-1")
        if handle is not None:
            await handle.emit("emitted/1", "emitted/2")
            await handle.flush()
            await handle.emit("emitted/3")
            await handle.flush()


async def fork(scene: Scene) -> None:
    async with scene.store() as store:
        child = await scene.fork(store, "s-1", "s-2", at=3)
        if child is not None:
            await child.append("forked/1")
        await scene.fork(store, "s-1", "s-3", at=4)


async def load(scene: Scene) -> None:
    async with scene.store() as store:
        handle = await scene.load(store, "s-1")
        if handle is None:
            handle = await scene.load(store, "s-1")
        if handle is not None:
            await handle.append("loaded/1")


async def prepare(scene: Scene) -> None:
    """Look and let go; then look, resume, and go on."""
    async with scene.store() as store:
        looked = await scene.prepare(store, "s-1")
        if looked is not None:
            await scene.release(looked, "s-1")
        prepared = await scene.prepare(store, "s-1")
        if prepared is not None:
            handle = await scene.resume(prepared, "s-1")
            if handle is not None:
                await handle.append("resumed/1")
            await scene.release(prepared, "s-1")


async def other_store(scene: Scene) -> None:
    """This store has a session and an object; another one beside it has more of both."""
    await one_session(scene, JSONL)
    async with scene.store(place=scene.beside / OTHER) as other:
        session = await other.sessions.create("o-1", cwd="/")
        for number, content in enumerate(SMALL[:2], start=1):
            reference = await other.attach(content, name="x.txt", declared="text/plain")
            await session.append("message", event_data(f"other/{number}", reference))
    for shard in (scene.beside / OTHER / "objects" / "blake3").iterdir():
        if not any(shard.iterdir()):
            shard.rmdir()


async def fork_across(scene: Scene) -> None:
    """One of the two objects that the session refers to is here already."""
    marks = ["other/1", "other/2"]
    async with scene.store(place=scene.beside / OTHER) as other, scene.store() as store:
        for session_id in ("s-2", "s-3"):
            handle = await scene.fork_from(other, "o-1", store, session_id, marks)
            if handle is not None:
                await handle.append(f"{session_id}/1")


async def repair(scene: Scene) -> None:
    async with scene.store() as store:
        await scene.repair(store, "s-1")
        handle = await scene.load(store, "s-1")
        if handle is not None:
            await handle.append("repaired/1")


async def seal(scene: Scene) -> None:
    async with scene.store() as store:
        await scene.seal(store, "s-1")
        await scene.seal(store, "s-1")


async def unseal(scene: Scene) -> None:
    async with scene.store() as store:
        await scene.unseal(store, "s-1")
        handle = await scene.load(store, "s-1")
        if handle is not None:
            await handle.append("unsealed/1")


async def append_sealed(scene: Scene) -> None:
    """Events for a log that stays sealed; then it is packed anew."""
    async with scene.store() as store:
        handle = await scene.load(store, "s-1")
        if handle is not None:
            await handle.append("sealed/1")
            await handle.append("sealed/2", "sealed/3")
            await handle.close()
        await scene.seal(store, "s-1")


async def convert(scene: Scene, medium: str) -> None:
    """To another medium, and on with the work there."""
    await scene.convert(medium)
    async with scene.store() as store:
        handle = await scene.load(store, "s-1")
        if handle is not None:
            await handle.append("converted/1")


async def delete(scene: Scene) -> None:
    async with scene.store() as store:
        await scene.delete(store, "s-1")
        handle = await scene.create(store, "s-1")
        if handle is not None:
            await handle.append("again/1")


# -- what only a broken medium does ------------------------------------------------------------


def append_raw(root: Path, session_id: str, content: bytes) -> None:
    """Bytes behind a log's last line, whatever holds the log."""
    path = root / "sessions" / session_id / "log.jsonl"
    if path.exists():
        with path.open("ab") as file:
            file.write(content)
        return
    with contextlib.closing(sqlite3.connect(root / "sessions.db")) as database, database:
        database.execute(
            "INSERT INTO line SELECT session, max(offset_bytes) + length(bytes), ? FROM line "
            "WHERE session = (SELECT number FROM session WHERE segment = ?)",
            (content, session_id),
        )


def overwrite(root: Path, session_id: str, old: bytes, new: bytes) -> None:
    """Change bytes of a log in place."""
    path = root / "sessions" / session_id / "log.jsonl"
    if path.exists():
        path.write_bytes(path.read_bytes().replace(old, new))
        return
    with contextlib.closing(sqlite3.connect(root / "sessions.db")) as database, database:
        rows = database.execute("SELECT session, offset_bytes, bytes FROM line").fetchall()
        for session, offset_bytes, content in rows:
            database.execute(
                "UPDATE line SET bytes = ? WHERE session = ? AND offset_bytes = ?",
                (content.replace(old, new), session, offset_bytes),
            )


def _both(
    name: str, start: Callable[..., Awaitable[None]], part: Part
) -> tuple[Workload, Workload]:
    return (
        Workload(name, partial(start, medium=JSONL), part),
        Workload(f"{name}-sqlite", partial(start, medium=SQLITE), part),
    )


SESSION_WORKLOADS = (
    *_both("append-one", one_session, append_one),
    *_both("append-batch", one_session, append_batch),
    Workload("append-together", partial(one_session, medium=JSONL), append_together),
    Workload("append-busily", partial(one_session, medium=JSONL), append_busily),
    *_both("write-behind", one_session, write_behind),
    *_both("fork", one_session, fork),
    *_both("load-torn-tail", torn_tail, load),
    *_both("prepare", torn_tail, prepare),
    Workload("fork-across", other_store, fork_across),
    *_both("repair", damaged, repair),
    *_both("delete", one_session, delete),
    Workload("convert", partial(one_session, medium=JSONL), partial(convert, medium=SQLITE)),
    Workload("convert-back", partial(one_session, medium=SQLITE), partial(convert, medium=JSONL)),
    Workload("seal", partial(one_session, medium=JSONL), seal),
    Workload("unseal", sealed, unseal),
    Workload("append-sealed", sealed, append_sealed),
    Workload("mend-sealed", loose_end, load),
)

LONG_SESSION_WORKLOADS = (
    Workload("create", no_store, partial(create, medium=JSONL)),
    Workload("create-sqlite", no_store, partial(create, medium=SQLITE)),
)
