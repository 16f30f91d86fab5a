"""Glances at the logs in a database: the first and the last row of each, some hundred at a time."""

from __future__ import annotations

from collections.abc import Iterator

from attachstore.sessions.glance import LOOK_BYTES, Glance
from attachstore.sessions.sqlite_database import Database

_SESSIONS = 200  # of a query: as many rows of a few KiB are in memory
_LOOK = """
    SELECT
        segment,
        CASE WHEN length(first.bytes) <= :look THEN first.bytes END,
        last.offset_bytes,
        CASE WHEN length(last.bytes) <= :look THEN last.bytes END
    FROM session
    LEFT JOIN line AS first ON first.session = number AND first.offset_bytes = 0
    LEFT JOIN line AS last ON last.session = number AND last.offset_bytes =
        (SELECT max(offset_bytes) FROM line WHERE session = number)
    WHERE segment > :after ORDER BY segment LIMIT :count
"""


def glances(database: Database) -> Iterator[tuple[str, Glance | None]]:
    """Each session's segment, in ascending order, and the glance at its log."""
    after = ""
    while True:
        with database.reading() as connection:
            parameters = {"look": LOOK_BYTES, "after": after, "count": _SESSIONS}
            rows = connection.execute(_LOOK, parameters).fetchall()
        for segment, first, offset_bytes, last in rows:
            yield segment, _glance(first, offset_bytes, last)
            after = segment
        if len(rows) < _SESSIONS:
            return


def _glance(first: bytes | None, offset_bytes: int | None, last: bytes | None) -> Glance | None:
    if first is None or last is None or offset_bytes is None:
        return None
    if not _is_line(first) or not _is_line(last):
        return None
    last_line = last[:-1] if offset_bytes else None
    return Glance(offset_bytes + len(last), first[:-1], last_line)


def _is_line(row: bytes) -> bool:
    return row.find(b"\n") == len(row) - 1
