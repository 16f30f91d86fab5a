"""The formats of sessions.db: one migration leads from each to the next.

A database is made by all migrations, and an older one is brought up to date by those it lacks.
So they are never changed, only followed by a next one (docs/decisions/0025).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from attachstore.layout import DATABASE_MARK

Migration = Sequence[str]
APPLICATION_ID = int.from_bytes(DATABASE_MARK, "big")
_WAL_MARKS = slice(18, 20)  # "file format write version, read version": 2 and 2 mean WAL

_SESSIONS = """
    CREATE TABLE session (
        number INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again
        segment TEXT NOT NULL UNIQUE,             -- the session's id, escaped
        revision INTEGER NOT NULL                 -- counts appends and cuts
    ) STRICT
"""
_LINES = """
    CREATE TABLE line (
        session INTEGER NOT NULL,
        offset_bytes INTEGER NOT NULL,            -- where the line begins in the log
        bytes BLOB NOT NULL,                      -- with its line feed
        PRIMARY KEY (session, offset_bytes)
    ) STRICT, WITHOUT ROWID
"""
_CUT_LINES = """
    CREATE TABLE torn (
        session INTEGER NOT NULL,
        revision INTEGER NOT NULL,                -- made by this cut
        offset_bytes INTEGER NOT NULL,
        bytes BLOB NOT NULL,
        PRIMARY KEY (session, revision, offset_bytes)
    ) STRICT, WITHOUT ROWID
"""

MIGRATIONS: tuple[Migration, ...] = ((_SESSIONS, _LINES, _CUT_LINES),)
"""The statements that lead from format n to n + 1, by n. Format 0 is an empty database."""


def first_bytes(migrations: Sequence[Migration]) -> bytes:
    """A new database of the newest format, as the bytes of its file."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        # It cannot be turned on later, and gives a deleted session's space back.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        for migration in migrations:
            for statement in migration:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
        content = bytearray(connection.serialize())
    finally:
        connection.close()
    content[_WAL_MARKS] = b"\2\2"
    return bytes(content)
