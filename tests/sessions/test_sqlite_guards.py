"""What is asked of a database before it is relied upon, where no other test needs the question.

Each test turns red without one guard or sync (tests/rigs, rig 11).
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from attachstore.disk import Disk
from attachstore.errors import SessionMissingError, StorageReadOnlyError
from attachstore.sessions import SessionLogs
from attachstore.sessions.names import SessionName
from attachstore.sessions.sqlite import SqliteMedium
from attachstore.sessions.sqlite_database import Database
from attachstore.sessions.sqlite_format import MIGRATIONS
from tests.conformance.session_place import confirm, filled
from tests.faults import RecordingDisk
from tests.sessions.places import SqlitePlace

NAME = SessionName.of("s-1")
WAL = "sessions.db-wal"


@pytest.fixture
def place(tmp_path: Path) -> SqlitePlace:
    return SqlitePlace(tmp_path)


@pytest.fixture
def logs(place: SqlitePlace) -> SessionLogs:
    return SessionLogs(place.medium(), confirm)


def test_whoever_loads_a_session_syncs_what_a_program_without_syncs_has_committed(
    place: SqlitePlace, logs: SessionLogs
) -> None:
    """The database is open already; only commits of attachstore are synced before they show."""
    filled(logs, "s-1", 1, 2)
    disk = RecordingDisk(place.root, methods={"sync_file"})
    loading = SessionLogs(SqliteMedium(place.root, disk), confirm)
    assert len(loading.list()) == 1
    place.write("s-1", place.read("s-1"))
    disk.trace.clear()

    assert loading.load("s-1").head == 2

    assert ("sync_file", WAL) in disk.trace
    loading.close()


def test_a_log_that_is_deleted_has_no_size(logs: SessionLogs) -> None:
    filled(logs, "s-1", 1)
    with logs.medium.open(NAME) as log:
        logs.delete("s-1")
        with pytest.raises(SessionMissingError):
            log.size()


def test_a_migration_is_as_durable_as_any_commit(
    place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    insisted: list[int] = []
    insist = Database._insist_on_durability

    def recorded(self: Database, connection: sqlite3.Connection) -> None:
        insisted.append(connection.execute("PRAGMA user_version").fetchone()[0])
        insist(self, connection)

    monkeypatch.setattr(Database, "_insist_on_durability", recorded)
    later = (*MIGRATIONS, ("CREATE TABLE n (a INT) STRICT",))
    database = Database(place.path, Disk(), migrations=later)
    with database.reading():
        pass
    database.close()

    assert insisted == [len(MIGRATIONS)]


def test_commits_without_an_index_are_not_left_out(
    place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a medium where SQLite can make no index, the file alone is an older state."""
    place.path.with_name(WAL).write_bytes(b"commits")
    tried: list[str] = []

    def fail(_: Database, parameters: str) -> sqlite3.Connection:
        tried.append(parameters)
        error = sqlite3.OperationalError("unable to open database file")
        error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
        raise error

    monkeypatch.setattr(Database, "_open_own", fail)

    with pytest.raises(StorageReadOnlyError, match="7 bytes of commits"):
        Database(place.path, Disk())._open(reading=True)
    assert set(tried) == {"mode=rw"}
