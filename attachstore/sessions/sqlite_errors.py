"""What SQLite's error codes mean for a caller of the store."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Generator
from pathlib import Path

from attachstore.errors import (
    AttachstoreError,
    ResourceExhaustedError,
    SessionBusyError,
    StorageFullError,
    StorageIOError,
    StorageReadOnlyError,
    StoreLayoutError,
)

_PRIMARY = 0xFF  # the other bits tell where inside SQLite it happened

_FULL = frozenset({sqlite3.SQLITE_FULL})
_READ_ONLY = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH})
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
_BROKEN = frozenset(
    {
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_ERROR,  # our statements are right, so the tables are not ours
        sqlite3.SQLITE_SCHEMA,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_FORMAT,
    }
)


@contextlib.contextmanager
def sqlite_errors(where: Path) -> Generator[None]:
    """Turn errors of SQLite and failed allocations into the package's own; others pass."""
    try:
        yield
    except sqlite3.Error as error:
        raise translated(error, str(where)) from error
    except MemoryError as error:
        raise ResourceExhaustedError(
            where=str(where), resource="memory", reason="SQLite could not allocate"
        ) from error


def translated(error: sqlite3.Error, where: str) -> AttachstoreError:
    """The error that tells a caller what to do about `error`."""
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    name: str = getattr(error, "sqlite_errorname", type(error).__name__)
    reason = f"{error} ({name})"
    primary = code & _PRIMARY
    if primary in _FULL:
        return StorageFullError(where=where, reason=reason)
    if primary in _READ_ONLY:
        return StorageReadOnlyError(where=where, reason=reason)
    if primary in _BUSY:
        holder = "another program that keeps the whole database locked"
        return SessionBusyError(where=where, session="(any)", holder=holder)
    if primary in _BROKEN:
        return StoreLayoutError(where=where, reason=f"the database is damaged: {reason}")
    if code == sqlite3.SQLITE_IOERR_NOMEM or primary == sqlite3.SQLITE_NOMEM:
        return ResourceExhaustedError(where=where, resource="memory", reason=reason)
    return StorageIOError(where=where, reason=reason)
