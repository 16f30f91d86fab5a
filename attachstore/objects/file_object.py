"""FileObject: one object's file, open for reading.

A stale handle (NFS: another client renamed over the file) is an invitation to open the name
again, once for each read; whoever reads verifies the bytes in any case.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from attachstore.disk import Disk, is_regular, layout_errors, leads_to, storage_errors, unavailable
from attachstore.errors import StoreLayoutError
from attachstore.objects.backend import StoredObject

T = TypeVar("T")

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


class FileObject(StoredObject):
    """Made by `open_object`."""

    def __init__(self, disk: Disk, path: Path | str, descriptor: int, size_bytes: int) -> None:
        self._disk = disk
        self._path = path
        self._descriptor: int | None = descriptor
        self._size_bytes = size_bytes

    @property
    def location(self) -> str:
        return place(self._path)

    @property
    def size(self) -> int:
        return self._size_bytes

    def read_into(self, buffer: memoryview, offset_bytes: int) -> int:
        return self._fresh(lambda it: self._disk.read_into(it, buffer, offset_bytes))

    def read(self, size_bytes: int, offset_bytes: int) -> bytes:
        return self._fresh(lambda it: self._disk.read(it, size_bytes, offset_bytes))

    def sync(self) -> None:
        """Raises OSError. After a failure the cached pages are dropped: they may be a lie."""
        descriptor = self._open_descriptor()
        try:
            self._disk.sync_file(descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                self._disk.drop_cache(descriptor)
            raise

    def status(self) -> os.stat_result:
        """Of the file that is open, whatever its name leads to by now. Raises OSError."""
        return self._disk.status_open(self._open_descriptor())

    def is_still_named(self) -> bool:
        """Whether the object's name leads to this very file. Raises OSError."""
        return leads_to(self._disk, Path(self._path), self._open_descriptor())

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            try:
                self._disk.close(descriptor)
            except (OSError, MemoryError) as error:
                raise unavailable(error, self._path) from error

    def _fresh(self, ask: Callable[[int], T]) -> T:
        """Ask of the descriptor; once more, of a new one, if another host has replaced the file."""
        try:
            return ask(self._open_descriptor())
        except (OSError, MemoryError) as error:
            self._reopen_if_stale(error)
        with storage_errors(self._path):
            return ask(self._open_descriptor())

    def _reopen_if_stale(self, error: OSError | MemoryError) -> None:
        """Open the name again if another host has replaced the file; else raise the error."""
        with storage_errors(self._path):
            if not (isinstance(error, OSError) and error.errno == errno.ESTALE):
                raise error
            fresh = self._disk.open_read(self._path)
            stale, self._descriptor = self._open_descriptor(), fresh
            self._disk.close(stale)

    def _open_descriptor(self) -> int:
        if self._descriptor is None:
            message = "the object is closed"
            raise ValueError(message)
        return self._descriptor


def open_object(disk: Disk, path: Path | str, *, fresh: bool = False) -> FileObject:
    """Open the file at `path`; `fresh` drops its cached pages first.

    The path as text is for those who open thousands: making a Path takes as long as opening it.

    Raises FileNotFoundError and other OSErrors, and StoreLayoutError for what is no file: at
    once, nothing here can block.
    """
    try:
        return _opened(disk, path, fresh=fresh)
    except OSError:
        with layout_errors(Path(path)):
            raise


def _opened(disk: Disk, path: Path | str, *, fresh: bool) -> FileObject:
    descriptor = retry_stale(lambda: disk.open_read(path))
    try:
        status = disk.status_open(descriptor)
        check_regular(status, path)
        if fresh:
            disk.drop_cache(descriptor)
        return FileObject(disk, path, descriptor, status.st_size)
    except BaseException:
        disk.close(descriptor)
        raise


def retry_stale(ask: Callable[[], T]) -> T:
    """Ask once more after ESTALE: the second look-up by name finds the new file."""
    try:
        return ask()
    except OSError as error:
        if error.errno != errno.ESTALE:
            raise
    return ask()


def check_regular(status: os.stat_result, path: Path | str) -> None:
    """Raises StoreLayoutError for anything but a plain file."""
    if not is_regular(status):
        raise StoreLayoutError(where=place(path), reason=f"it is {kind_of(status)}, not a file")


def kind_of(status: os.stat_result) -> str:
    return _KINDS.get(stat.S_IFMT(status.st_mode), "something unknown")


def place(path: Path | str) -> str:
    """A path for messages: undecodable and unprintable characters are escaped."""
    return ascii(str(path))[1:-1]
