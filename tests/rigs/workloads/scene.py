"""Scene: one store under a workload, with a journal of what is done to it.

Each method is one operation of the public API between two records. An error of the package is
recorded; then the workload ends (`Halt`), or goes on if the journal says so. Anything else that
escapes is recorded as such: no caller should ever see it.
"""

from __future__ import annotations

import contextlib
import itertools
import traceback
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from attachstore import Digest, Offer, Reference, Session, Store
from attachstore.conversion import convert_sessions
from attachstore.disk import Disk
from attachstore.errors import AttachstoreError
from attachstore.objects.intake import IntakePolicy
from attachstore.sessions.prepared_session import PreparedSession
from tests.rigs.journal import Journal

BURST = IntakePolicy(burst_s=float("inf"), idle_s=60.0, file_bytes=64 << 10)
"""Whatever the clock says, small objects are taken in, and stay until they are told."""


class Halt(Exception):  # noqa: N818 - no error: how a workload ends early
    """An operation failed, and the caller does not go on."""


class Scene:
    """`root` is the store's directory. What else a workload needs lies beside it, in `beside`."""

    def __init__(self, root: Path, journal: Journal, disk: Disk | None = None) -> None:
        self.root = root
        self.beside = root.parent / "beside"
        self.journal = journal
        self._disk = disk
        self._handles = itertools.count(1)

    @asynccontextmanager
    async def store(
        self,
        sessions: str | None = None,
        place: Path | None = None,
        *,
        intake: bool | IntakePolicy = BURST,
    ) -> AsyncGenerator[Store]:
        """The store, or another one at `place`, opened; decoding happens in this process."""
        root, kind = (self.root, "opened") if place is None else (place, "opened-other")
        opening = Store.open(
            root, decode_in_process=True, sessions=sessions, intake=intake, disk=self._disk
        )
        with self.operation(kind):
            store = await opening
            self.journal.acknowledge(kind)
        try:
            yield store
        finally:
            with self.operation("closed", goes_on=True):
                await store.close()

    # -- objects ---------------------------------------------------------------------------

    async def put(self, store: Store, content: bytes, source: Any = None) -> Reference | None:
        """Attach `content`, given as bytes or as a `source` that yields them."""
        facts = object_facts(content)
        reference = None
        with self.operation("object", **facts):
            reference = await store.attach(
                content if source is None else source, name="x.txt", declared="text/plain"
            )
            self.journal.acknowledge("object", **facts)
        return reference

    async def put_many(self, store: Store, contents: Sequence[bytes]) -> list[Reference]:
        """Attach all of them with one call."""
        references: list[Reference] = []
        for content in contents[1:]:
            self.journal.attempt("object", **object_facts(content))
        with self.operation("object", **object_facts(contents[0])):
            offers = [Offer(source=it, name="x.txt", declared="text/plain") for it in contents]
            references = await store.attach_many(offers)
            for content in contents:
                self.journal.acknowledge("object", **object_facts(content))
        return references

    async def drain(self, store: Store) -> None:
        """Give every object its file, and sweep."""
        with self.operation("drained"):
            await store.drain()

    async def read(self, store: Store, digest: Digest) -> None:
        """Read an object and record what its bytes are."""
        with self.operation("served", digest=digest.hex):
            data = await store.read(digest)
            self.journal.acknowledge("served", digest=digest.hex, actual=Digest.of(data).hex)

    async def read_session(self, store: Store, session_id: str) -> None:
        """Read the events; record their marks."""
        with self.operation("listed", id=session_id):
            marks = [event.data["mark"] async for event in store.sessions.read(session_id)]
            self.journal.acknowledge("listed", id=session_id, marks=marks)

    async def quarantine(self, store: Store, digest: Digest) -> None:
        """Scan with quarantine; `digest` is the corrupt object."""
        with self.operation("quarantined", digest=digest.hex):
            await store.scan(quarantine=True)
            self.journal.acknowledge("quarantined", digest=digest.hex)

    # -- sessions --------------------------------------------------------------------------

    async def create(self, store: Store, session_id: str) -> Handle | None:
        session = None
        with self.operation("created", id=session_id):
            session = await store.sessions.create(session_id, cwd="/")
        return session and self._handle(session)

    async def load(self, store: Store, session_id: str) -> Handle | None:
        session = None
        with self.operation("loaded", id=session_id):
            session = await store.sessions.load(session_id)
            self.journal.acknowledge("loaded", id=session_id)
        return session and self._handle(session)

    async def prepare(self, store: Store, session_id: str) -> PreparedSession | None:
        """Nothing is promised and nothing changed by it."""
        with self.operation("prepared", id=session_id):
            return await store.sessions.prepare(session_id)
        return None

    async def resume(self, prepared: PreparedSession, session_id: str) -> Handle | None:
        session = None
        with self.operation("loaded", id=session_id):
            session = await prepared.resume()
            self.journal.acknowledge("loaded", id=session_id)
        return session and self._handle(session)

    async def release(self, prepared: PreparedSession, session_id: str) -> None:
        with self.operation("released", id=session_id):
            await prepared.release()

    async def fork_from(
        self, other: Store, parent_id: str, store: Store, session_id: str, marks: list[str]
    ) -> Handle | None:
        """Fork a session of another store, with these marks; for the journal it is one batch."""
        session, number = None, next(self._handles)
        with self.operation("events", id=session_id, handle=number, marks=marks):
            session = await other.sessions.fork(parent_id, id=session_id, into=store.sessions)
            self.journal.acknowledge(
                "events", id=session_id, handle=number, marks=marks, first_seq=1, chains=[]
            )
        return session and Handle(self, session, number)

    async def fork(self, store: Store, parent_id: str, session_id: str, at: int) -> Handle | None:
        session = None
        with self.operation("fork", id=session_id, parent=parent_id, at=at):
            session = await store.sessions.fork(parent_id, id=session_id, at=at)
            self.journal.acknowledge("fork", id=session_id, parent=parent_id, at=at)
        return session and self._handle(session)

    async def delete(self, store: Store, session_id: str) -> None:
        with self.operation("deleted", id=session_id):
            await store.sessions.delete(session_id)
            self.journal.acknowledge("deleted", id=session_id)

    async def repair(self, store: Store, session_id: str) -> None:
        with self.operation("repaired", id=session_id):
            await store.sessions.repair(session_id)
            self.journal.acknowledge("repaired", id=session_id)

    async def seal(self, store: Store, session_id: str) -> None:
        with self.operation("sealed", id=session_id):
            await store.sessions.seal(session_id)
            self.journal.acknowledge("sealed", id=session_id)

    async def unseal(self, store: Store, session_id: str) -> None:
        with self.operation("unsealed", id=session_id):
            await store.sessions.unseal(session_id)
            self.journal.acknowledge("unsealed", id=session_id)

    async def convert(self, medium: str) -> None:
        """Move all session logs to another medium; the store is closed."""
        with self.operation("converted", to=medium):
            await convert_sessions(self.root, medium, disk=self._disk)
            self.journal.acknowledge("converted", to=medium)

    def _handle(self, session: Session) -> Handle:
        return Handle(self, session, next(self._handles))

    @contextlib.contextmanager
    def operation(self, kind: str, *, goes_on: bool = False, **facts: Any) -> Generator[None]:
        """Record an attempt and, if it comes to that, its failure; the block acknowledges."""
        self.journal.attempt(kind, **facts)
        try:
            yield
        except AttachstoreError as error:
            self.journal.failed(kind, error.code, **facts)
            if not goes_on and (kind.startswith("opened") or not self.journal.keep_going):
                raise Halt from error
        except Exception as error:
            self.journal.failed(kind, f"escaped:{error!r} from {_origin(error)}", **facts)
            if not goes_on:
                raise Halt from error


class Handle:
    """A session that is written to. The oracle is told which handle each batch went through."""

    def __init__(self, scene: Scene, session: Session, number: int) -> None:
        self._scene = scene
        self._journal = scene.journal
        self.session = session
        self.number = number
        self._emitted: list[str] = []

    async def append(self, *marks: str, file: Reference | None = None) -> None:
        """One event for each mark, as one batch; `file` goes into the first."""
        events = [
            ("message", event_data(mark, file if not n else None)) for n, mark in enumerate(marks)
        ]
        facts: dict[str, Any] = {"id": self.session.id, "handle": self.number, "marks": list(marks)}
        with self._scene.operation("events", **facts):
            written = await self.session.append_many(events)
            self._journal.acknowledge(
                "events",
                **facts,
                first_seq=written[0].seq,
                chains=[event.chain for event in written],
            )

    async def emit(self, *marks: str) -> None:
        """Queue an event for each mark; nothing is promised before `flush`."""
        for mark in marks:
            with self._scene.operation("emitted", id=self.session.id, marks=[mark]):
                await self.session.emit("message", event_data(mark))
                self._emitted.append(mark)

    async def flush(self) -> None:
        """Write what was emitted."""
        facts: dict[str, Any] = {"id": self.session.id, "marks": list(self._emitted)}
        with self._scene.operation("flushed", **facts):
            await self.session.flush()
            self._journal.acknowledge("flushed", **facts)

    async def close(self) -> None:
        with self._scene.operation("session-closed", id=self.session.id):
            await self.session.close()


def _origin(error: Exception) -> str:
    """The last few steps on the way to where it was raised."""
    steps = traceback.extract_tb(error.__traceback__)[-4:]
    return " > ".join(f"{Path(it.filename).name}:{it.lineno} {it.name}" for it in steps)


def object_facts(content: bytes) -> dict[str, Any]:
    return {"digest": Digest.of(content).hex, "size": len(content)}


def event_data(mark: str, file: Reference | None = None) -> dict[str, Any]:
    """Data that names its event, long enough to cross a disk block now and then."""
    data: dict[str, Any] = {"mark": mark, "text": mark * 20}
    return data if file is None else {**data, "file": file}
