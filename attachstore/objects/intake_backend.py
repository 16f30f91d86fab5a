"""IntakeBackend: a store's files, and the objects that are still in somebody's intake.

    name an object:   its file  ─▶  our intake  ─▶  other processes' intakes  ─▶  its file again

The last look is no repetition: an object that was in an intake when its file was looked for may
have got its file, and left the intake, before the intake was looked at.

Invariants

 (1) What is taken in here, and what is found in a dead process's intake, ends up as a file: when
     nothing happens, on `drain` and `close`, and when the store is opened.
 (2) Bytes from an intake are copied out and hashed before anybody gets them; those of other
     processes are never vouched for: confirming one makes a file of it.
 (3) A store that is opened read-only reads intakes where they are, and replays nothing.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from attachstore.attachment import BytesContent, Content, Spool
from attachstore.digest import Digest
from attachstore.disk import Disk
from attachstore.errors import AttachstoreError, ObjectMissingError
from attachstore.errors.error import indexed
from attachstore.objects.backend import (
    Entry,
    EntryKind,
    Judge,
    QuarantineNote,
    StoredObject,
)
from attachstore.objects.file_object import place
from attachstore.objects.filesystem import FilesystemBackend
from attachstore.objects.intake import Intake, IntakePolicy, Objects
from attachstore.objects.other_intakes import OtherIntakes
from attachstore.objects.store import ObjectStore
from attachstore.threads import CancelFlag

DIRECTORY = "intake"
_OBJECT_MODE = 0o444
_FOUND_BY = "intake"
_log = logging.getLogger("attachstore")


class IntakeObject(StoredObject):
    """An object's bytes, copied out of an intake."""

    def __init__(self, data: bytes, location: str, *, is_own: bool) -> None:
        self._data = data
        self._location = location
        self.is_own = is_own

    @property
    def location(self) -> str:
        return self._location

    @property
    def size(self) -> int:
        return len(self._data)

    def read_into(self, buffer: memoryview, offset_bytes: int) -> int:
        block = self._data[offset_bytes : offset_bytes + len(buffer)]
        buffer[: len(block)] = block
        return len(block)

    def read(self, size_bytes: int, offset_bytes: int) -> bytes:
        return self._data[offset_bytes : offset_bytes + size_bytes]

    def close(self) -> None:
        return


class IntakeBackend:
    """An ObjectBackend: `files`, and in front of it an intake. With `intake` false those
    of others are found and replayed, and nothing new is taken in."""

    def __init__(
        self,
        files: FilesystemBackend,
        disk: Disk,
        *,
        intake: bool | IntakePolicy = True,
    ) -> None:
        self.files = files
        directory = files.root / DIRECTORY
        self._policy = intake if isinstance(intake, IntakePolicy) else IntakePolicy()
        self._own = Intake(disk, directory, files.promise, self._settle, self._policy)
        self._others = OtherIntakes(disk, directory, self._own.owns)
        self._takes_in = intake is not False

    @property
    def location(self) -> str:
        return self.files.location

    def path(self, digest: Digest) -> Path:
        """Where the object's file lies, or will."""
        return self.files.path(digest)

    # -- in --------------------------------------------------------------------------------

    def spool(self) -> Spool:
        return self.files.spool()

    def stage(self, digest: Digest, content: Content, cancel: CancelFlag | None = None) -> Content:
        if self._takes(content):
            return content
        return self.files.stage(digest, content, cancel)

    def publish(self, digest: Digest, content: Content, cancel: CancelFlag | None = None) -> bool:
        if not self._takes(content):
            return self.files.publish(digest, content, cancel)
        if self.files.size(digest) is not None:
            return False
        if cancel is not None:
            cancel.check()
        taken = self._own.put(digest, content.head(content.size))
        return self.files.publish(digest, content, cancel) if taken is None else taken

    def publish_many(
        self, contents: Iterable[Content], cancel: CancelFlag | None = None
    ) -> list[Content]:
        taken: list[Content] = []
        for_intake: list[Content] = []
        for_files: list[tuple[int, Content]] = []
        positions: dict[Digest, int] = {}
        for index, content in enumerate(contents):
            positions.setdefault(content.digest, index)
            with indexed(index):
                if not self._takes(content):
                    for_files.append((index, content))
                elif self.files.size(content.digest) is not None:
                    taken.append(content)
                else:
                    for_intake.append(content)
        if cancel is not None:
            cancel.check()
        objects = [(it.digest, it.head(it.size)) for it in for_intake]
        with indexed(min((positions[digest] for digest, _ in objects), default=0)):
            answers = self._own.put_many(objects)
        for content, answer in zip(for_intake, answers, strict=True):
            if answer is None:
                for_files.append((positions[content.digest], content))
            elif not answer:
                taken.append(content)
        try:
            taken += self.files.publish_many((it for _, it in for_files), cancel)
        except AttachstoreError as error:
            error.index = None if error.index is None else for_files[error.index][0]
            raise
        return taken

    def confirm(self, digest: Digest, stored: StoredObject) -> bool:
        self.files.check_writable()
        if not isinstance(stored, IntakeObject):
            return self.files.confirm(digest, stored)
        if stored.is_own:
            return self._own.confirm(digest)  # not if it has its file by now: look again
        # Another process's, which may yet fail to make it durable.
        return self.files.publish(digest, BytesContent(stored.read(stored.size, 0), digest))

    def heal(
        self, digest: Digest, content: Content, judge: Judge, cancel: CancelFlag | None = None
    ) -> bool:
        bad = self._taken_in(digest) if self.files.size(digest) is None else None
        if bad is not None and judge(bad) is not None:
            return self.files.publish(
                digest, content, cancel
            )  # found before the intake from now on
        return self.files.heal(digest, content, judge, cancel)

    def quarantine(self, digest: Digest, judge: Judge) -> bool:
        return self.files.quarantine(digest, judge)

    def _takes(self, content: Content) -> bool:
        return (
            self._takes_in
            and content.size <= self._policy.object_bytes_max
            and isinstance(content, BytesContent)
        )

    # -- out -------------------------------------------------------------------------------

    def open(self, digest: Digest, *, fresh: bool = False) -> StoredObject:
        try:
            return self.files.open(digest, fresh=fresh)
        except ObjectMissingError:
            if found := self._taken_in(digest):
                return found
        try:
            return self.files.open(digest, fresh=fresh)
        except ObjectMissingError:
            if rotten := self._others.rotten(digest):
                return _object(digest, *rotten)
            raise

    def near(self, digest: Digest) -> AbstractContextManager[None]:
        return self.files.near(digest)

    def size(self, digest: Digest) -> int | None:
        size_bytes = self.files.size(digest)
        if size_bytes is None:
            size_bytes = self._own.size(digest)
        if size_bytes is None:
            found = self._taken_in(digest) if self._others.exist() else None
            size_bytes = self.files.size(digest) if found is None else found.size
        return size_bytes

    def quarantined(self, digest: Digest) -> Iterator[StoredObject]:
        return self.files.quarantined(digest)

    def digests(self, prefix: str = "") -> Iterator[Digest]:
        # Asked for first: what leaves the intake meanwhile has its name by then.
        failures: list[AttachstoreError] = []
        waiting = sorted(it for it in self._waiting(failures) if it.hex.startswith(prefix))
        last = None
        for digest in heapq.merge(waiting, _until_failure(self.files.digests(prefix), failures)):
            if digest != last:
                yield digest
            last = digest
        for failure in failures:
            raise failure

    def entries(self) -> Iterator[Entry]:
        failures: list[AttachstoreError] = []
        waiting = self._waiting(failures)
        left = sorted(waiting, reverse=True)
        for entry in self.files.entries():
            if entry.path == DIRECTORY:
                failures.clear()  # the entry tells them
            if entry.kind is EntryKind.OBJECT and entry.digest is not None:
                while left and left[-1] <= entry.digest:
                    digest = left.pop()
                    if digest != entry.digest:
                        yield waiting[digest]
            elif entry.kind is not EntryKind.OBJECT and not entry.path.startswith("objects/"):
                while left:
                    yield waiting[left.pop()]
            yield entry
        while left:
            yield waiting[left.pop()]
        for failure in failures:
            yield Entry(
                kind=EntryKind.UNREADABLE, path=DIRECTORY, size_bytes=0, reason=str(failure)
            )

    def _taken_in(self, digest: Digest) -> IntakeObject | None:
        for is_own, intake in ((True, self._own), (False, self._others)):
            found = intake.read(digest)
            if found is not None:
                return _object(digest, *found, is_own=is_own)
        return None

    def _waiting(self, failures: list[AttachstoreError]) -> dict[Digest, Entry]:
        found = self._others.records(failures) | self._own.records()
        return {
            digest: Entry(
                kind=EntryKind.OBJECT,
                path=f"intake/{path.name}",
                size_bytes=record.size_bytes,
                digest=digest,
                mode=_OBJECT_MODE,
            )
            for digest, (path, record) in found.items()
        }

    # -- upkeep ----------------------------------------------------------------------------

    def replay(self) -> int:
        """Make files of what dead processes have left; returns how many objects that were.

        Where the medium refuses it stays where it is, and is found there.
        """
        try:
            return self._others.replay(self._settle, self._keep_aside)
        except AttachstoreError as error:
            _log.warning("objects stay in %s for now: %s", self.files.root / DIRECTORY, error)
            return 0

    def drain(self) -> None:
        """Leave plain files only, of what this handle has taken in."""
        self._own.drain()

    def sweep(self) -> list[Entry]:
        return self.files.sweep()

    def close(self) -> None:
        try:
            self._own.close()
        except Exception:
            self.files.close()
            raise
        self.files.close()  # not if that was interrupted: whoever repeats it needs the files

    def _settle(self, objects: Objects) -> None:
        """Give objects their files, durably. A name that is taken is judged, as by a commit."""
        try:
            taken = self.files.publish_many(self._whole(objects))
        except AttachstoreError as error:
            error.index = None  # nobody has given them here
            raise
        for content in taken:
            ObjectStore(self.files).restore(content, found_by=_FOUND_BY)

    def _whole(self, objects: Objects) -> Iterator[Content]:
        for digest, data in objects:
            if Digest.of(data) == digest:
                yield BytesContent(data, digest)
            else:  # must not keep the others from their files
                self._keep_aside(digest, data)

    def _keep_aside(self, digest: Digest, data: bytes) -> None:
        note = QuarantineNote(
            found_by=_FOUND_BY,
            expected=str(digest),
            actual=str(Digest.of(data)),
            size_bytes=len(data),
        )
        self.files.keep_aside(digest, data, note)
        _log.warning("the bytes of object %s have changed in the intake", digest)


def _object(digest: Digest, path: Path, data: bytes, *, is_own: bool = False) -> IntakeObject:
    return IntakeObject(data, f"{place(path)}:{digest.hex}", is_own=is_own)


def _until_failure(digests: Iterator[Digest], failures: list[AttachstoreError]) -> Iterator[Digest]:
    try:
        yield from digests
    except AttachstoreError as error:
        failures.append(error)
