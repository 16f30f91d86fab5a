"""Staging: writers' temporary files, on the store's own file system.

Invariants

 (1) A file without a name (unnamed.py) goes with its writer, however that ends. Where there are
     none, `spool-<random>` is held by an flock from before anybody relies on it until its writer
     closes it: whoever gets the lock and finds the name still leading to the locked file may
     remove it, since no live writer owns it.
 (2) `heal-<digest>-<random>` exists only while its maker holds the lock of the object's shard
     (`filesystem.py`), so one that is seen by another holder of that lock was left by a crash.
     Its bytes may be the only evidence of damage: it is moved into the quarantine, not removed.
 (3) A file whose sync failed is never synced again and never gets a final name: the kernel has
     dropped its dirty pages and says OK the second time.
"""

from __future__ import annotations

import contextlib
import io
import secrets
from collections.abc import Generator
from pathlib import Path

from attachstore.attachment import Content
from attachstore.digest import Digest, Hasher
from attachstore.disk import (
    Disk,
    ensure_directory,
    leads_to,
    read_all,
    remove_quietly,
    storage_errors,
    write_all,
)
from attachstore.errors import StorageIOError
from attachstore.objects.offset_reader import OffsetReader
from attachstore.unnamed import open_unnamed, unnamed_files_last

FILE_MODE = 0o444
"""Less the umask: objects are read-only from the moment they exist."""

SPOOL_PREFIX = "spool-"
HEAL_PREFIX = "heal-"

_READ_AHEAD_BYTES = 64 << 10
_WRITE_OUT_BYTES = 4 << 20


class Staging:
    """The staging directory of one store."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self.directory = directory
        self._has_unnamed: bool | None = None  # not known before the first file

    def new_file(self) -> StagedFile:
        """A new empty file that nobody else sees or removes. Raises OSError."""
        try:
            return self._new_file()
        except FileNotFoundError:
            # Some tools do not restore empty directories. Its name need not be durable: nothing
            # that is promised lies in it.
            ensure_directory(self._disk, self.directory)
            return self._new_file()

    def heal_path(self, digest: Digest) -> Path:
        return self.directory / f"{HEAL_PREFIX}{digest.hex}-{secrets.token_hex(8)}"

    def owns(self, staged: StagedFile) -> bool:
        """Whether the file was made here, so that it can be linked into this store."""
        return staged.home is self

    def is_stale(self, path: Path) -> bool:
        """Whether certainly no live writer owns the file at `path`. Raises OSError."""
        with self._unowned(path) as stale:
            return stale

    def sweep(self, path: Path) -> bool:
        """Remove the file at `path` if certainly no live writer owns it. Raises OSError."""
        with self._unowned(path) as stale:
            if not stale:
                return False
            try:
                self._disk.unlink(path)
            except FileNotFoundError:
                # Its writer, who found it locked, gave it up a moment before us.
                return False
            return True

    @contextlib.contextmanager
    def _unowned(self, path: Path) -> Generator[bool]:
        """Whether nobody holds the file; then we do, for the length of the block."""
        if not path.name.startswith(SPOOL_PREFIX):  # not held by a lock, so nothing is certain
            yield False
            return
        try:
            descriptor = self._disk.open_read(path)
        except FileNotFoundError:
            yield False
            return
        try:
            yield self._locked(descriptor) and leads_to(self._disk, path, descriptor)
        finally:
            self._disk.close(descriptor)

    def _locked(self, descriptor: int) -> bool:
        try:
            self._disk.lock(descriptor, exclusive=True, wait=False)
        except BlockingIOError:
            return False
        return True

    def _new_file(self) -> StagedFile:
        if self._has_unnamed is None:
            self._has_unnamed = unnamed_files_last(self._disk, self.directory)
        if self._has_unnamed:
            descriptor = open_unnamed(self._disk, self.directory, FILE_MODE)
            if descriptor is not None:
                return StagedFile(self, self._disk, descriptor, None)
            self._has_unnamed = False
        return self._named_file()

    def _named_file(self) -> StagedFile:
        while True:
            path = self.directory / f"{SPOOL_PREFIX}{secrets.token_hex(16)}"
            descriptor = self._disk.create(path, FILE_MODE)
            try:
                # A sweeper may have been faster than the lock: then start again.
                if self._locked(descriptor) and leads_to(self._disk, path, descriptor):
                    return StagedFile(self, self._disk, descriptor, path)
            except BaseException:
                remove_quietly(self._disk, path)
                self._disk.close(descriptor)
                raise
            remove_quietly(self._disk, path)
            self._disk.close(descriptor)


def healed_digest(path: Path) -> Digest | None:
    """The object that a healer's temporary file is about; None for other files."""
    if not path.name.startswith(HEAL_PREFIX):
        return None
    return Digest(path.name.removeprefix(HEAL_PREFIX).partition("-")[0])


class StagedFile:
    """A temporary file of one writer: filled from the front, synced, then linked."""

    def __init__(self, home: Staging, disk: Disk, descriptor: int, path: Path | None) -> None:
        self.home = home
        self._disk = disk
        self._descriptor: int | None = descriptor
        self._path = path
        self._lost = False
        self._synced = False
        self._on_its_way_bytes = 0
        self.size_bytes = 0

    def append(self, block: bytes | memoryview) -> None:
        """Raises OSError; the file is of no use then."""
        self._synced = False
        write_all(self._disk, self._open_descriptor(), block, self.size_bytes)
        self.size_bytes += len(block)
        if self.size_bytes - self._on_its_way_bytes >= _WRITE_OUT_BYTES:
            self.start_writeout()

    def start_writeout(self) -> None:
        """Put the disk to work before the sync that has to wait for it."""
        waiting_bytes = self.size_bytes - self._on_its_way_bytes
        self._disk.start_writeout(self._open_descriptor(), self._on_its_way_bytes, waiting_bytes)
        self._on_its_way_bytes = self.size_bytes

    def read(self, size_bytes: int, offset_bytes: int) -> bytes:
        return read_all(self._disk, self._open_descriptor(), size_bytes, offset_bytes)

    def read_into(self, buffer: memoryview, offset_bytes: int) -> int:
        return self._disk.read_into(self._open_descriptor(), buffer, offset_bytes)

    def sync(self) -> None:
        """Make the bytes durable, once. Raises OSError; StorageIOError ever after a failure."""
        if self._lost:
            raise StorageIOError(where=self.where, reason="an earlier sync of these bytes failed")
        if self._synced:
            return
        try:
            self._disk.sync_file(self._open_descriptor())
        except BaseException:
            self._lost = True
            raise
        self._synced = True

    def link_to(self, path: Path) -> None:
        """Give it a name that must be free. Raises FileExistsError and other OSErrors."""
        if self._path is None:
            self._disk.link_open_file(self._open_descriptor(), path)
        else:
            self._disk.link(self._path, path)

    def is_named(self, path: Path) -> bool:
        """Whether `path` leads to this file; False also if that can't be told."""
        with contextlib.suppress(OSError):
            return leads_to(self._disk, path, self._open_descriptor())
        return False

    def close(self) -> None:
        """Remove the temporary name, if any; safe to repeat. Links stay. Raises OSError."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            if self._path is not None:
                self._disk.unlink(self._path)
        finally:
            self._disk.close(descriptor)

    def fileno(self) -> int:
        return self._open_descriptor()

    @property
    def where(self) -> str:
        return "staging" if self._path is None else f"staging/{self._path.name}"

    def _open_descriptor(self) -> int:
        if self._descriptor is None:
            message = "the staged bytes are closed"
            raise ValueError(message)
        return self._descriptor


class FileSpool:
    """A Spool in a staged file."""

    def __init__(self, staged: StagedFile) -> None:
        self._staged = staged
        self._hasher = Hasher()
        self._finished = False

    def write(self, block: bytes | memoryview) -> None:
        with storage_errors(self._staged.where):
            self._staged.append(block)
        self._hasher.update(block)

    def finish(self) -> Content:
        self._finished = True
        return FileContent(self._staged, self._hasher.digest())

    def discard(self) -> None:
        if not self._finished:
            with contextlib.suppress(OSError):  # it is swept later; the caller has other worries
                self._staged.close()


class FileContent:
    """Content in a staged file. Publishing links that file: its bytes are not copied again."""

    def __init__(self, staged: StagedFile, digest: Digest) -> None:
        self.staged = staged
        self._digest = digest

    @property
    def digest(self) -> Digest:
        return self._digest

    @property
    def size(self) -> int:
        return self.staged.size_bytes

    def head(self, size: int) -> bytes:
        with storage_errors(self.staged.where):
            return self.staged.read(min(size, self.size), 0)

    def open(self) -> io.BufferedReader:
        reader = OffsetReader(self._read_into, self.size)
        return io.BufferedReader(reader, _READ_AHEAD_BYTES)

    def fileno(self) -> int:
        """The descriptor, for handing the bytes to a decoder's process without copying them."""
        return self.staged.fileno()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # it is swept later; published bytes are synced
            self.staged.close()

    def _read_into(self, buffer: memoryview, offset_bytes: int) -> int:
        with storage_errors(self.staged.where):
            return self.staged.read_into(buffer, offset_bytes)
