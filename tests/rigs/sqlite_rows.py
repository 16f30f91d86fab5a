"""SQLite as a subject: rows committed one by one, to check the instruments against.

SQLite documents that a commit in WAL mode survives a power cut with `synchronous = FULL` and may
not with `NORMAL`. A rig that sees losses in the first invents them; one that sees none in the
second is blind.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from tests.rigs.journal import Journal, Record, open_journal

ROWS = 4
_DATABASE = "rows.db"


def prepare(root: Path) -> None:
    """An empty database whose name is durable, in WAL mode."""
    with contextlib.closing(_connect(root)) as connection:
        connection.execute("CREATE TABLE row (number INTEGER PRIMARY KEY, content BLOB)")


def commit_rows(root: str, journal_path: str, synchronous: str) -> None:
    """Commit rows, move the WAL into the database in the middle, and commit more."""
    journal = Journal(open_journal(Path(journal_path)))
    with contextlib.closing(_connect(Path(root))) as connection:
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        for number in range(ROWS):
            _commit(connection, journal, number)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        for number in range(ROWS, 2 * ROWS):
            _commit(connection, journal, number)


def judge_rows(root: Path, records: Sequence[Record]) -> list[str]:
    """What is wrong with the database that is found, opened twice."""
    promised = [it.facts["number"] for it in records if it.step == "acknowledge"]
    return [it for _ in range(2) for it in _lost(root, promised)]


def _lost(root: Path, promised: Sequence[int]) -> list[str]:
    try:
        with contextlib.closing(_connect(root)) as connection:
            [check] = connection.execute("PRAGMA integrity_check").fetchone()
            found = {number for (number,) in connection.execute("SELECT number FROM row")}
    except sqlite3.Error as error:
        return [f"the database does not open: {error}"]
    bad = [] if check == "ok" else [f"integrity_check: {check}"]
    return bad + [f"committed row {number} is lost" for number in promised if number not in found]


def _connect(root: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(os.fspath(root / _DATABASE), isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    return connection


def _commit(connection: sqlite3.Connection, journal: Journal, number: int) -> None:
    journal.attempt("row", number=number)
    connection.execute("INSERT INTO row VALUES (?, ?)", (number, bytes([number]) * 700))
    journal.acknowledge("row", number=number)
