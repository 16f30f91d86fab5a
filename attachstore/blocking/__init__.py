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

import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from attachstore import store as asynchronous
from attachstore.admission import AdmissionPolicy
from attachstore.attachment import Attachment
from attachstore.blocking.conversion import convert_sessions
from attachstore.blocking.loop import Loop
from attachstore.blocking.sessions import Session, Sessions
from attachstore.digest import Digest
from attachstore.disk import Disk
from attachstore.errors import AttachstoreError
from attachstore.objects.store import Committed
from attachstore.opening import StrPath
from attachstore.reference import Reference
from attachstore.status import ObjectStatus, Use

if TYPE_CHECKING:  # what few scripts need, loaded when they do
    from attachstore.integrity.progress import Progress
    from attachstore.integrity.report import ScanReport
    from attachstore.replay import ExportReport, Step
    from attachstore.replay.page import PageReport
    from attachstore.sessions.event import SessionView

__all__ = ["AttachmentStream", "Readback", "Session", "Sessions", "Store", "convert_sessions"]


class Store:
    """`attachstore.Store` with blocking methods; see there for what each promises."""

    def __init__(self, loop: Loop, store: asynchronous.Store) -> None:
        self._loop = loop
        self._store = store
        self._closing = threading.Lock()
        self._closed = False
        self._failure: AttachstoreError | None = None
        self.sessions = Sessions(loop, store.sessions)

    @classmethod
    def open(  # noqa: PLR0913 - settings, each with its default
        cls,
        root: StrPath,
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
        intake: bool | asynchronous.IntakePolicy = True,
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
            intake=intake,
            disk=disk,
        )
        loop = Loop()
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

    def copy_to(self, reference: Reference | Digest, target: StrPath) -> None:
        self._loop.wait(self._store.copy_to(reference, target))

    def stat(self, reference: Reference | Digest) -> ObjectStatus:
        return self._loop.wait(self._store.stat(reference))

    def resolve(self, text: str) -> Digest:
        return self._loop.wait(self._store.resolve(text))

    def list(self, prefix: str = "") -> Generator[Digest]:
        return self._loop.each(self._store.list(prefix))

    def uses(self, reference: Reference | Digest) -> Generator[Use]:
        return self._loop.each(self._store.uses(reference))

    def readback(self, session_id: str, *, at: int | None = None) -> Readback:
        return Readback(self._loop, self._store.readback(session_id, at=at))

    def replay(
        self, session_id: str, *, at: int | None = None, lenient: bool = False
    ) -> Generator[Step]:
        return self._loop.each(self._store.replay(session_id, at=at, lenient=lenient))

    def export(self, session_id: str, directory: StrPath, *, at: int | None = None) -> ExportReport:
        return self._loop.wait(self._store.export(session_id, directory, at=at))

    def write_page(self, session_id: str, path: StrPath, *, at: int | None = None) -> PageReport:
        return self._loop.wait(self._store.write_page(session_id, path, at=at))

    def scan(
        self,
        *,
        subset: tuple[int, int] | None = None,
        deep: bool = False,
        quarantine: bool = False,
        repair_from: StrPath | None = None,
        rate_bytes_s: float | None = None,
        resume: StrPath | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> ScanReport:
        work = self._store.scan(
            subset=subset,
            deep=deep,
            quarantine=quarantine,
            repair_from=repair_from,
            rate_bytes_s=rate_bytes_s,
            resume=resume,
            progress=progress,
        )
        return self._loop.wait(work)

    def drain(self) -> int:
        return self._loop.wait(self._store.drain())

    def close(self) -> None:
        """All calls share one outcome, from whatever thread. See `attachstore.Store.close`."""
        with self._closing:
            if not self._closed:
                self._closed = True
                try:
                    self._loop.wait(self._store.close())
                except AttachstoreError as error:
                    self._failure = error
                finally:
                    self._loop.stop()
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Readback:
    """`attachstore.readback.Readback` with blocking methods."""

    def __init__(self, loop: Loop, readback: asynchronous.Readback) -> None:
        self._loop = loop
        self._readback = readback

    def steps(self, *, lenient: bool = False) -> Generator[Step]:
        return self._loop.each(self._readback.steps(lenient=lenient))

    def view(self) -> SessionView:
        return self._loop.wait(self._readback.view())

    def export(self, directory: StrPath) -> ExportReport:
        return self._loop.wait(self._readback.export(directory))

    def write_page(self, path: StrPath) -> PageReport:
        return self._loop.wait(self._readback.write_page(path))


class AttachmentStream:
    """Verified bytes of one attachment, a block at a time: `for block in stream`."""

    def __init__(self, loop: Loop, stream: asynchronous.AttachmentStream) -> None:
        self._loop = loop
        self._stream = stream

    @property
    def size(self) -> int:
        return self._stream.size

    def read(self, size: int = -1) -> bytes:
        return self._loop.wait(self._stream.read(size))

    def __iter__(self) -> Generator[bytes]:
        return self._loop.each(self._stream.__aiter__())
