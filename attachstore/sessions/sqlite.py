"""SqliteMedium: all session logs of a store in one SQLite database.

    sessions.db         tables session, line, torn (docs/reference/formats.md)
    sessions.db-wal     commits that are not in sessions.db yet; SQLite's own
    sessions.db-shm     the index of those, shared by the processes that have it open
    locks/<segment>     the writer's lock (claims.py)

The lines, the chain and what is damage are those of every medium; only where a line lies is
different. Each append, fork, repair and deletion is one transaction, so a crash leaves all of it
or nothing: there are no torn tails of our own making.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self

from attachstore.disk import Disk, ensure_directory, remove_quietly, storage_errors
from attachstore.errors import AttachstoreError, SessionExistsError, SessionMissingError
from attachstore.layout import DATABASE, LOCKS, SQLITE
from attachstore.sessions.claims import Claims, SessionClaim
from attachstore.sessions.glance import Glance
from attachstore.sessions.names import SessionName
from attachstore.sessions.sqlite_database import Database
from attachstore.sessions.sqlite_glance import glances
from attachstore.sessions.sqlite_integrity import complaints
from attachstore.sessions.sqlite_log import SqliteLog, insert_lines, log_size
from attachstore.threads import CancelFlag

_COPY = (
    "INSERT INTO line SELECT :child, offset_bytes + :shift, bytes FROM line"
    " WHERE session = :parent AND offset_bytes >= :start AND offset_bytes < :end"
)
_CUTS = (
    "SELECT count(DISTINCT revision) FROM torn"
    " WHERE session = (SELECT number FROM session WHERE segment = ?)"
)
# One step down the index for each session, instead of one for each line.
_ORPHANS = """
    WITH RECURSIVE used (number) AS (
        SELECT min(session) FROM line
        UNION ALL
        SELECT (SELECT min(session) FROM line WHERE session > number) FROM used
        WHERE number IS NOT NULL
    )
    SELECT number FROM used
    WHERE number IS NOT NULL AND number NOT IN (SELECT number FROM session)
"""


class SqliteMedium:
    """A SessionMedium below a store's root. Making one touches nothing."""

    def __init__(self, root: Path, disk: Disk) -> None:
        self._disk = disk
        disk.confine(root)
        self._root = root
        self.claims = Claims(disk, root, SQLITE)
        self.database = Database(root / DATABASE, disk, self.claims)

    @classmethod
    def create(cls, root: Path, disk: Disk) -> Self:
        """Make the database, durably; `root` must be there. It may exist already."""
        medium = cls(root, disk)
        with storage_errors(root):
            ensure_directory(disk, root / LOCKS)
        try:
            medium.database.create()
        except BaseException:
            with contextlib.suppress(AttachstoreError):
                medium.close()
            raise
        return medium

    @property
    def location(self) -> str:
        return str(self.database.path)

    def where(self, name: SessionName) -> str:
        return f"{self.database.path}#{name.segment}"

    # -- writing ---------------------------------------------------------------------------

    def claim(self, name: SessionName) -> SessionClaim:
        return self.claims.take(name)

    def add(self, name: SessionName, content: Iterable[bytes]) -> SqliteLog:
        with self.database.writing() as connection:
            number = self._reserve(connection, name)
            insert_lines(connection, number, content, 0)
        return self._log(name, number, 0)

    def add_copy(
        self,
        name: SessionName,
        header_line: bytes,
        parent: SessionName,
        *,
        start_bytes: int,
        end_bytes: int,
        last_line_end: bytes,
    ) -> SqliteLog | None:
        """See medium.CopyingMedium."""
        with self.database.writing() as connection:
            source = connection.execute(
                "SELECT number FROM session WHERE segment = ?", (parent.segment,)
            ).fetchone()
            if source is None:
                return None
            number = self._reserve(connection, name)
            insert_lines(connection, number, [header_line], 0)
            places = {"child": number, "parent": source[0], "start": start_bytes, "end": end_bytes}
            connection.execute(_COPY, places | {"shift": len(header_line) - start_bytes})
            whole_bytes = len(header_line) + end_bytes - start_bytes
            if not _is_whole(connection, number, whole_bytes, last_line_end):
                connection.execute("DELETE FROM line WHERE session = ?", (number,))
                connection.execute("DELETE FROM session WHERE number = ?", (number,))
                return None
        return self._log(name, number, 0)

    def open_writer(self, name: SessionName) -> SqliteLog:
        return self.open(name)

    def delete(self, name: SessionName) -> None:
        with self.database.writing() as connection:
            number, _ = self._find(connection, name)
            for table in ("line", "torn"):
                connection.execute(f"DELETE FROM {table} WHERE session = ?", (number,))  # noqa: S608
            connection.execute("DELETE FROM session WHERE number = ?", (number,))
        with contextlib.suppress(AttachstoreError):  # the session is gone all the same
            self.database.give_back_space()
        # Whoever opened the lock file before this notices that it leads nowhere now.
        remove_quietly(self._disk, self._root / LOCKS / name.segment)

    def close(self) -> None:
        self.database.close()

    # -- reading ---------------------------------------------------------------------------

    def open(self, name: SessionName) -> SqliteLog:
        with self.database.reading() as connection:
            return self._log(name, *self._find(connection, name))

    def exists(self, name: SessionName) -> bool:
        with self.database.reading() as connection:
            return _row(connection, name) is not None

    def names(self) -> Iterator[SessionName]:
        for segment in self._segments():
            name = SessionName.from_segment(segment)
            if name is not None:
                yield name

    def glances(self) -> Iterator[tuple[SessionName, Glance | None]]:
        """See medium.GlancingMedium."""
        for segment, glance in glances(self.database):
            name = SessionName.from_segment(segment)
            if name is not None:
                yield name, glance

    def cuts(self, name: SessionName) -> int:
        with self.database.reading() as connection:
            return connection.execute(_CUTS, (name.segment,)).fetchone()[0]

    def strays(self) -> Iterator[str]:
        for segment in self._segments():
            if SessionName.from_segment(segment) is None:
                yield f"{self.database.path}#{segment}"
        with self.database.reading() as connection:
            orphans = connection.execute(_ORPHANS).fetchall()
        for (number,) in orphans:
            yield f"{self.database.path}: lines of session {number}"

    def complaints(self, cancel: CancelFlag) -> list[str]:
        """See medium.SelfCheckingMedium."""
        return complaints(self.database, cancel)

    # -- parts -----------------------------------------------------------------------------

    def _segments(self) -> list[str]:
        with self.database.reading() as connection:
            rows = connection.execute("SELECT segment FROM session ORDER BY segment").fetchall()
        return [segment for (segment,) in rows]

    def _log(self, name: SessionName, number: int, revision: int) -> SqliteLog:
        where = self.where(name)
        return SqliteLog(self.database, name, where, number=number, revision=revision)

    def _find(self, connection: sqlite3.Connection, name: SessionName) -> tuple[int, int]:
        row = _row(connection, name)
        if row is None:
            raise SessionMissingError(where=self.where(name), session=name.id)
        return row

    def _reserve(self, connection: sqlite3.Connection, name: SessionName) -> int:
        """A session without lines; its number."""
        try:
            cursor = connection.execute(
                "INSERT INTO session (segment, revision) VALUES (?, 0)", (name.segment,)
            )
        except sqlite3.IntegrityError:
            raise SessionExistsError(where=self.where(name), session=name.id) from None
        assert cursor.lastrowid is not None  # noqa: S101 - a row was inserted
        return cursor.lastrowid


def _row(connection: sqlite3.Connection, name: SessionName) -> tuple[int, int] | None:
    return connection.execute(
        "SELECT number, revision FROM session WHERE segment = ?", (name.segment,)
    ).fetchone()


def _is_whole(
    connection: sqlite3.Connection, number: int, size_bytes: int, last_line_end: bytes
) -> bool:
    """Whether a copy has its length, without gaps, and ends in the line that it should."""
    total = connection.execute(
        "SELECT sum(length(bytes)) FROM line WHERE session = ?", (number,)
    ).fetchone()
    last = connection.execute(
        "SELECT substr(bytes, ?) FROM line WHERE session = ? ORDER BY offset_bytes DESC LIMIT 1",
        (-len(last_line_end), number),
    ).fetchone()
    whole = total == (size_bytes,) and log_size(connection, number) == size_bytes
    return whole and last == (last_line_end,)
