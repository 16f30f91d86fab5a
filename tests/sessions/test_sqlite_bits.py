"""Single flipped bits in a database that once got past the checks."""

from __future__ import annotations

from pathlib import Path

import pytest

from attachstore.errors import StoreLayoutError
from attachstore.sessions import SessionLogs
from tests.conformance.session_medium import confirm
from tests.sessions.places import SqlitePlace


@pytest.fixture
def place(tmp_path: Path) -> SqlitePlace:
    return SqlitePlace(tmp_path)


@pytest.fixture
def logs(place: SqlitePlace) -> SessionLogs:
    return SessionLogs(place.medium(), confirm)


def test_a_schema_that_is_no_text_any_more_is_damage(place: SqlitePlace, logs: SessionLogs) -> None:
    """One flipped bit: SQLite's message quotes it, and Python cannot make text of the message."""
    logs.create("s-1").append("m", 1)
    logs.close()
    whole = place.path.read_bytes()
    at = whole.index(b"segment TEXT")
    place.path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x80]) + whole[at + 1 :])

    with pytest.raises(StoreLayoutError):
        SessionLogs(place.medium(), confirm).inspect("s-1")


@pytest.mark.parametrize("column", ["offset_bytes", "bytes"])
def test_a_column_of_another_type_is_damage(
    place: SqlitePlace, logs: SessionLogs, column: str
) -> None:
    """One flipped bit in a row's header; a table that is not STRICT stands in for it."""
    logs.create("s-1").append("m", 1)
    logs.close()
    with place.connection() as connection:
        connection.execute("ALTER TABLE line RENAME TO strict_line")
        connection.execute("CREATE TABLE line (session, offset_bytes, bytes)")
        connection.execute("INSERT INTO line SELECT * FROM strict_line")
        connection.execute(f"UPDATE line SET {column} = 'text'")

    with pytest.raises(StoreLayoutError):
        SessionLogs(place.medium(), confirm).inspect("s-1")


def test_a_last_row_that_lies_inside_of_the_one_before_is_damage(
    place: SqlitePlace, logs: SessionLogs
) -> None:
    """One flipped bit in its offset: the log would end with the row before, and be valid."""
    logs.create("s-1").append_many([("message", "a longer one"), ("m", 1)])
    logs.close()
    with place.connection() as connection:
        select = "SELECT offset_bytes, length(bytes) FROM line ORDER BY offset_bytes"
        (_, _), (start, longer), (last, shorter) = connection.execute(select).fetchall()
        inside = start + longer - shorter
        update = "UPDATE line SET offset_bytes = ? WHERE offset_bytes = ?"
        connection.execute(update, (inside, last))

    with pytest.raises(StoreLayoutError, match="overlap"):
        SessionLogs(place.medium(), confirm).inspect("s-1")
