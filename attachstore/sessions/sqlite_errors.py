"""What SQLite's error codes, and its age, mean for a caller of the store."""

from __future__ import annotations

import contextlib
import errno
import sqlite3
from collections.abc import Callable, Generator
from pathlib import Path

from attachstore.disk import UNSUPPORTED, Disk, unavailable
from attachstore.errors import (
    AttachstoreError,
    MissingDependencyError,
    ResourceExhaustedError,
    SessionBusyError,
    StorageFullError,
    StorageIOError,
    StorageReadOnlyError,
    StoreLayoutError,
)

FAILURES = (sqlite3.Error, MemoryError, UnicodeDecodeError)
"""What sqlite3 raises. The last where SQLite's message quotes a damaged schema."""

_SQLITE_MIN = (3, 37, 0)  # STRICT tables
_PRIMARY = 0xFF  # the other bits tell where inside SQLite it happened

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
# SHMMAP: its index of the WAL could not be mapped.
_NO_MEMORY = {sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_IOERR_NOMEM, sqlite3.SQLITE_IOERR_SHMMAP}
_FILES_OF_SQLITE = 3  # beside the database: its WAL, the index of that, and the directory
_NO_CAUSE = UNSUPPORTED | {errno.ENOENT, errno.EISDIR}  # a file system without unnamed files, too
_KINDS: dict[int, Callable[..., AttachstoreError]] = {
    sqlite3.SQLITE_FULL: StorageFullError,
    sqlite3.SQLITE_READONLY: StorageReadOnlyError,
    sqlite3.SQLITE_PERM: StorageReadOnlyError,
    sqlite3.SQLITE_AUTH: StorageReadOnlyError,
    sqlite3.SQLITE_CORRUPT: StoreLayoutError,
    sqlite3.SQLITE_NOTADB: StoreLayoutError,
    sqlite3.SQLITE_ERROR: StoreLayoutError,  # our statements are right, so the tables are not ours
    sqlite3.SQLITE_SCHEMA: StoreLayoutError,
    sqlite3.SQLITE_MISMATCH: StoreLayoutError,
    sqlite3.SQLITE_CONSTRAINT: StoreLayoutError,
    sqlite3.SQLITE_FORMAT: StoreLayoutError,
}


@contextlib.contextmanager
def sqlite_errors(where: Path) -> Generator[None]:
    """Turn errors of SQLite and failed allocations into the package's own; others pass."""
    try:
        yield
    except FAILURES as error:
        raise translated(error, str(where)) from error


def translated(error: Exception, where: str) -> AttachstoreError:
    """The error that tells a caller what to do about `error`, one of `FAILURES`."""
    if isinstance(error, UnicodeDecodeError):
        return StoreLayoutError(where=where, reason="its tables are not ours, or damaged")
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    name: str = getattr(error, "sqlite_errorname", type(error).__name__)
    reason = f"{error or 'SQLite failed'} ({name})"
    primary = code & _PRIMARY
    if code in _NO_MEMORY or isinstance(error, MemoryError):
        return ResourceExhaustedError(where=where, resource="memory", reason=reason)
    if primary in _BUSY:
        holder = "another program that keeps the whole database locked"
        return SessionBusyError(where=where, session="(any)", holder=holder)
    if code == sqlite3.SQLITE_IOERR_SHMSIZE:  # it could not make its index of the WAL larger
        return StorageFullError(where=where, reason=reason)
    if primary == sqlite3.SQLITE_CANTOPEN and (cause := _why_not_opened(Path(where))) is not None:
        return unavailable(cause, where)
    return _KINDS.get(primary, StorageIOError)(where=where, reason=reason)


def _why_not_opened(path: Path) -> OSError | None:
    """What the operating system says to the opening of the files that SQLite opens; None: nothing.

    SQLite says "unable to open database file" of a limit on descriptors, of a file system without
    inodes and of one that is read-only.
    """
    disk = Disk()
    opened: list[int] = []
    try:
        opened.append(disk.open_read(path))  # SQLite is content with that
        for _ in range(_FILES_OF_SQLITE):
            opened.append(disk.open_temporary(path.parent, 0o600))  # noqa: PERF401 - kept one by one
    except OSError as error:
        return None if error.errno in _NO_CAUSE else error
    finally:
        for descriptor in opened:
            disk.close(descriptor)
    return None


def check_library(path: Path) -> None:
    """Raises MissingDependencyError if SQLite is too old for the file at `path`."""
    if sqlite3.sqlite_version_info < _SQLITE_MIN:
        raise MissingDependencyError(
            where=str(path),
            package="SQLite 3.37",
            reason=f"Python's sqlite3 module is linked with {sqlite3.sqlite_version}",
            command="upgrade the system's SQLite library (libsqlite3-0)",
        )
