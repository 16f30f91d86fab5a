"""What one process of the soak does until it is killed: everything, in no order.

Attaches contents that other processes attach too, writes its own sessions and those that all
share, forks, deletes, seals, reads, scans and moves corrupt objects aside. Its journal goes on
where that of the process before it ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from attachstore import Digest, Reference, Store
from attachstore.errors import SessionMissingError
from tests.rigs.journal import Journal, Record, open_journal
from tests.rigs.workloads.scene import Handle, Scene

CONTENTS = 300
ROTTING = 12
"""Further contents, which the medium damages again and again; no event refers to them."""
OWN_SESSIONS, SHARED_SESSIONS = 6, 3
_SIZES_BYTES = (20, 300, 5_000, 70_000, 1_500_000)
_CHANCES = (30, 40, 20, 8, 2)


class TimedJournal(Journal):
    """Each record carries the time, so that those of several processes can be put in order."""

    def add(self, record: Record) -> None:
        record.facts["when_ns"] = time.monotonic_ns()
        super().add(record)
        self.records.clear()  # a soak is long


def content(number: int) -> bytes:
    """The n-th of the contents that all processes attach."""
    draw = random.Random(number)
    return draw.randbytes(draw.choices(_SIZES_BYTES, _CHANCES)[0])


def rotting(number: int) -> bytes:
    return b"rotting %d\n" % number * 40


class SoakWorker:
    """`slot` is one of the places for processes, `life` counts those that were in it."""

    def __init__(self, scene: Scene, store: Store, slot: int, life: int) -> None:
        self._scene = scene
        self._store = store
        self._slot = slot
        self._life = life
        self._draw = random.Random(slot * 1_000_003 + life)
        self._mark = 0
        self._references: list[Reference] = []
        self._mine: dict[str, Handle] = {}
        """Sessions this process has made: all it wrote to them is acknowledged."""

    async def step(self) -> None:
        """One operation, drawn at random."""
        steps: dict[Callable[[], Awaitable[None]], int] = {
            self._put: 30,
            self._put_rotting: 6,
            self._append: 30,
            self._append_shared: 12,
            self._create: 6,
            self._fork: 6,
            self._delete: 3,
            self._seal: 3,
            self._read: 4,
            self._scan: 2,
        }
        await self._draw.choices([*steps], [*steps.values()])[0]()

    async def _put(self) -> None:
        data = content(self._draw.randrange(CONTENTS))
        reference = await self._scene.put(self._store, data)
        if reference is not None:
            self._references = [*self._references[-20:], reference]

    async def _put_rotting(self) -> None:
        """Not in the journal: nobody can say whether the medium came before or after it."""
        data = rotting(self._draw.randrange(ROTTING))
        with self._scene.operation("rotting"):
            await self._store.attach(data, declared="text/plain")

    async def _append(self) -> None:
        if self._mine:
            await self._write_to(self._draw.choice([*self._mine.values()]))
        else:
            await self._create()

    async def _append_shared(self) -> None:
        """Whoever comes first may write; the others are told that it is busy."""
        session_id = f"shared-{self._draw.randrange(SHARED_SESSIONS)}"
        handle = await self._scene.load(self._store, session_id)
        if handle is None:
            handle = await self._scene.create(self._store, session_id)
        if handle is not None:
            await self._write_to(handle)
            await handle.close()

    async def _write_to(self, handle: Handle) -> None:
        marks = [self._next_mark() for _ in range(self._draw.choice((1, 1, 1, 3)))]
        chosen = self._draw.choice(self._references) if self._references else None
        await handle.append(*marks, file=chosen)

    def _next_mark(self) -> str:
        self._mark += 1
        return f"{self._slot}/{self._life}/{self._mark}"

    async def _create(self) -> None:
        """A new session in the place of one of our own, of whatever life."""
        session_id = self._own_id()
        await self._forget(session_id)
        handle = await self._scene.create(self._store, session_id)
        if handle is not None:
            self._mine[session_id] = handle
            await self._write_to(handle)

    async def _fork(self) -> None:
        parents = [it for it in self._mine.values() if it.session.head]
        child_id = self._own_id()
        if not parents or child_id in self._mine:
            return
        await self._forget(child_id)
        parent = self._draw.choice(parents).session
        at = self._draw.randint(1, parent.head)
        child = await self._scene.fork(self._store, parent.id, child_id, at)
        if child is not None:
            self._mine[child_id] = child
            await self._write_to(child)

    async def _delete(self) -> None:
        await self._forget(self._own_id())

    async def _forget(self, session_id: str) -> None:
        """Delete; the process that was here before may have been killed when it had done that."""
        self._mine.pop(session_id, None)
        with self._scene.operation("deleted", id=session_id):
            with contextlib.suppress(SessionMissingError):
                await self._store.sessions.delete(session_id)
            self._scene.journal.acknowledge("deleted", id=session_id)

    async def _seal(self) -> None:
        if self._mine:
            session_id, handle = self._mine.popitem()
            await handle.close()
            await self._scene.seal(self._store, session_id)
            await self._scene.unseal(self._store, session_id)

    async def _read(self) -> None:
        if self._references:
            await self._scene.read(self._store, self._draw.choice(self._references).digest)
        session_id = f"shared-{self._draw.randrange(SHARED_SESSIONS)}"
        await self._scene.read_session(self._store, session_id)

    async def _scan(self) -> None:
        """A part of the objects, and all logs; what is corrupt is moved aside."""
        kept = {Digest.of(rotting(number)).hex for number in range(ROTTING)}
        with self._scene.operation("scanned"):
            part = (self._draw.randrange(1, 9), 8)
            report = await self._store.scan(subset=part, quarantine=True)
            for finding in report.findings:
                shown = str(finding)
                if finding.kind.is_fault and not any(digest in shown for digest in kept):
                    self._scene.journal.seen("finding", what=shown)

    def _own_id(self) -> str:
        return f"own-{self._slot}-{self._draw.randrange(OWN_SESSIONS)}"


def work(root: Path, journal: Path, slot: int, life: int, pause_s: float) -> None:
    """Until somebody kills this process."""
    asyncio.run(_work(root, journal, slot, life, pause_s))


async def _work(root: Path, journal: Path, slot: int, life: int, pause_s: float) -> None:
    scene = Scene(root, TimedJournal(open_journal(journal), keep_going=True))
    draw = random.Random(life)
    async with scene.store() as store:
        worker = SoakWorker(scene, store, slot, life)
        while True:
            await worker.step()
            await asyncio.sleep(draw.uniform(0, 2 * pause_s))
