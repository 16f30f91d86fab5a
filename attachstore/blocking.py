"""blocking.Store: the same store for scripts, without asyncio.

    from attachstore.blocking import Store

    with Store.open("path") as store:
        reference = store.attach(b"...", name="note.txt", declared="text/plain")
        session = store.sessions.create("s-1")
        session.append("message", {"file": reference})

A skin, not a second implementation: an event loop runs in a thread of its own, and each call
waits there for the asynchronous method of the same name. Safe to use from several threads.
Ctrl-C while a call waits cancels it, with the same guarantees as a cancelled task.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
)
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar, cast

from attachstore import store as asynchronous
from attachstore.admission import AdmissionPolicy
from attachstore.attachment import Attachment
from attachstore.digest import Digest
from attachstore.disk import Disk
from attachstore.integrity.progress import Progress
from attachstore.integrity.report import ScanReport
from attachstore.objects.store import Committed
from attachstore.reference import Reference
from attachstore.replay import ExportReport, PageReport, Step
from attachstore.sessions import sessions as asynchronous_sessions
from attachstore.sessions.event import (
    Event,
    RepairReport,
    SessionHeader,
    SessionSummary,
    SessionView,
)
from attachstore.sessions.reading import Damaged
from attachstore.status import ObjectStatus, Use

R = TypeVar("R")


class _Loop:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="attachstore-loop", daemon=True
        )
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, R]) -> R:
        """Run to the end. KeyboardInterrupt cancels the work, waits for it, and goes on."""
        if not self._thread.is_alive():
            work.close()
            message = "the store is closed, or was opened before os.fork()"
            raise ValueError(message)
        ended = threading.Event()
        tasks: list[asyncio.Task[R]] = []

        def start() -> None:
            tasks.append(self._loop.create_task(work))
            tasks[0].add_done_callback(lambda _: ended.set())

        self._loop.call_soon_threadsafe(start)
        try:
            ended.wait()
        except BaseException:  # KeyboardInterrupt; `start` has been queued before this
            self._loop.call_soon_threadsafe(lambda: tasks[0].cancel())  # noqa: PLW0108
            ended.wait()  # nothing of the call is still running when the caller goes on
            raise
        return tasks[0].result()

    def each(self, items: AsyncIterator[R]) -> Generator[R]:
        try:
            while (item := self.wait(_next(items))) is not _END:
                yield cast("R", item)
        finally:
            if isinstance(items, AsyncGenerator):
                self.wait(items.aclose())

    @property
    def closed(self) -> bool:
        return self._loop.is_closed()

    def stop(self) -> None:
        """Safe to repeat; in a forked child there is no thread to stop."""
        if not self.closed and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


_END = object()


async def _next(items: AsyncIterator[object]) -> object:
    return await anext(items, _END)


class Store:
    """`attachstore.Store` with blocking methods; see there for what each promises."""

    def __init__(self, loop: _Loop, store: asynchronous.Store) -> None:
        self._loop = loop
        self._store = store
        self.sessions = Sessions(loop, store.sessions)

    @classmethod
    def open(  # noqa: PLR0913 - settings, each with its default
        cls,
        root: str | os.PathLike[str],
        *,
        policy: AdmissionPolicy | None = None,
        create: bool = True,
        read_only: bool = False,
        weak_durability: bool = False,
        event_bytes_max: int = asynchronous.EVENT_BYTES_MAX,
        threads_max: int = asynchronous.THREADS_MAX,
        decode_in_process: bool = False,
        sessions: str | None = None,
        emit: asynchronous.EmitPolicy | None = None,
        disk: Disk | None = None,
    ) -> Self:
        """Open the store at `root`; close it with `close`, or use it as a context manager."""
        opening = asynchronous.Store.open(
            root,
            policy=policy,
            create=create,
            read_only=read_only,
            weak_durability=weak_durability,
            event_bytes_max=event_bytes_max,
            threads_max=threads_max,
            decode_in_process=decode_in_process,
            sessions=sessions,
            emit=emit,
            disk=disk,
        )
        loop = _Loop()
        try:
            return cls(loop, loop.wait(opening.__aenter__()))
        except BaseException:
            loop.stop()
            raise

    @property
    def root(self) -> Path:
        return self._store.root

    @property
    def policy(self) -> AdmissionPolicy:
        return self._store.policy

    def attach(
        self, source: asynchronous.Source, *, name: str | None = None, declared: str | None = None
    ) -> Reference:
        return self._loop.wait(self._store.attach(source, name=name, declared=declared))

    def put(
        self, source: asynchronous.Source, *, name: str | None = None, declared: str | None = None
    ) -> Committed:
        return self._loop.wait(self._store.put(source, name=name, declared=declared))

    def attach_many(
        self, items: Iterable[asynchronous.Source | asynchronous.Offer]
    ) -> list[Reference]:
        return self._loop.wait(self._store.attach_many(items))

    def check(
        self, source: asynchronous.Source, *, name: str | None = None, declared: str | None = None
    ) -> Attachment:
        return self._loop.wait(self._store.check(source, name=name, declared=declared))

    def read(self, reference: Reference | Digest) -> bytes:
        return self._loop.wait(self._store.read(reference))

    @contextmanager
    def open_attachment(self, reference: Reference | Digest) -> Generator[AttachmentStream]:
        context = self._store.open_attachment(reference)
        stream = self._loop.wait(context.__aenter__())
        try:
            yield AttachmentStream(self._loop, stream)
        finally:
            self._loop.wait(stream.close())

    def copy_to(self, reference: Reference | Digest, target: Path) -> None:
        self._loop.wait(self._store.copy_to(reference, target))

    def stat(self, reference: Reference | Digest) -> ObjectStatus:
        return self._loop.wait(self._store.stat(reference))

    def resolve(self, text: str) -> Digest:
        return self._loop.wait(self._store.resolve(text))

    def list(self, prefix: str = "") -> Generator[Digest]:
        return self._loop.each(self._store.list(prefix))

    def uses(self, digest: Digest) -> Generator[Use]:
        return self._loop.each(self._store.uses(digest))

    def replay(
        self, session_id: str, *, at: int | None = None, lenient: bool = False
    ) -> Generator[Step]:
        return self._loop.each(self._store.replay(session_id, at=at, lenient=lenient))

    def export(self, session_id: str, directory: Path, *, at: int | None = None) -> ExportReport:
        return self._loop.wait(self._store.export(session_id, directory, at=at))

    def write_page(self, session_id: str, path: Path, *, at: int | None = None) -> PageReport:
        return self._loop.wait(self._store.write_page(session_id, path, at=at))

    def scan(
        self,
        *,
        subset: tuple[int, int] | None = None,
        quarantine: bool = False,
        progress: Callable[[Progress], None] | None = None,
    ) -> ScanReport:
        work = self._store.scan(subset=subset, quarantine=quarantine, progress=progress)
        return self._loop.wait(work)

    def drain(self) -> int:
        return self._loop.wait(self._store.drain())

    def close(self) -> None:
        """Safe to repeat."""
        if not self._loop.closed:
            self._loop.wait(self._store.close())
            self._loop.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AttachmentStream:
    """Verified bytes of one attachment, a block at a time: `for block in stream`."""

    def __init__(self, loop: _Loop, stream: asynchronous.AttachmentStream) -> None:
        self._loop = loop
        self._stream = stream

    @property
    def size(self) -> int:
        return self._stream.size

    def read(self, size: int = -1) -> bytes:
        return self._loop.wait(self._stream.read(size))

    def __iter__(self) -> Generator[bytes]:
        return self._loop.each(self._stream.__aiter__())


class Session:
    """`attachstore.Session` with blocking methods."""

    def __init__(self, loop: _Loop, session: asynchronous_sessions.Session) -> None:
        self._loop = loop
        self._session = session

    @property
    def id(self) -> str:
        return self._session.id

    @property
    def header(self) -> SessionHeader:
        return self._session.header

    @property
    def head(self) -> int:
        return self._session.head

    @property
    def head_chain(self) -> str:
        return self._session.head_chain

    def append(
        self,
        type: str,  # noqa: A002 - the name of the field
        data: object,
        *,
        after: int | None = None,
    ) -> Event:
        return self._loop.wait(self._session.append(type, data, after=after))

    def append_many(
        self, events: Iterable[tuple[str, object]], *, after: int | None = None
    ) -> list[Event]:
        return self._loop.wait(self._session.append_many(events, after=after))

    def attach(
        self,
        source: asynchronous.Source,
        *,
        type: str = "attachment",  # noqa: A002 - as in `append`
        name: str | None = None,
        declared: str | None = None,
        after: int | None = None,
    ) -> Event:
        work = self._session.attach(source, type=type, name=name, declared=declared, after=after)
        return self._loop.wait(work)

    @property
    def queued(self) -> int:
        return self._session.queued

    @property
    def failure(self) -> BaseException | None:
        return self._session.failure

    def emit(self, type: str, data: object) -> None:  # noqa: A002 - as in `append`
        self._loop.wait(self._session.emit(type, data))

    def flush(self) -> None:
        self._loop.wait(self._session.flush())

    def adopt(self, closed: Session) -> None:
        self._loop.wait(self._session.adopt(closed._session))

    def close(self) -> None:
        self._loop.wait(self._session.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Sessions:
    """`attachstore.Sessions` with blocking methods."""

    def __init__(self, loop: _Loop, sessions: asynchronous_sessions.Sessions) -> None:
        self._loop = loop
        self._sessions = sessions

    def create(
        self,
        session_id: str,
        *,
        meta: Mapping[str, Any] | None = None,
        cwd: str | Path | None = None,
    ) -> Session:
        work = self._sessions.create(session_id, meta=meta, cwd=cwd)
        return Session(self._loop, self._loop.wait(work))

    def load(self, session_id: str, *, close_turn: bool = True) -> Session:
        work = self._sessions.load(session_id, close_turn=close_turn)
        return Session(self._loop, self._loop.wait(work))

    def read(
        self, session_id: str, *, after: int = 0, damaged: Damaged = "raise"
    ) -> Generator[Event]:
        return self._loop.each(self._sessions.read(session_id, after=after, damaged=damaged))

    def inspect(self, session_id: str) -> SessionView:
        return self._loop.wait(self._sessions.inspect(session_id))

    def verify(self, session_id: str) -> SessionView:
        return self._loop.wait(self._sessions.verify(session_id))

    def list(self) -> list[SessionSummary]:
        return self._loop.wait(self._sessions.list())

    def fork(
        self,
        session_id: str,
        *,
        id: str,  # noqa: A002 - as in the asynchronous store
        at: int | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Session:
        work = self._sessions.fork(session_id, id=id, at=at, meta=meta)
        return Session(self._loop, self._loop.wait(work))

    def delete(self, session_id: str) -> None:
        self._loop.wait(self._sessions.delete(session_id))

    def repair(self, session_id: str) -> RepairReport:
        return self._loop.wait(self._sessions.repair(session_id))

    def close(self, session_id: str) -> None:
        self._loop.wait(self._sessions.close(session_id))
