"""FilesystemBackend: objects as plain read-only files on a local file system.

    objects/blake3/<2 hex>/<64 hex>    the raw bytes, mode 0444 less the umask
    staging/                           temporary files (staging.py)
    quarantine/                        bad bytes and notes (quarantine.py)

docs/reference/formats-objects.md has the whole format. Definitions: the *shard* of an object is
the directory that holds its name; a name is *visible* when others can open it, and *durable*
when the file's bytes and the shard have been synced since the name appeared.

Invariants

 (1) A name becomes visible after its bytes are synced (`publish`, `heal`), so whatever is
     visible is whole, in every process and after every crash.
 (2) A name is given with link, which refuses to replace; a good object is never replaced, so
     readers keep what they opened.
 (3) A name is taken from bad bytes only, under an exclusive flock on the shard and after judging
     them once more under it (healing.py); healing swaps, so the name is never absent.
 (4) After a failed sync of something visible the handle is poisoned (promise.py).
 (5) Reading needs no lock, creates nothing and works on a read-only medium.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self

from attachstore.attachment import Content, Spool
from attachstore.digest import ALGORITHM, Digest
from attachstore.disk import Disk, ensure_directory, layout_errors, storage_errors
from attachstore.errors import (
    ObjectMissingError,
    StorageReadOnlyError,
)
from attachstore.objects.backend import Entry, EntryKind, Judge, QuarantineNote, StoredObject
from attachstore.objects.file_object import (
    FileObject,
    check_regular,
    open_object,
    place,
    retry_stale,
)
from attachstore.objects.healing import Healing
from attachstore.objects.inventory import SHARDS, Inventory
from attachstore.objects.publication import Publication
from attachstore.objects.quarantine import Quarantine
from attachstore.objects.settled import Settled, state_of
from attachstore.objects.staging import (
    FileSpool,
    Staging,
    healed_digest,
)
from attachstore.promise import Promise
from attachstore.threads import CancelFlag


class FilesystemBackend:
    """An ObjectBackend in a directory. Opening one touches nothing."""

    def __init__(self, root: Path, disk: Disk) -> None:
        self.root = root
        self._disk = disk
        disk.confine(root)
        self._objects = root / "objects" / ALGORITHM
        self._staging = Staging(disk, root / "staging")
        self._quarantine = Quarantine(disk, root / "quarantine", self._staging)
        self._inventory = Inventory(disk, root)
        self.promise = Promise(disk, place(root))
        self._publication = Publication(disk, self._objects, self._staging, self.promise)
        self._healing = Healing(disk, self._staging, self._quarantine, self.promise)
        self._settled = Settled()
        self._closed = False

    @classmethod
    def create(cls, root: Path, disk: Disk) -> Self:
        """Make what is missing of the layout, durably, and open it.

        Of two processes that do this at once, each syncs everything: neither relies on what the
        other has not finished.
        """
        objects = root / "objects"
        shards = [objects / ALGORITHM / shard for shard in SHARDS]
        others = [root / "staging", root / "quarantine"]
        tree = [root, objects, objects / ALGORITHM, *shards, *others]
        with storage_errors(root), layout_errors(root):
            for directory in tree:
                ensure_directory(disk, directory)
            for directory in [*reversed(tree), root.parent]:
                disk.sync_directory(directory)
        return cls(root, disk)

    @property
    def location(self) -> str:
        return place(self.root)

    def path(self, digest: Digest) -> Path:
        """Where the object lies, or would."""
        return self._publication.path(digest)

    # -- in --------------------------------------------------------------------------------

    def spool(self) -> Spool:
        self.check_writable()
        with storage_errors(self._staging.directory):
            return FileSpool(self._staging.new_file())

    def stage(self, digest: Digest, content: Content, cancel: CancelFlag | None = None) -> Content:
        self.check_writable()
        if self.size(digest) is not None:
            return content  # a duplicate is not written
        return self._publication.stage(digest, content, cancel)

    def publish(self, digest: Digest, content: Content, cancel: CancelFlag | None = None) -> bool:
        self.check_writable()
        if self.size(digest) is not None:  # saves a duplicate the writing; the link decides
            return False
        return self._publication.publish(digest, content, cancel)

    def publish_many(
        self, contents: Iterable[Content], cancel: CancelFlag | None = None
    ) -> list[Content]:
        self.check_writable()
        return self._publication.publish_many(contents, self._is_taken, cancel)

    def keep_aside(self, digest: Digest, data: bytes, note: QuarantineNote) -> None:
        """Put bytes that are not what `digest` says, and lie under no name, into quarantine."""
        self.check_writable()
        with storage_errors(self._quarantine.directory):
            path = self._quarantine.prepare(digest, note)
            staged = self._staging.new_file()
            try:
                staged.append(data)
                staged.sync()
                staged.link_to(path)
            finally:
                staged.close()
            self.promise.sync_directory(path.parent)

    def confirm(self, digest: Digest, stored: StoredObject) -> bool:
        self.check_writable()
        if not isinstance(stored, FileObject):
            message = f"not an object of this store: {stored!r}"
            raise TypeError(message)
        path = self.path(digest)
        with storage_errors(path):
            if not self._disk.may_write(path.parent):  # a sync says OK there, and new bytes do not
                raise StorageReadOnlyError(
                    where=place(path.parent), reason="names cannot be given there any more"
                )
            seen_ns = time.time_ns()  # before the state: what changes during the syncs is fresh
            above = [self._disk.status(path.parent), self._disk.status(self._objects)]
            state = state_of([stored.status(), *above])
            if not self._settled.is_settled(digest, state):
                self.promise.sync_bytes(stored.sync, stored.location)
                self.promise.sync_directory(path.parent)
                # The shard's own name too: whoever restored a part of a store may not have synced.
                self.promise.sync_directory(self._objects)
            if not stored.is_still_named():
                return False
            self._settled.remember(digest, state, seen_ns)
            return True

    def heal(
        self, digest: Digest, content: Content, judge: Judge, cancel: CancelFlag | None = None
    ) -> bool:
        self.check_writable()
        path = self.path(digest)
        with storage_errors(path), self._publication.staged(digest, content, cancel) as staged:
            staged.sync()
            return self._healing.heal(digest, path, staged, judge)

    def quarantine(self, digest: Digest, judge: Judge) -> bool:
        self.check_writable()
        path = self.path(digest)
        with storage_errors(path):
            return self._healing.quarantine(digest, path, judge)

    # -- out -------------------------------------------------------------------------------

    def open(self, digest: Digest, *, fresh: bool = False) -> StoredObject:
        self.check_open()
        path = self._publication.path_text(digest)
        try:
            return open_object(self._disk, path, fresh=fresh)
        except FileNotFoundError:
            raise ObjectMissingError(where=place(path), digest=str(digest)) from None
        except (OSError, MemoryError):
            with storage_errors(path):
                raise

    def near(self, digest: Digest) -> AbstractContextManager[None]:
        return self._disk.holding(self._publication.shard(digest))

    def size(self, digest: Digest) -> int | None:
        self.check_open()
        path = self.path(digest)
        with storage_errors(path), layout_errors(path):
            try:
                status = retry_stale(lambda: self._disk.status(path))
            except FileNotFoundError:
                return None
            check_regular(status, path)
            return status.st_size

    def quarantined(self, digest: Digest) -> Iterator[StoredObject]:
        self.check_open()
        with storage_errors(self._quarantine.directory):
            yield from self._quarantine.copies(digest)

    def digests(self, prefix: str = "") -> Iterator[Digest]:
        self.check_open()
        return self._inventory.digests(prefix)

    def entries(self) -> Iterator[Entry]:
        self.check_open()
        return self._inventory.entries(self._is_stale)

    # -- upkeep ----------------------------------------------------------------------------

    def sweep(self) -> list[Entry]:
        self.check_writable()
        # Names of temporary files need no escaping, so the entry's path is the real one.
        return [
            entry
            for entry in self._inventory.staging(lambda _: False)
            if entry.kind is EntryKind.STAGING and self._swept(self.root / entry.path, entry.digest)
        ]

    def close(self) -> None:
        self._closed = True

    # -- steps -----------------------------------------------------------------------------

    def _is_taken(self, digest: Digest) -> bool:
        return self.size(digest) is not None

    def _is_stale(self, path: Path) -> bool:
        """Whether a temporary file certainly belongs to no live writer."""
        digest = healed_digest(path)
        with storage_errors(path):
            if digest is not None:
                return self._healing.is_idle(self.path(digest).parent)
            return self._staging.is_stale(path)

    def _swept(self, path: Path, digest: Digest | None) -> bool:
        with storage_errors(path):
            if digest is not None:
                return self._healing.sweep(digest, path, self.path(digest).parent)
            return self._staging.sweep(path)

    def check_open(self) -> None:
        if self._closed:
            message = "the store is closed"
            raise ValueError(message)

    def check_writable(self) -> None:
        self.check_open()
        self.promise.check()
