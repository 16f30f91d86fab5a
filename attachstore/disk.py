"""Disk: the operating system's calls, one method each, and the few durable steps built on them.

This is the seam where tests inject faults, record the order of calls and pull the plug; nothing
else in the package calls `os` on stored data. A Disk is stateless and may be used from any
thread. Its methods raise OSError; `storage_errors` turns that into the package's own errors at
the edge of each medium.

Rules, forced by experiment (docs/explanation/durability.md):

 (1) Bytes are durable after `sync_file` on them AND `sync_directory` on the directory that holds
     their name. Neither implies the other.
 (2) A failed sync is never retried: the kernel has dropped the dirty pages and says OK the
     second time. The file is thrown away and the whole write starts again.
 (3) Only ENOENT and EEXIST are answers. Every other error is an error, never "absent".
 (4) A write may be short, so `write_all` loops.
 (5) Below the root of a store no link is followed, by any call and at any depth.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import stat
import sys
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, NoReturn

from attachstore.confinement import Confined, OutOfPlaceError, Place, UnreadableError, listed
from attachstore.errors import (
    AttachstoreError,
    ResourceExhaustedError,
    StorageFullError,
    StorageIOError,
    StorageReadOnlyError,
    StorageUnsupportedError,
    StoreLayoutError,
    UnavailableError,
)
from attachstore.libc import libc_function

BLOCK_BYTES = 1 << 20
"""Unit of reading, writing and looking at cancel flags."""

_AT_FDCWD = -2 if sys.platform == "darwin" else -100
_RENAME_EXCHANGE = 2  # Linux RENAME_EXCHANGE and macOS RENAME_SWAP have the same value
_SYNC_FILE_RANGE_WRITE = 2
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_EXHAUSTED = {errno.EMFILE: "descriptors", errno.ENFILE: "descriptors", errno.ENOMEM: "memory"}
_MISPLACED = {
    errno.ELOOP: "it is a symbolic link",  # what O_NOFOLLOW says
    errno.ENXIO: "it is a socket or a device",
    errno.EISDIR: "it is a directory",
    errno.ENOTDIR: "one of its directories is not a directory",
}
UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


class Disk(Confined):
    """The real disk. Offsets are explicit everywhere, so descriptors can be shared by threads."""

    # -- opening ---------------------------------------------------------------------------

    def open_temporary(self, directory: Path, mode: int) -> int:
        """Open a new file without a name in `directory`. Raises OSError where there are none."""
        flag = getattr(os, "O_TMPFILE", 0)
        if not flag:
            raise OSError(errno.EOPNOTSUPP, "no unnamed temporary files here", str(directory))
        return self._open(directory, flag | os.O_RDWR, mode)

    def create(self, path: Path, mode: int) -> int:
        """Create `path` for reading and writing. Raises FileExistsError, also for a link."""
        return self._open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)

    def open_read(self, path: Path | str) -> int:
        """Open stored data. Refuses a link (ELOOP); a FIFO does not block: check the status."""
        return self._open(path, os.O_RDONLY | os.O_NONBLOCK)

    def open_write(self, path: Path) -> int:
        """Open stored data for reading and writing; it must exist and be no link."""
        return self._open(path, os.O_RDWR | os.O_NONBLOCK)

    def open_lock(self, path: Path) -> int:
        """Open or create a lock file."""
        return self._open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o644)

    def open_directory(self, path: Path) -> int:
        return self._open(path, os.O_RDONLY | os.O_DIRECTORY)

    def _open(self, path: Path | str, flags: int, mode: int = 0) -> int:
        reads = not flags & (os.O_ACCMODE | os.O_CREAT)
        with Place(self._confinement, path, opens=True, reads=reads) as (name, parent):
            return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=parent)

    def open_source(self, path: Path) -> int:
        """Open a user's file; links are followed, nothing blocks, no terminal is taken over."""
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    # -- bytes -----------------------------------------------------------------------------

    def read_into(self, descriptor: int, buffer: memoryview | bytearray, offset_bytes: int) -> int:
        """Fill the front of `buffer` from `offset_bytes`; 0 at the end. May be short."""
        return os.preadv(descriptor, [buffer], offset_bytes)

    def read(self, descriptor: int, size_bytes: int, offset_bytes: int) -> bytes:
        """Up to `size_bytes` from `offset_bytes`; b"" at the end. May be short.

        For bytes that are kept: they come without a buffer that was cleared before, and copied
        after.
        """
        return os.pread(descriptor, size_bytes, offset_bytes)

    def write(self, descriptor: int, data: bytes | memoryview, offset_bytes: int) -> int:
        """One write call; returns how many bytes went in. Use `write_all`."""
        return os.pwrite(descriptor, data, offset_bytes)

    def truncate(self, descriptor: int, size_bytes: int) -> None:
        os.ftruncate(descriptor, size_bytes)

    def start_writeout(self, descriptor: int, offset_bytes: int, size_bytes: int) -> None:
        """Let write-back begin; promises nothing.

        WRITE only: with the WAIT flags an I/O error would be reported here and then be missing
        from the fsync that decides.
        """
        call = libc_function("sync_file_range", ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
        if call is not None:
            call(descriptor, offset_bytes, size_bytes, _SYNC_FILE_RANGE_WRITE)

    def drop_cache(self, descriptor: int) -> None:
        """Forget cached clean pages, so that the next read comes from the medium."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    # -- durability ------------------------------------------------------------------------

    def sync_file(self, descriptor: int) -> None:
        """Bytes and size survive power loss once this returns."""
        _full_sync(descriptor, os.fsync)

    def sync_data(self, descriptor: int) -> None:
        """As `sync_file`, without times and modes: for appends."""
        _full_sync(descriptor, getattr(os, "fdatasync", os.fsync))

    def sync_directory(self, path: Path) -> None:
        """Names in `path` survive power loss once this returns."""
        descriptor = self.open_directory(path)
        try:
            _full_sync(descriptor, os.fsync)
        finally:
            os.close(descriptor)

    # -- names -----------------------------------------------------------------------------

    def link_open_file(self, descriptor: int, path: Path) -> None:
        """Give an unnamed file its name. Raises FileExistsError rather than replace."""
        # Without src_dir_fd (any value) Python calls link(), which follows nothing in /proc: EXDEV.
        source = f"/proc/self/fd/{descriptor}"
        with Place(self._confinement, path) as (name, parent):
            os.link(source, name, src_dir_fd=descriptor, dst_dir_fd=parent, follow_symlinks=True)

    def link(self, path: Path, new_path: Path) -> None:
        """Give a file a second name. Raises FileExistsError rather than replace."""
        with self._both(path, new_path) as ((old, home), (new, parent)):
            os.link(old, new, src_dir_fd=home, dst_dir_fd=parent, follow_symlinks=False)

    def rename(self, path: Path, new_path: Path) -> None:
        """Atomically; what was at `new_path` is gone."""
        with self._both(path, new_path) as ((old, home), (new, parent)):
            os.rename(old, new, src_dir_fd=home, dst_dir_fd=parent)

    def exchange(self, path: Path, other_path: Path) -> None:
        """Swap two names atomically. Raises OSError (UNSUPPORTED) where it is not possible."""
        name = "renameatx_np" if sys.platform == "darwin" else "renameat2"
        kinds = (ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
        call = libc_function(name, *kinds)
        if call is None:
            raise OSError(errno.ENOSYS, "names cannot be exchanged here", str(path))
        with self._both(path, other_path) as ((one, home), (other, parent)):
            source = (_AT_FDCWD if home is None else home, os.fsencode(one))
            target = (_AT_FDCWD if parent is None else parent, os.fsencode(other))
            failed = call(*source, *target, _RENAME_EXCHANGE)
        if failed:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path), None, str(other_path))

    def unlink(self, path: Path) -> None:
        """Raises FileNotFoundError."""
        with Place(self._confinement, path) as (name, parent):
            os.unlink(name, dir_fd=parent)

    def make_directory(self, path: Path) -> None:
        """Raises FileExistsError. The mode is 0777 less the umask, less group and world write."""
        self.refuse_gone(path)
        with Place(self._confinement, path) as (name, parent):
            os.mkdir(name, 0o755, dir_fd=parent)

    def remove_directory(self, path: Path) -> None:
        with Place(self._confinement, path) as (name, parent):
            os.rmdir(name, dir_fd=parent)

    # -- asking ----------------------------------------------------------------------------

    def status(self, path: Path) -> os.stat_result:
        """Of the name itself: a link is a link. Raises FileNotFoundError."""
        with Place(self._confinement, path, reads=True) as (name, parent):
            return os.stat(name, dir_fd=parent, follow_symlinks=False)

    def statuses(self, directory: Path, names: Iterable[str]) -> list[os.stat_result]:
        """Of each name in a directory, as `status`. Raises OSError for the first it fails for."""
        descriptor = self.open_directory(directory)
        try:
            return [os.stat(name, dir_fd=descriptor, follow_symlinks=False) for name in names]
        finally:
            os.close(descriptor)

    def status_followed(self, path: Path) -> os.stat_result:
        """Of what a user's path leads to."""
        with Place(None, path, reads=True) as (name, _):
            return os.stat(name)  # noqa: PTH116 - Path.stat is the same call, this is the seam

    def status_open(self, descriptor: int) -> os.stat_result:
        return os.fstat(descriptor)

    def may_write(self, directory: Path) -> bool:
        """Whether names may be given in it, by its permissions and by what it lies on."""
        effective = os.access in os.supports_effective_ids
        with Place(self._confinement, directory) as (name, parent):
            return os.access(name, os.W_OK, dir_fd=parent, effective_ids=effective)

    def names(self, path: Path) -> list[str]:
        """The names in a directory, in ascending order of their bytes."""
        with Place(self._confinement, path, reads=True) as (name, parent):
            return sorted(listed(name, parent), key=os.fsencode)

    def lock(self, descriptor: int, *, exclusive: bool, wait: bool) -> None:
        """flock. Raises BlockingIOError if it is held and `wait` is false."""
        operation = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        fcntl.flock(descriptor, operation | (0 if wait else fcntl.LOCK_NB))


class WeakDisk(Disk):
    """A disk whose file system may refuse to sync: `weak_durability=True`. Promises less."""

    def sync_file(self, descriptor: int) -> None:
        _ignoring_unsupported(super().sync_file, descriptor)

    def sync_data(self, descriptor: int) -> None:
        _ignoring_unsupported(super().sync_data, descriptor)

    def sync_directory(self, path: Path) -> None:
        _ignoring_unsupported(super().sync_directory, path)


class ReadOnlyDisk(Disk):
    """A disk that changes nothing, for stores opened read-only: each changing call is EROFS."""

    def _refuse(self, *_arguments: Any, **_options: Any) -> NoReturn:
        raise OSError(errno.EROFS, "opened read-only")

    open_temporary = create = open_write = open_lock = _refuse
    write = truncate = link_open_file = link = rename = exchange = _refuse
    unlink = make_directory = remove_directory = _refuse

    def may_write(self, directory: Path) -> bool:  # noqa: ARG002 - for none
        return False


def _ignoring_unsupported(sync: Callable[[Any], None], target: int | Path) -> None:
    try:
        sync(target)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise


def _full_sync(descriptor: int, sync: Callable[[int], None]) -> None:
    """fsync on macOS stops at the drive's cache; F_FULLFSYNC goes through it."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is None:
        sync(descriptor)
    else:
        fcntl.fcntl(descriptor, full)


# -- steps built on the calls ------------------------------------------------------------------


def write_all(disk: Disk, descriptor: int, data: bytes | memoryview, offset_bytes: int) -> None:
    """Write all of `data`, however short the single writes are."""
    view = memoryview(data)
    while view:
        written = disk.write(descriptor, view[:BLOCK_BYTES], offset_bytes)
        if written == 0:
            raise OSError(errno.EIO, "a write of 0 bytes")
        offset_bytes += written
        view = view[written:]


def read_all(disk: Disk, descriptor: int, size_bytes: int, offset_bytes: int = 0) -> bytes:
    """Read up to `size_bytes` from `offset_bytes`; less only at the end of the file."""
    data = disk.read(descriptor, size_bytes, offset_bytes)
    while data and len(data) < size_bytes:
        more = disk.read(descriptor, size_bytes - len(data), offset_bytes + len(data))
        if not more:
            break
        data += more
    return data


def is_regular(status: os.stat_result) -> bool:
    """Whether a status is that of a plain file."""
    return stat.S_ISREG(status.st_mode)


def leads_to(disk: Disk, path: Path, descriptor: int) -> bool:
    """Whether `path` still names the open file: somebody may have removed or replaced it."""
    ours = disk.status_open(descriptor)
    try:
        theirs = disk.status(path)
    except FileNotFoundError:
        return False
    return (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino)


def ensure_directory(disk: Disk, path: Path) -> None:
    """Make `path` unless it is there. Its parent is not synced: the caller does that."""
    with contextlib.suppress(FileExistsError):
        disk.make_directory(path)


def remove_quietly(disk: Disk, path: Path) -> None:
    """Clean-up on the way out of an error that matters more."""
    with contextlib.suppress(OSError):
        disk.unlink(path)


@contextlib.contextmanager
def storage_errors(where: Path | str) -> Generator[None]:
    """Turn OSError and MemoryError from a medium into the package's own errors.

    FileNotFoundError and FileExistsError are answers: whoever expects one handles it inside the
    block. One that nobody expected is an error like any other.
    """
    try:
        yield
    except AttachstoreError:
        raise
    except OutOfPlaceError as error:
        raise error.told() from error
    except (OSError, MemoryError) as error:
        raise unavailable(error, where) from error


@contextlib.contextmanager
def layout_errors(path: Path) -> Generator[None]:
    """Turn the errors that only a broken layout can cause into StoreLayoutError.

    Inside a block of `storage_errors`, and for the store's own paths only: a user's path may be
    anything.
    """
    try:
        yield
    except OutOfPlaceError as error:
        raise error.told() from error
    except OSError as error:
        reason = _MISPLACED.get(error.errno or 0)
        if reason is None:
            raise
        raise StoreLayoutError(where=ascii(str(path))[1:-1], reason=reason) from error


def unavailable(error: OSError | MemoryError, where: Path | str) -> UnavailableError:
    """The error that tells a caller what an operating system's error means for them."""
    place = ascii(str(where))[1:-1]
    if isinstance(error, MemoryError):
        return ResourceExhaustedError(where=place, resource="memory", reason="allocation failed")
    number = error.errno or 0
    reason = f"{os.strerror(number)} ({errno.errorcode.get(number, number)})"
    if number in _EXHAUSTED:
        return ResourceExhaustedError(where=place, resource=_EXHAUSTED[number], reason=reason)
    if number in FULL:
        return StorageFullError(where=place, reason=reason)
    if number in _READ_ONLY:
        reading = isinstance(error, UnreadableError)
        return StorageReadOnlyError(where=place, reason=reason, reading=reading)
    if number in UNSUPPORTED or number == errno.EXDEV:
        return StorageUnsupportedError(where=place, reason=reason)
    return StorageIOError(where=place, reason=reason)
