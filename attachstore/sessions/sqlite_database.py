"""Database: one SQLite file, its format, its settings and its connections.

SQLite does its own reading, writing and syncing; what this module owns is that nobody uses the
file with other settings, in another format, or with another program's data in it.

Invariants

 (1) `sessions.db` appears whole: its first bytes are built in memory, synced under no name, and
     linked. So a file of that name which is not ours never was.
 (2) Every connection is asked after it was set: WAL, synchronous=FULL, our application_id, our
     format. None is used that answers anything else.
 (3) The write-ahead log that a dead process left is synced, and its cached pages dropped, before
     SQLite reads it: a commit is believed only if the disk has it. Commits of live processes are
     synced before SQLite shows them. The same is done after a write that failed: ext4 may say OK
     to a sync of pages that are written a second time after their first writing failed, and not
     have written them.
 (4) One connection writes, under a lock, one transaction at a time; it is thrown away after an
     error. Readers borrow one connection for one call, so a connection is never used by two
     threads at once, and no read transaction outlives a call.
 (5) No sqlite3.Error leaves this module.
 (6) Whoever can make no files for SQLite reads as a `Snapshot` does: sqlite_snapshot.py.
 (7) The file is not moved away by a conversion while a connection that may write is open:
     SQLite finds the write-ahead log by its name, and the last to close removes it by its name.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Generator
from pathlib import Path
from urllib.parse import quote

from attachstore.confinement import refuse_second_name
from attachstore.disk import Disk, ReadOnlyDisk, ensure_directory, is_regular, storage_errors
from attachstore.errors import (
    AttachstoreError,
    StorageReadOnlyError,
    StorageUnsupportedError,
    StoreForeignError,
    StoreLayoutError,
    StoreVersionError,
)
from attachstore.sessions.claims import Claims
from attachstore.sessions.new_log import NewLog
from attachstore.sessions.sqlite_errors import FAILURES, check_library, sqlite_errors
from attachstore.sessions.sqlite_format import (
    APPLICATION_ID,
    MIGRATIONS,
    Migration,
    first_bytes,
)
from attachstore.sessions.sqlite_reading import Reading
from attachstore.sessions.sqlite_snapshot import Snapshot, open_to_read

BUSY_TIMEOUT_S = 30.0
_WAL_SUFFIX = "-wal"
_SUFFIXES = ("", _WAL_SUFFIX, "-shm", "-journal")

_open_databases: weakref.WeakSet[Database] = weakref.WeakSet()
_abandoned: list[sqlite3.Connection] = []


class Database:
    """May be used from any thread. Making one touches nothing. Dead in a forked child."""

    def __init__(
        self,
        path: Path,
        disk: Disk,
        claims: Claims | None = None,
        *,
        migrations: tuple[Migration, ...] = MIGRATIONS,
    ) -> None:
        """`claims` are joined while there are connections: see invariant (7)."""
        self.path = path
        self._disk = disk
        self._migrations = migrations
        self._claims = claims
        self._has_joined = False
        self._inode: int | None = None
        self._is_read_only = isinstance(disk, ReadOnlyDisk)
        self._idle: list[sqlite3.Connection] = []
        self._writer: sqlite3.Connection | None = None
        self._guard = threading.Lock()  # of _idle, _ready and _closed
        self._write_lock = threading.Lock()
        self._ready = False
        self._closed = False
        _open_databases.add(self)

    @property
    def format(self) -> int:
        return len(self._migrations)

    def create(self) -> None:
        """Make the file, whole and durable; it may exist already. Its directory must be there."""
        check_library(self.path)
        with storage_errors(self.path):
            staging = self.path.parent / "staging"
            ensure_directory(self._disk, staging)
            new = NewLog(self._disk, staging)
            try:
                new.fill([first_bytes(self._migrations)])
                with contextlib.suppress(FileExistsError):
                    new.publish(self.path)
            finally:
                new.abandon()
            self._disk.sync_directory(self.path.parent)
        with self.reading():
            pass  # what is there now may be another's

    def reading(self) -> Reading:
        """A connection that writes nothing, for one call."""
        return Reading(self)

    @contextlib.contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """One transaction; it is durable when the block is left, or has not happened.

        Only after a failed commit it may be there nevertheless.
        """
        with self._write_lock, sqlite_errors(self.path):
            connection = self._writing_connection()
            try:
                connection.execute("BEGIN IMMEDIATE")
                self._check_format(connection)  # another process may have migrated it
                yield connection
                connection.execute("COMMIT")
            except BaseException as error:
                self._writer = None
                connection.close()  # which rolls back
                if isinstance(error, FAILURES):
                    self._settle_again()
                raise

    def borrow(self) -> sqlite3.Connection:
        """For `Reading`. May raise sqlite3.Error."""
        if not self._ready:
            self._make_ready()
        with self._guard:
            self._check_open()
            if self._is_read_only:
                self._forget_moved()
            while self._idle:
                connection = self._idle.pop()
                if not isinstance(connection, Snapshot) or connection.is_current():
                    return connection
                connection.close()
        return self._connect(reading=True)

    def give_back(self, connection: sqlite3.Connection) -> None:
        """For `Reading`."""
        with self._guard:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def give_back_space(self) -> None:
        """Shorten the file by what deletions freed. Durable as any write; safe to skip."""
        with self._write_lock, sqlite_errors(self.path):
            # execute() makes one step, which frees one page; a script is run to its end.
            self._writing_connection().executescript("PRAGMA incremental_vacuum")

    def settle(self) -> None:
        """Make what the write-ahead log holds durable, whoever wrote it."""
        # Never the database file itself: closing any descriptor of it would drop the POSIX locks
        # that SQLite holds on it in this process.
        path = self.path.with_name(self.path.name + _WAL_SUFFIX)
        with storage_errors(path):
            try:
                descriptor = self._disk.open_read(path)
            except FileNotFoundError:
                return
            try:
                self._disk.sync_file(descriptor)
                self._disk.drop_cache(descriptor)
            finally:
                self._disk.close(descriptor)

    def close(self) -> None:
        """Safe to repeat. The last connection of all processes empties the write-ahead log."""
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        try:
            with sqlite_errors(self.path):
                for connection in idle:
                    connection.close()
                with self._write_lock:
                    writer, self._writer = self._writer, None
                    if writer is not None:
                        writer.close()
        finally:
            self._leave()

    def abandon_in_child(self) -> None:
        """Never close a forked child's copies: SQLite forbids any use of them there."""
        _abandoned.extend(self._idle)
        if self._writer is not None:
            _abandoned.append(self._writer)
        self._idle, self._writer, self._closed = [], None, True

    # -- parts -----------------------------------------------------------------------------

    def _writing_connection(self) -> sqlite3.Connection:
        self._make_ready()
        if self._writer is None:
            self._writer = self._connect(reading=False)
        return self._writer

    def _make_ready(self) -> None:
        """Before the first use: invariant (3), and the newest format."""
        with self._guard:
            self._check_open()
            if self._ready:
                return
            check_library(self.path)
            self._join()
            self._refuse_irregular()
            self.settle()
            if not self._is_read_only:
                self._migrate()
            self._ready = True

    def _settle_again(self) -> None:
        """At once, since others write there too; and before our next write, should this fail."""
        with self._guard:
            self._ready = False
        with contextlib.suppress(AttachstoreError):
            self.settle()

    def _join(self) -> None:
        if self._claims is None or self._is_read_only or self._has_joined:
            return
        # Nobody can convert a store on a medium that cannot be written.
        with contextlib.suppress(StorageReadOnlyError):
            self._claims.join()
            self._has_joined = True

    def _forget_moved(self) -> None:
        """Close connections to a file that has been moved away: nothing stops that for readers."""
        with storage_errors(self.path):
            try:
                inode = self._disk.status(self.path).st_ino
            except FileNotFoundError:
                inode = None
        if inode != self._inode:
            self._inode = inode
            while self._idle:
                self._idle.pop().close()

    def _leave(self) -> None:
        with self._guard:
            joined, self._has_joined = self._has_joined, False
        if joined and self._claims is not None:
            self._claims.leave()

    def _check_open(self) -> None:
        if self._closed:
            message = "the store is closed"
            raise ValueError(message)

    def _connect(self, *, reading: bool) -> sqlite3.Connection:
        connection = self._open(reading=reading)
        try:
            self._check_format(connection)
            if not reading:
                self._insist_on_durability(connection)
            connection.execute("PRAGMA mmap_size = 0").fetchall()  # a cut file would be SIGBUS
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
            connection.execute(f"PRAGMA query_only = {reading:d}")
        except BaseException:
            if isinstance(connection, Snapshot):
                connection.check()
            connection.close()
            raise
        return connection

    def _open(self, *, reading: bool) -> sqlite3.Connection:
        own = "mode=ro" if self._is_read_only else "mode=rw"
        if not reading:
            return self._open_own(own)
        return open_to_read(self._disk, self.path, lambda: self._open_own(own), self._open_own)

    def _open_own(
        self, parameters: str, kind: type[sqlite3.Connection] = sqlite3.Connection
    ) -> sqlite3.Connection:
        """A connection to the file, if it is ours. SQLite makes no new one."""
        self._refuse_irregular()
        # Autocommit: transactions begin and end in `writing` and nowhere else. Threads take turns
        # by invariant (4).
        connection = sqlite3.connect(
            f"file:{quote(str(self.path))}?{parameters}",
            uri=True,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
            factory=kind,
        )
        try:
            self._check_owner(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _refuse_irregular(self) -> None:
        """SQLite follows links, and waits for whoever opens a FIFO's other end."""
        for suffix in _SUFFIXES:
            path = self.path.with_name(self.path.name + suffix)
            with storage_errors(path):
                try:
                    status = self._disk.status(path)
                except FileNotFoundError:
                    status = None
            if suffix and status is None:
                continue  # SQLite makes the others when it needs them
            if status is None or not is_regular(status):
                if self._claims is not None:
                    self._claims.check()
                reason = "there is no such file, or it is not a regular one"
                raise StoreLayoutError(where=str(path), reason=reason)
            if suffix:
                refuse_second_name(status, path)

    def _check_owner(self, connection: sqlite3.Connection) -> None:
        found = _ask(connection, "application_id")
        if found == APPLICATION_ID:
            return
        has_tables = connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()
        if found or has_tables is not None:
            reason = f"the database has application id {found}, ours is {APPLICATION_ID}"
            raise StoreForeignError(where=str(self.path), reason=reason)
        raise StoreLayoutError(where=str(self.path), reason="the database is empty")

    def _check_format(self, connection: sqlite3.Connection) -> None:
        found = _ask(connection, "user_version")
        if self._is_read_only and 0 < int(found) < self.format:
            reason = f"it has format {found}; a writer must bring it to format {self.format} first"
            raise StorageReadOnlyError(where=str(self.path), reason=reason)
        if found != self.format:
            raise StoreVersionError(where=str(self.path), found=str(found), supported=self.format)

    def _migrate(self) -> None:
        """Bring an older database to the newest format, in one transaction."""
        connection = self._open(reading=True)
        try:
            if not 0 < int(_ask(connection, "user_version")) < self.format:
                return
            self._insist_on_durability(connection)
            connection.execute("BEGIN IMMEDIATE")
            # Asked again: of two that migrate, the second finds nothing to do.
            for migration in self._migrations[int(_ask(connection, "user_version")) :]:
                for statement in migration:
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {self.format}")
            connection.execute("COMMIT")
        finally:
            connection.close()

    def _insist_on_durability(self, connection: sqlite3.Connection) -> None:
        """Set what a promise rests on, and ask whether it was taken."""
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # macOS: through the drive's cache
        connection.execute("PRAGMA checkpoint_fullfsync = ON")
        for setting, wanted in {"journal_mode": "wal", "synchronous": 2}.items():
            if (answer := _ask(connection, setting)) != wanted:
                reason = f"SQLite answers {setting}={answer}, not {wanted}"
                raise StorageUnsupportedError(where=str(self.path), reason=reason)


def _ask(connection: sqlite3.Connection, pragma: str) -> int | str:
    row = connection.execute(f"PRAGMA {pragma}").fetchone()
    return row[0] if row is not None else ""


def _abandon_all_in_child() -> None:
    for database in list(_open_databases):
        database.abandon_in_child()


os.register_at_fork(after_in_child=_abandon_all_in_child)
