"""Store: the objects and session logs of one directory, opened together; what users hold.

The asynchronous edge of the package. Each method hands one blocking function to the store's own
threads and awaits its end; nothing on disk is half changed at an `await`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Self

from attachstore import layout
from attachstore.admission import AdmissionPolicy
from attachstore.admission.decoders import IN_PROCESS
from attachstore.admission.pool import ProcessPool
from attachstore.admitting import admitted, admitted_together, close_all, put_stream
from attachstore.arguments import check_kind
from attachstore.attach import Attacher, Claim, ReferenceConfirmer
from attachstore.attachment import Attachment
from attachstore.closing import Closing
from attachstore.digest import Digest, hex_prefix
from attachstore.disk import Disk, ReadOnlyDisk, WeakDisk
from attachstore.errors import StorageReadOnlyError
from attachstore.objects.filesystem import FilesystemBackend
from attachstore.objects.intake import IntakePolicy
from attachstore.objects.intake_backend import IntakeBackend
from attachstore.objects.reading import digest_of
from attachstore.objects.store import Committed, ObjectStore
from attachstore.objects.stream import VerifiedStream
from attachstore.opening import Opening, StrPath, local_path, read_or_make
from attachstore.reference import Reference
from attachstore.sessions.jsonl import JsonlMedium
from attachstore.sessions.logs import EVENT_BYTES_MAX, SessionLogs
from attachstore.sessions.sessions import EmitPolicy, Sessions
from attachstore.status import ObjectStatus, Use, status, uses
from attachstore.streams import BYTES_LIKE, AttachmentStream, Offer, Source
from attachstore.supply import Supply
from attachstore.threads import THREADS_MAX, Worker

if TYPE_CHECKING:
    from attachstore.integrity.progress import Progress
    from attachstore.integrity.report import ScanReport
    from attachstore.readback import Readback
    from attachstore.replay import ExportReport, Step
    from attachstore.replay.page import PageReport


class Store:
    """Attachments and session logs in one directory. Made by `Store.open`; safe to share by tasks.

    Everything that returns a Reference has made its object durable; everything that returns
    bytes has verified them.
    """

    def __init__(
        self,
        root: Path,
        *,
        policy: AdmissionPolicy,
        disk: Disk,
        event_bytes_max: int,
        threads_max: int,
        decode_in_process: bool,
        intake: bool | IntakePolicy,
    ) -> None:
        self.root = root
        self.policy = policy
        self.read_only = isinstance(disk, ReadOnlyDisk)
        self._disk = disk
        self._worker = Worker("attachstore", threads_max)
        files = FilesystemBackend(root, disk)
        self._backend = IntakeBackend(files, disk, intake=not self.read_only and intake)
        self.objects = ObjectStore(self._backend)
        self._confirmer = ReferenceConfirmer(self.objects)
        self._pool = None if decode_in_process else ProcessPool()
        self._attacher = Attacher(self.objects, disk, policy, self._pool or IN_PROCESS)
        medium = JsonlMedium(root, disk)  # until the store's own is known
        self.logs = SessionLogs(medium, self._confirmer.confirm, event_bytes_max=event_bytes_max)
        self.logs.read_only = self.read_only
        self.sessions = Sessions(self.logs, self._worker, self.put)
        self.sessions.supply = Supply(self.objects, self._confirmer)
        self._closing = Closing(self.sessions, self.objects, self._worker, self._pool)
        self.marker: layout.Marker | None = None
        """What attachstore.json says; set once the store is open."""

    # -- opening and closing -----------------------------------------------------------------

    @classmethod
    def open(  # noqa: PLR0913 - settings, each with its default
        cls,
        root: StrPath,
        *,
        policy: AdmissionPolicy | None = None,
        create: bool = True,
        read_only: bool = False,
        weak_durability: bool = False,
        event_bytes_max: int = EVENT_BYTES_MAX,
        threads_max: int = THREADS_MAX,
        decode_in_process: bool = False,
        sessions: str | None = None,
        emit: EmitPolicy | None = None,
        intake: bool | IntakePolicy = True,
        disk: Disk | None = None,
    ) -> Opening[Self]:
        """Open the store at `root`, a path or a file: URL; make it if it is not there.

        Use as `async with Store.open(...) as store`, or `store = await Store.open(...)` and
        `await store.close()`. A relative root is resolved now: a later chdir changes nothing.
        With `read_only`, or on a read-only medium, everything that reads works and nothing is
        created. `weak_durability` accepts a file system that refuses to sync, and its losses.
        `sessions` says where a new store keeps its session logs: "jsonl" (default) or "sqlite",
        `emit` how emitted events wait, `intake` whether small objects in a burst wait for files.

        Pictures and documents are decoded in worker processes, which start with the first one
        and end with the store: a decoder that crashes costs one attachment. `decode_in_process`
        decodes them here: sooner, for a program that soon ends.

        Raises:
            StoreMissingError: no store is there, and `create` is false or `read_only` is true.
            StoreForeignError: the directory holds something else.
            StoreVersionError: a newer attachstore made it.
            StoreLayoutError: it is damaged, or its sessions are elsewhere than asked for.
        """
        _check_kinds(policy, emit, intake, sessions)
        if disk is None:
            disk = ReadOnlyDisk() if read_only else WeakDisk() if weak_durability else Disk()
        store = cls(
            local_path(root),
            policy=policy or AdmissionPolicy(),
            disk=disk,
            event_bytes_max=event_bytes_max,
            threads_max=threads_max,
            decode_in_process=decode_in_process,
            intake=intake,
        )
        store.sessions.emit_policy = emit or EmitPolicy()

        async def start() -> Self:
            store.marker, store.logs.medium = await store._worker.finish(
                read_or_make, disk, store.root, make=create and not read_only, sessions=sessions
            )
            if not read_only:
                await store._worker.finish(store._backend.replay)
            return store

        return Opening(start, store.close)

    async def drain(self) -> int:
        """Give each object its file; remove what dead writers left, and return how many files."""
        await self._worker.finish(self._backend.drain)
        return await self._worker.finish(self.objects.sweep)

    async def close(self) -> None:
        """Write what was emitted, release every session, end threads and workers.

        All calls share one outcome. If events could not be written all is closed and the error
        raised: see `Session.adopt`.
        """
        await self._closing()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- attaching ---------------------------------------------------------------------------

    async def attach(
        self, source: Source, *, name: str | None = None, declared: str | None = None
    ) -> Reference:
        """Admit `source`, store it durably, and return the reference to log.

        `source` is bytes, a path to a regular file (copied, never linked), or a stream (read
        with about 1 MiB of memory). `name` is a label, by default a path's last part;
        `declared` is a media type that the bytes must turn out to have.

        Raises:
            AdmissionError: the bytes may not become an attachment; the code says why.
            UnavailableError: the medium did not answer. Nothing is promised; attach again.
        """
        return (await self.put(source, name=name, declared=declared)).reference

    async def put(
        self, source: Source, *, name: str | None = None, declared: str | None = None
    ) -> Committed:
        """As `attach`, and also tell whether the object was stored, a duplicate, or healed."""
        self._check_writable()
        claim = Claim(name=name, declared=declared)
        attacher = self._attacher
        if isinstance(source, BYTES_LIKE):
            committed = await self._worker.run(attacher.put_bytes, bytes(source), claim)
        elif isinstance(source, os.PathLike):
            committed = await self._worker.run(attacher.put_file, Path(source), claim)
        else:
            committed = await put_stream(self._worker, attacher, source, claim)
        self._confirmer.remember(committed.reference)
        return committed

    async def attach_many(self, items: Iterable[Source | Offer]) -> list[Reference]:
        """Attach all items or none: all are admitted before the first is stored.

        They become durable together, with fewer syncs than one by one. An error carries the
        `index` of its item; objects that were stored before a medium failed stay, unreferenced.
        """
        self._check_writable()
        offers = [item if isinstance(item, Offer) else Offer(source=item) for item in items]
        attachments = await admitted_together(self._worker, self._attacher, offers)
        try:
            commits = await self._worker.run(self._attacher.commit_many, attachments)
        finally:
            await self._worker.let_go(lambda: close_all(attachments))
        for committed in commits:
            self._confirmer.remember(committed.reference)
        return [committed.reference for committed in commits]

    async def check(
        self, source: Source, *, name: str | None = None, declared: str | None = None
    ) -> Attachment:
        """Admit `source` and store nothing: what `attach` would say. Raises AdmissionError."""
        claim = Claim(name=name, declared=declared)
        attachment = await admitted(self._worker, self._attacher, source, claim)
        attachment.content.close()
        return attachment

    def _check_writable(self) -> None:
        if self.read_only:
            raise StorageReadOnlyError(where=str(self.root), reason="it was opened read-only")

    # -- reading -----------------------------------------------------------------------------

    async def read(self, reference: Reference | Digest) -> bytes:
        """The bytes, verified: digest, size, header probe, compared with the reference.

        A bare Digest has nothing but itself to compare with.

        Raises:
            ObjectMissingError, ObjectCorruptError: the object is gone, or holds other bytes.
            HeaderMismatchError: the object is whole; the reference says something else.
        """
        return await self._worker.run(lambda cancel: self.objects.read(reference, cancel))

    @asynccontextmanager
    async def open_attachment(
        self, reference: Reference | Digest
    ) -> AsyncGenerator[AttachmentStream]:
        """Verify as `read` does, then stream from the same descriptor with about 1 MiB held."""
        verified = await self._worker.hold(
            VerifiedStream.close, lambda cancel: self.objects.stream(reference, cancel)
        )
        stream = AttachmentStream(self._worker, verified)
        try:
            yield stream
        finally:
            await stream.close()

    async def copy_to(self, reference: Reference | Digest, target: StrPath) -> None:
        """Write the verified bytes to `target`, whole or not at all, replacing what is there.

        Raises as `read`, and DestinationError for what is no place for a file, or in a store.
        """
        place = Path(target)
        await self._worker.run(lambda cancel: self.objects.copy_out(reference, place, cancel))

    async def stat(self, reference: Reference | Digest) -> ObjectStatus:
        """Verify the object and tell what its bytes are. Raises as `read`."""
        return await self._worker.run(lambda cancel: status(self.objects, reference, cancel))

    async def resolve(self, text: str) -> Digest:
        """The digest that `text` names: in full, or a unique prefix of at least 6 hex digits.

        Raises:
            InvalidReferenceError, AmbiguousReferenceError, ObjectMissingError.
        """
        return await self._worker.finish(self.objects.resolve, text)

    def list(self, prefix: str = "") -> AsyncGenerator[Digest]:
        """Yield every object's digest that starts with `prefix`, as in `resolve`, in order.

        By name alone, unverified. What keeps a directory from being listed is raised last of all.
        """
        digits = hex_prefix(prefix)
        return self._worker.iterate(lambda _cancel: self.objects.digests(digits))

    def uses(self, reference: Reference | Digest) -> AsyncGenerator[Use]:
        """Yield every place in every session log that refers to the object. Reads all logs.

        A damaged log is read on beyond its damage, as far as its lines parse.

        Raises, after all uses that were found, as there may be more:
            LogDamagedError: something in the log it names might refer to the object.
            UnavailableError, StoreLayoutError: the log it names could not be read.
        """
        digest = digest_of(reference)
        return self._worker.iterate(lambda cancel: uses(self.logs, digest, cancel))

    # -- replay and scan ---------------------------------------------------------------------

    def readback(self, session_id: str, *, at: int | None = None) -> Readback:
        """A session to be replayed, exported and drawn, each attachment verified once for all."""
        from attachstore.readback import Readback  # noqa: PLC0415 - most programs only write

        return Readback(self._worker, self.logs, self.objects, session_id, at)

    def replay(
        self, session_id: str, *, at: int | None = None, lenient: bool = False
    ) -> AsyncGenerator[Step]:
        """Read a session back, every reference resolved and verified. Writes nothing.

        Strict: after the first step with an attachment that is not `ok`, its error is raised,
        and so is damage in the log. `lenient` raises neither: outcomes are in the steps, and
        every event behind damage that can be read is yielded, `event.verified` False where the
        chain does not lead to it from the event before.

        Raises:
            SessionMissingError: there is no such session.
            NotFoundError, IntegrityError, UnavailableError: the attachment's, when strict.
            LogDamagedError: after the last event before the damage, when strict.
        """
        return self.readback(session_id, at=at).steps(lenient=lenient)

    async def export(
        self, session_id: str, directory: StrPath, *, at: int | None = None
    ) -> ExportReport:
        """Write the session's attachments under safe, unique names, with a manifest.

        Raises:
            DestinationError: `directory` holds something, or lies in a store; nothing was written.
            LogDamagedError: the log is damaged; what comes before is exported.
        """
        return await self.readback(session_id, at=at).export(directory)

    async def write_page(
        self, session_id: str, path: StrPath, *, at: int | None = None
    ) -> PageReport:
        """Write the session as one self-contained HTML page, damage and all.

        Events behind damage are shown as what they are: not proven by the chain. Of a damaged
        header the page says no more than that.

        Raises:
            DestinationError: something else is at `path`, or it lies in a store.
        """
        return await self.readback(session_id, at=at).write_page(path)

    async def scan(
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
        """Check every object against its name and every reference against the objects.

        Runs beside writers and changes nothing, unless `repair_from`, another store, is to give
        verified copies of what is corrupt or missing, or `quarantine` asks for the corrupt rest
        to be moved aside. `deep` decodes pictures and documents again, `rate_bytes_s` bounds
        what is read per second. `resume` is a file outside of the store that keeps how far the
        scan has come: one that was interrupted goes on from there. `progress` is called in a
        thread, a few times a second. Findings are returned, not raised.

        Raises:
            InvalidConfigurationError: `resume` is of another store or of other options.
            DestinationError: `resume` lies in a store.
            StoreMissingError: no store is at `repair_from`.
        """
        from attachstore.integrity.decoding import DeepCheck  # noqa: PLC0415 - as readback
        from attachstore.scanning import Scanner, ScanRequest  # noqa: PLC0415

        request = ScanRequest(
            subset=subset,
            deep=deep,
            quarantine=quarantine,
            repair_from=repair_from,
            rate_bytes_s=rate_bytes_s,
            resume=resume,
            progress=progress,
        )
        if request.changes_the_store:
            self._check_writable()
        store_id = self.marker.id if self.marker else ""
        check = DeepCheck(self.policy, self._pool or IN_PROCESS)
        scanner = Scanner(self.root, self.objects, self.logs, self._disk, check)
        return await self._worker.run(scanner.scan, request, store_id)


def _check_kinds(policy: object, emit: object, intake: object, sessions: object) -> None:
    check_kind("policy", policy, (AdmissionPolicy, NoneType), "an AdmissionPolicy")
    check_kind("emit", emit, (EmitPolicy, NoneType), "an EmitPolicy")
    check_kind("intake", intake, (bool, IntakePolicy), "True, False or an IntakePolicy")
    check_kind("sessions", sessions, (str, NoneType), "the name of a medium")
