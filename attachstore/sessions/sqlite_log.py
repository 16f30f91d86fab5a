"""SqliteLog: one session's log in the database, read and written as the bytes it stands for.

A row is a line of the log with its line feed, keyed by where the line begins, so that any offset
is found by one step down the index. The rows of a sound log join without gaps. A row that
somebody removed reads as a line of the same length that no record can be: the damage is seen
where it is, and everything after it stays where it was.

Invariants

 (1) Rows are added at the end only, in one transaction for each append, and the end and the
     session's revision are what the writer believes them to be.
 (2) No byte is cut before the same transaction has copied it to `torn`. What a load adds to
     close an open turn is in that transaction too: a repair is one revision.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Self

from attachstore.disk import BLOCK_BYTES
from attachstore.errors import LogPoisonedError, SessionMissingError, StoreLayoutError
from attachstore.sessions.names import SessionName
from attachstore.sessions.record import LINE_BYTES_MAX
from attachstore.sessions.sqlite_database import Database

_LOST = b"\x1a"  # SUBSTITUTE: what a lost line is made of

_SIZE = (
    "SELECT offset_bytes + length(bytes) FROM line WHERE session = ?"
    " ORDER BY offset_bytes DESC LIMIT 1"
)
_FROM = (
    "SELECT offset_bytes, bytes FROM line WHERE session = :session AND offset_bytes >= coalesce("
    "(SELECT max(offset_bytes) FROM line WHERE session = :session AND offset_bytes <= :offset), 0"
    ") ORDER BY offset_bytes"
)
_INSERT = "INSERT INTO line (session, offset_bytes, bytes) VALUES (?, ?, ?)"


class SqliteLog:
    """Reader and writer of one log. Holds no connection: each call borrows one."""

    def __init__(
        self, database: Database, name: SessionName, where: str, *, number: int, revision: int
    ) -> None:
        self.number = number
        self._database = database
        self._name = name
        self._where = where
        self._revision = revision
        self._long_row: tuple[int, bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def size(self) -> int:
        self._long_row = None
        with self._database.reading() as connection:
            size_bytes = log_size(connection, self.number)
            if size_bytes == 0:
                self._check_there(connection)
            return size_bytes

    def read(self, offset_bytes: int, size_bytes: int) -> bytes:
        if self._long_row is not None:
            start, row = self._long_row
            if start <= offset_bytes and offset_bytes + size_bytes <= start + len(row):
                return row[offset_bytes - start : offset_bytes - start + size_bytes]
        try:
            with self._database.reading() as connection:
                end = offset_bytes + size_bytes
                content = b"".join(self._pieces(connection, offset_bytes, end))
                if not content:
                    self._check_there(connection)
                return content
        except BaseException:
            self._long_row = None  # a row that `reading` took back
            raise

    def settle(self) -> int:
        size_bytes = self.size()
        self._database.settle()
        return size_bytes

    def append(self, data: bytes, offset_bytes: int) -> None:
        with self._database.writing() as connection:
            self._take_revision(connection, offset_bytes)
            insert_lines(connection, self.number, [data], offset_bytes)
        self._revision += 1

    def cut(self, offset_bytes: int) -> str:
        return self.repair(offset_bytes, b"")

    def repair(self, offset_bytes: int, closers: bytes) -> str:
        """See medium.RepairingWriter."""
        with self._database.writing() as connection:
            revision = self._take_revision(connection, None)
            self._split_row(connection, offset_bytes)
            connection.execute(
                "INSERT INTO torn SELECT session, ?, offset_bytes, bytes FROM line"
                " WHERE session = ? AND offset_bytes >= ?",
                (revision, self.number, offset_bytes),
            )
            connection.execute(
                "DELETE FROM line WHERE session = ? AND offset_bytes >= ?",
                (self.number, offset_bytes),
            )
            insert_lines(connection, self.number, [closers], offset_bytes)
        self._revision = revision
        self._long_row = None
        return f"{self._database.path}: torn, session {self.number}, revision {revision}"

    def close(self) -> None:
        self._long_row = None

    # -- parts -----------------------------------------------------------------------------

    def _pieces(self, connection: sqlite3.Connection, position: int, end: int) -> Iterator[bytes]:
        """The log's bytes from `position` up to `end`, or to the end of the log."""
        cursor = connection.execute(_FROM, {"session": self.number, "offset": position})
        try:
            is_first = True
            for start, row in cursor:
                if not isinstance(start, int) or not isinstance(row, bytes):
                    raise _wrong_kind()
                if start >= end:
                    if position < end and not is_first:
                        yield self._lost(position, start, end)
                    return
                if start > position:
                    yield self._lost(position, start, end)
                    position = start
                elif start < position and not is_first:
                    raise StoreLayoutError(
                        where=self._where, reason=f"its rows overlap at byte {start}"
                    )
                is_first = False
                if len(row) > BLOCK_BYTES:
                    self._long_row = (start, row)  # it is read on from, block by block
                piece = row[position - start : end - start]
                position += len(piece)
                yield piece  # and look at the next row too: it may begin before this one ends
        finally:
            cursor.close()

    def _lost(self, position: int, start: int, end: int) -> bytes:
        """What is read where rows are missing, up to the next one at `start`."""
        if start - position > LINE_BYTES_MAX:
            raise StoreLayoutError(
                where=self._where, reason=f"its rows end at byte {position} and go on at {start}"
            )
        if end < start:
            return _LOST * (end - position)
        return _LOST * (start - position - 1) + b"\n"

    def _check_there(self, connection: sqlite3.Connection) -> None:
        found = connection.execute("SELECT 1 FROM session WHERE number = ?", (self.number,))
        if found.fetchone() is None:
            raise SessionMissingError(where=self._where, session=self._name.id)

    def _take_revision(self, connection: sqlite3.Connection, offset_bytes: int | None) -> int:
        """Count one revision; what is stored must be what this writer knows."""
        row = connection.execute(
            "SELECT revision FROM session WHERE number = ?", (self.number,)
        ).fetchone()
        size_bytes = log_size(connection, self.number)
        reason = None
        if row is None:
            reason = "another program removed the log"
        elif row[0] != self._revision:
            reason = f"another program changed the log: revision {row[0]}, not {self._revision}"
        elif offset_bytes is not None and offset_bytes != size_bytes:
            reason = (
                f"another program changed the log: it has {size_bytes} bytes, "
                f"{offset_bytes} were written"
            )
        if reason is not None:
            raise LogPoisonedError(where=self._where, session=self._name.id, reason=reason)
        connection.execute(
            "UPDATE session SET revision = revision + 1 WHERE number = ?", (self.number,)
        )
        return self._revision + 1

    def _split_row(self, connection: sqlite3.Connection, offset_bytes: int) -> None:
        """Let a row begin at `offset_bytes`. Rows of ours are lines, and begin there already."""
        found = connection.execute(
            "SELECT offset_bytes, bytes FROM line WHERE session = ? AND offset_bytes < ?"
            " ORDER BY offset_bytes DESC LIMIT 1",
            (self.number, offset_bytes),
        ).fetchone()
        if found is None or found[0] + len(found[1]) <= offset_bytes:
            return
        start, row = found
        kept_bytes = offset_bytes - start
        connection.execute(
            "UPDATE line SET bytes = ? WHERE session = ? AND offset_bytes = ?",
            (row[:kept_bytes], self.number, start),
        )
        connection.execute(_INSERT, (self.number, offset_bytes, row[kept_bytes:]))


def log_size(connection: sqlite3.Connection, number: int) -> int:
    row = connection.execute(_SIZE, (number,)).fetchone()
    size_bytes = 0 if row is None else row[0]
    if not isinstance(size_bytes, int):
        raise _wrong_kind()
    return size_bytes


def _wrong_kind() -> sqlite3.DatabaseError:
    """A damaged row: SQLite checks the types of columns when it writes, not when it reads."""
    return sqlite3.DatabaseError("a column of a line is not of its type")


def insert_lines(
    connection: sqlite3.Connection, number: int, blocks: Iterable[bytes], offset_bytes: int
) -> None:
    """Add the lines in `blocks`, wherever the blocks are cut."""
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        rows: list[tuple[int, int, bytes]] = []
        for line in lines:
            rows.append((number, offset_bytes, line + b"\n"))
            offset_bytes += len(line) + 1
        connection.executemany(_INSERT, rows)
    if rest:
        connection.execute(_INSERT, (number, offset_bytes, rest))
