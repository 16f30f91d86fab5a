"""Intake: small new objects are durable after one sync, and get files of their own later.

    put ──▶ record in an intake file ──sync──▶ acknowledged
                       │ idle, half full, drain, close
                       ▼
            files, synced in groups ──▶ names, synced ──▶ the record is forgotten

A new file costs two commits of a file system's journal, one for it and one for its name. A record
in a file that has its room already costs none: it is bytes, and one wait for the disk.

Invariants

 (1) `put` returns only after a sync that began after the record was written has succeeded.
     Threads that put at the same time share one.
 (2) A record is forgotten only after its object's own name is durable.
 (3) A failed sync ends the handle (promise.py): what was acknowledged before lies in the file
     and is replayed by whoever opens the store next.
 (4) Until it is forgotten an object is found here; whoever finds it under neither name has to
     look for its own name once more (intake_backend.py).
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from attachstore.condition import Condition
from attachstore.daemon import daemon_thread, insisting
from attachstore.digest import Digest
from attachstore.disk import Disk, ensure_directory, storage_errors
from attachstore.errors import AttachstoreError, StorePoisonedError
from attachstore.objects.intake_file import IntakeFile, Record, fits, room_for
from attachstore.promise import Promise

_RETRY_S = 1.0
_IDLES_MAX = 8
"""So long at most do objects wait. Others find them more slowly the more there are."""
_log = logging.getLogger("attachstore")

Objects = Iterable[tuple[Digest, bytes]]


OBJECT_BYTES_LIMIT = 64 << 20
"""Of a policy. Who reads an intake file takes a larger record for damage, not into memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakePolicy:
    """What goes through the intake, and when it leaves it."""

    object_bytes_max: int = 1 << 20
    """Larger ones gain nothing: writing them twice costs more than a name."""
    burst_s: float = 1.0
    """Objects that come alone get their files at once; of those that come within so many seconds
    of another, all but the first go through the intake. So a short command makes none."""
    idle_s: float = 0.25
    """When nothing has come for so long, all get their files; after eight times that anyway."""
    file_bytes: int = 8 << 20
    """Of one intake file; there are two at most, and one that is kept for later."""

    def __post_init__(self) -> None:
        if self.object_bytes_max > OBJECT_BYTES_LIMIT:  # other processes would not find them
            message = f"object_bytes_max is at most {OBJECT_BYTES_LIMIT}: {self}"
            raise ValueError(message)
        sizes = self.object_bytes_max, self.file_bytes
        if not (self.burst_s >= 0 and self.idle_s >= 0 and min(sizes) >= 1):  # NaN is not, either
            message = f"waits are at least 0 and sizes at least 1: {self}"
            raise ValueError(message)


@dataclass(slots=True)
class _Filling:
    """One intake file, and how far it has been synced."""

    file: IntakeFile
    synced: tuple[int, int] = (0, 0)
    """A position of the file: with its generation, or a thread that is late by one filling would
    vouch for bytes of the next."""
    syncing: threading.Lock = field(default_factory=threading.Lock)
    records: dict[Digest, Record] = field(default_factory=dict[Digest, Record])


class Intake:
    """The intake of one store handle; thread-safe.

    `settle` gives objects names of their own, durably.
    """

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        promise: Promise,
        settle: Callable[[Objects], None],
        policy: IntakePolicy,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._promise = promise
        self._settle = settle
        self._policy = policy
        self._directory_is_durable = False
        self._changed = Condition()
        self._say_the_end = self._end  # asked for now: later there may be no memory
        self._draining = threading.Lock()
        self._active: _Filling | None = None
        self._full: _Filling | None = None
        self._spare: _Filling | None = None
        self._thread: threading.Thread | None = None
        self._first_s = self._last_s = float("-inf")
        self._usable = True
        self._closed = False

    # -- in --------------------------------------------------------------------------------

    def put(self, digest: Digest, data: bytes) -> bool | None:
        """Take an object in, durably. False: it is here already; None: no, make a file of it.

        Raises StorageIOError and others of the medium; StorePoisonedError.
        """
        return self.put_many([(digest, data)])[0]

    def put_many(self, objects: Sequence[tuple[Digest, bytes]]) -> list[bool | None]:
        """As `put` each, with one sync for all that one file takes. Several are a burst."""
        answers: list[bool | None] = []
        touched: list[tuple[_Filling, tuple[int, int]]] = []
        with storage_errors(self._directory):
            with self._changed:
                self._promise.check()
                is_burst = self._is_burst(len(objects))
                slept = self._wait_s() is None
                try:
                    for digest, data in objects:
                        answers.append(self._take(digest, data, touched, is_burst=is_burst))
                finally:
                    # To wake a thread costs more than a record, so only one that has to know.
                    if slept or self._wait_s() == 0:
                        self._changed.notify_all()
            for filling, position in touched:
                self._make_durable(filling, position)
        return answers

    def _take(
        self,
        digest: Digest,
        data: bytes,
        touched: list[tuple[_Filling, tuple[int, int]]],
        *,
        is_burst: bool,
    ) -> bool | None:
        """See `put`; not durable yet. `touched` gets how far which file has to be synced."""
        filling = self._holding(digest)
        known = filling is not None
        if filling is None:
            filling = self._filling_for(len(data)) if is_burst else None
            if filling is None:
                return None
            record = filling.file.append(digest, data)
            if not filling.records:
                self._first_s = self._last_s
            filling.records[digest] = record
        touched[:] = [it for it in touched if it[0] is not filling]
        touched.append((filling, filling.file.position))
        return not known

    def confirm(self, digest: Digest) -> bool:
        """Make it durable, if it is here."""
        with self._changed:
            filling = self._holding(digest)
            if filling is None:
                return False
            position = filling.file.position
        with storage_errors(self._directory):
            self._make_durable(filling, position)
        return True

    def _is_burst(self, objects: int) -> bool:
        last_s, self._last_s = self._last_s, time.monotonic()
        return objects > 1 or self._last_s - last_s <= self._policy.burst_s

    def _filling_for(self, size_bytes: int) -> _Filling | None:
        """Where a record of that size has room; None where there is none."""
        if self._closed or not self._usable:
            return None
        if not fits(size_bytes, self._policy.file_bytes):
            return None
        if self._active is not None and self._active.file.room_bytes < room_for(size_bytes):
            if self._full is not None:
                return None  # the disk is behind: let the caller wait for a file of its own
            self._full, self._active = self._active, None
        if self._active is None:
            self._active, self._spare = self._spare or self._new(), None
        return self._active if self._active and self._has_room(self._active, size_bytes) else None

    def _has_room(self, filling: _Filling, size_bytes: int) -> bool:
        try:
            filling.file.make_room(size_bytes)
        except OSError as error:  # most often a full disk: it is only a help
            _log.info("an object is written as a file at once: %s", error)
            return False
        return True

    def _new(self) -> _Filling | None:
        """None, and never again, where there is no room or no thread for one: it is only a help."""
        try:
            if self._thread is None:
                self._thread = daemon_thread(self._run, "attachstore-intake")
            if not self._directory_is_durable:
                self._make_directory()
            try:
                file = self._new_file()
            except FileNotFoundError:  # removed since
                self._make_directory()
                file = self._new_file()
        except (OSError, RuntimeError) as error:  # RuntimeError: no thread for it
            self._usable = False
            _log.info("objects are written as files at once: %s", error)
            return None
        return _Filling(file)

    def _make_directory(self) -> None:
        """Its name is synced whoever has made it: that one may have been killed before."""
        ensure_directory(self._disk, self._directory)
        self._disk.sync_directory(self._directory.parent)
        self._directory_is_durable = True

    def _new_file(self) -> IntakeFile:
        return IntakeFile.create(self._disk, self._directory, self._policy.file_bytes)

    def _make_durable(self, filling: _Filling, position: tuple[int, int]) -> None:
        """Sync, unless another thread's sync has covered it."""
        with filling.syncing:
            if filling.synced >= position:
                return
            self._promise.check()
            with self._changed:
                written = filling.file.position
            self._promise.sync_bytes(filling.file.sync, filling.file.path.name)
            filling.synced = written

    # -- out -------------------------------------------------------------------------------

    def size(self, digest: Digest) -> int | None:
        with self._changed:
            filling = self._holding(digest)
            return None if filling is None else filling.records[digest].size_bytes

    def read(self, digest: Digest) -> tuple[Path, bytes] | None:
        """The bytes as they lie here, not hashed, and in which file; None if they do not."""
        with self._changed, storage_errors(self._directory):
            filling = self._holding(digest)
            if filling is None:
                return None
            return filling.file.path, filling.file.read(filling.records[digest])

    def records(self) -> dict[Digest, tuple[Path, Record]]:
        with self._changed:
            return {
                digest: (filling.file.path, record)
                for filling in self._fillings()
                for digest, record in filling.records.items()
            }

    def owns(self, path: Path) -> bool:
        with self._changed:
            return any(filling.file.path == path for filling in self._fillings())

    def _holding(self, digest: Digest) -> _Filling | None:
        return next((it for it in self._fillings() if digest in it.records), None)

    def _fillings(self) -> Iterator[_Filling]:
        return (it for it in (self._active, self._full, self._spare) if it is not None)

    # -- to files --------------------------------------------------------------------------

    def drain(self) -> None:
        """Give every object that is here a file of its own. Raises AttachstoreError."""
        with self._draining:
            while filling := self._next_to_settle():
                self._settle_all(filling)

    def _next_to_settle(self) -> _Filling | None:
        with self._changed:
            if self._full is None and self._active is not None and self._active.records:
                self._full, self._active = self._active, None
            return self._full

    def _settle_all(self, filling: _Filling) -> None:
        with storage_errors(self._directory):
            with self._changed:
                position = filling.file.position
            self._make_durable(filling, position)
            self._settle((it.digest, filling.file.read(it)) for it in [*filling.records.values()])
            with self._changed:
                filling.records.clear()
                self._full = None
                try:
                    filling.file.start_over()
                    spare, self._spare = self._spare, filling
                except (OSError, MemoryError):
                    spare = filling  # others go on finding its records while it is there
                self._changed.notify_all()
            if spare is not None:
                spare.file.remove()

    def _run(self) -> None:
        """In a thread of its own: drain when there is something to do, or nothing."""
        pause_s = 0.0
        while True:
            with self._changed:
                if pause_s:
                    self._changed.wait_for(lambda: self._closed, pause_s)
                elif self._wait_s() != 0 and not self._closed:
                    self._changed.wait(self._wait_s())
                if self._closed:
                    return
                if not pause_s and self._wait_s() != 0:
                    continue
            try:
                self.drain()
                pause_s = 0.0
            except StorePoisonedError:
                return  # what was acknowledged is in the file, for the next to open the store
            except AttachstoreError as error:
                _log.warning("objects stay in %s for now: %s", self._directory, error)
                pause_s = _RETRY_S

    def _wait_s(self) -> float | None:
        """Until when there is something to do: 0 now, None not before something changes."""
        if self._full is not None:
            return 0
        if self._active is None or not self._active.records:
            return None
        if self._active.file.room_bytes < self._active.file.size_bytes // 2:
            return 0
        idle_s = self._policy.idle_s
        due_s = min(self._last_s + idle_s, self._first_s + _IDLES_MAX * idle_s)
        return None if due_s == float("inf") else max(0.0, due_s - time.monotonic())

    def close(self) -> None:
        """Leave plain files only. Safe to repeat.

        Raises AttachstoreError if that failed: the objects lie in the intake's file, durably,
        and whoever opens the store next gives them theirs.
        """
        insisting(self._say_the_end)
        if self._thread is not None:
            self._thread.join()
        try:
            self.drain()
        except BaseException:
            self._let_go(remove=False)
            raise
        self._let_go(remove=True)

    def _end(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _let_go(self, *, remove: bool) -> None:
        with self._changed:
            fillings = [*self._fillings()]
            self._active = self._full = self._spare = None
        for filling in fillings:
            with contextlib.suppress(OSError):  # an empty one that stays is removed by the next
                if remove:
                    filling.file.remove()
                else:
                    filling.file.close()
