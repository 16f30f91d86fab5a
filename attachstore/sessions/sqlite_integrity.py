"""What SQLite itself says of its database, for scans: the integrity check.

A bit that flips in a page's header or in its list of cells can hide the page's last rows: what
is left reads as a shorter log, and its chain is whole. Only what the page says of its own free
room tells then, and nothing but the check looks at that.
"""

from __future__ import annotations

import sqlite3

from attachstore.sessions.sqlite_database import Database
from attachstore.threads import CancelFlag

COMPLAINTS_MAX = 20
_OPCODES_BETWEEN_LOOKS = 10_000
"""About a millisecond of them."""


def complaints(database: Database, cancel: CancelFlag) -> list[str]:
    """What the check complains of, up to COMPLAINTS_MAX lines; [] if nothing.

    Reads the whole database once, as it is at the start: writers go on, and their write-ahead log
    is not emptied meanwhile. Memory: SQLite's page cache, and a bit for each page.

    Raises Cancelled, StoreLayoutError if there is too little left to check, UnavailableError.
    """
    with database.reading() as connection, cancel.interrupting(connection.interrupt):
        # SQLite before 3.41 asks no handler while it walks through the pages of a table, and
        # heeds `interrupt` only; an `interrupt` that comes before the statement begins is lost.
        connection.set_progress_handler(lambda: cancel.is_set, _OPCODES_BETWEEN_LOOKS)
        try:
            rows = connection.execute(f"PRAGMA integrity_check({COMPLAINTS_MAX})").fetchall()
        except sqlite3.OperationalError:
            cancel.check()
            raise
        finally:
            connection.set_progress_handler(None, 0)
    lines = [line for (text,) in rows for line in str(text).splitlines()]
    return [line for line in lines if line != "ok" and not line.startswith("***")]
