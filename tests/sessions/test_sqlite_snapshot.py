"""A database read by a user who may not write in its directory, while its owner may at any time.

Run as root some of these tests become another user for real.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from attachstore.disk import BLOCK_BYTES, Disk, ReadOnlyDisk
from attachstore.errors import AttachstoreError, StorageReadOnlyError
from attachstore.sessions import SessionLogs, sqlite_snapshot
from attachstore.sessions.names import SessionName
from attachstore.sessions.sqlite import SqliteMedium
from attachstore.sessions.sqlite_database import Database
from tests.conformance.session_medium import confirm, content_of, filled
from tests.sessions.places import SqlitePlace

NOBODY = 65_534
WAL = "sessions.db-wal"
INDEX = "sessions.db-shm"
WRITER = """
import sys
from pathlib import Path
from attachstore.disk import Disk
from attachstore.sessions import SessionLogs
from attachstore.sessions.names import SessionName
from attachstore.sessions.sqlite import SqliteMedium

for round_ in range(int(sys.argv[2])):
    logs = SessionLogs(SqliteMedium(Path(sys.argv[1]), Disk()), lambda reference: None)
    log = logs.load("s-1")
    log.append_many([("message", [log.head + more, "x" * 3000]) for more in range(1, 9)])
    logs.close()
"""
"""Commits, and moves what it committed into the file, again and again."""


@pytest.fixture
def place(reachable_path: Path) -> SqlitePlace:
    (reachable_path / "store").mkdir(mode=0o755)
    return SqlitePlace(reachable_path / "store")


def written(place: SqlitePlace, *data: object) -> None:
    """A new session, or more events in it, by somebody who opens and closes the store."""
    logs = SessionLogs(place.medium(), confirm)
    if any(summary.id == "s-1" for summary in logs.list()):
        logs.load("s-1").append_many([("message", each) for each in data])
    else:
        filled(logs, "s-1", *data)
    logs.close()


def without_a_place(place: SqlitePlace) -> SqliteMedium:
    """A medium whose SQLite says what it says to a user who may not write in the directory."""
    medium = SqliteMedium(place.root, ReadOnlyDisk())
    open_own = medium.database._open_own

    def refused(
        parameters: str, kind: type[sqlite3.Connection] = sqlite3.Connection
    ) -> sqlite3.Connection:
        if "immutable" in parameters or place.path.with_name(INDEX).exists():
            return open_own(parameters, kind)
        error = sqlite3.OperationalError("attempt to write a readonly database")
        error.sqlite_errorcode = sqlite3.SQLITE_READONLY_DIRECTORY
        raise error

    medium.database._open_own = refused  # type: ignore[method-assign]
    return medium


@pytest.mark.root
@pytest.mark.parametrize("disk", [Disk, ReadOnlyDisk])
def test_another_user_reads_a_store_that_nobody_has_open(
    place: SqlitePlace, another_user: Callable[[], None], disk: type[Disk]
) -> None:
    written(place, 1, 2)
    another_user()

    logs = SessionLogs(SqliteMedium(place.root, disk()), confirm)

    assert content_of(logs, "s-1") == [1, 2]
    assert [summary.head_seq for summary in logs.list()] == [2]
    with pytest.raises(StorageReadOnlyError):
        logs.load("s-1")
    logs.close()
    assert not place.path.with_name(WAL).exists()


@pytest.mark.root
def test_another_user_reads_what_a_live_writer_has_committed(
    place: SqlitePlace, another_user: Callable[[], None]
) -> None:
    written(place, 1)
    writing = SessionLogs(place.medium(), confirm)
    writing.load("s-1").append("message", 2)
    another_user()

    reading = SessionLogs(SqliteMedium(place.root, ReadOnlyDisk()), confirm)

    assert content_of(reading, "s-1") == [1, 2]
    reading.close()
    os.seteuid(0)
    writing.close()


@pytest.mark.root
def test_commits_that_another_user_cannot_read_are_not_left_out(
    place: SqlitePlace, another_user: Callable[[], None], reachable_path: Path
) -> None:
    written(place, 1)
    writing = SessionLogs(place.medium(), confirm)
    writing.load("s-1").append("message", 2)
    copy = reachable_path / "copy"
    copy.mkdir(mode=0o755)
    for name in (place.path.name, WAL):
        shutil.copy(place.root / name, copy / name)
    writing.close()
    another_user()

    reading = SessionLogs(SqliteMedium(copy, ReadOnlyDisk()), confirm)

    with pytest.raises(StorageReadOnlyError, match=r"bytes of commits .* sessions\.db-shm"):
        reading.list()


@pytest.mark.root
def test_a_writer_who_comes_and_goes_never_makes_a_reader_see_what_is_not_there(
    place: SqlitePlace, another_user: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer is a state that was committed, in full; or it is said that there is none."""
    monkeypatch.setattr(sqlite_snapshot, "TICK_S", 0.02)
    written(place, [1, ""])
    command = [sys.executable, "-c", WRITER, str(place.root), "12"]
    writer = subprocess.Popen(command)
    another_user()
    seen = 0
    while writer.poll() is None:
        reading = SessionLogs(SqliteMedium(place.root, ReadOnlyDisk()), confirm)
        try:
            numbers = [number for number, _ in content_of(reading, "s-1")]
        except StorageReadOnlyError:
            pass
        else:
            assert numbers == list(range(1, len(numbers) + 1))
            assert len(numbers) >= seen
            assert len(numbers) % 8 == 1
            seen = len(numbers)
        finally:
            reading.close()
    os.seteuid(0)

    assert writer.returncode == 0
    assert len(content_of(SessionLogs(place.medium(), confirm), "s-1")) == 97
    assert seen > 1


@pytest.mark.root
def test_another_user_is_told_that_the_database_may_not_be_read(
    place: SqlitePlace, another_user: Callable[[], None]
) -> None:
    written(place, 1)
    place.path.chmod(0o600)
    another_user()

    with pytest.raises(StorageReadOnlyError, match="this user may not read it"):
        SessionLogs(SqliteMedium(place.root, ReadOnlyDisk()), confirm).list()


def test_what_was_read_while_somebody_wrote_is_not_handed_out(place: SqlitePlace) -> None:
    written(place, 1)
    database = without_a_place(place).database

    def read() -> None:
        with database.reading():
            written(place, 2)

    with pytest.raises(StorageReadOnlyError, match="wrote to it while it was read"):
        read()
    with database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM line").fetchone() == (3,)
    database.close()


def test_an_error_of_bytes_that_changed_is_not_damage(place: SqlitePlace) -> None:
    written(place, 1)
    database = without_a_place(place).database

    def read() -> None:
        with database.reading():
            written(place, 2)
            message = "database disk image is malformed"
            raise sqlite3.DatabaseError(message)

    with pytest.raises(StorageReadOnlyError):
        read()


def test_bytes_that_change_while_the_file_is_opened_are_not_damage(
    place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(place, 1)
    database = without_a_place(place).database

    def fail(_: sqlite3.Connection) -> None:
        written(place, 2)
        message = "database disk image is malformed"
        raise sqlite3.DatabaseError(message)

    monkeypatch.setattr(database, "_check_format", fail)

    with pytest.raises(StorageReadOnlyError, match="while it was read"), database.reading():
        pass


def test_a_later_call_sees_what_was_written_since(place: SqlitePlace) -> None:
    """Also what waits in the write-ahead log of a writer who stays."""
    written(place, 1)
    logs = SessionLogs(without_a_place(place), confirm)
    assert content_of(logs, "s-1") == [1]
    written(place, 2)
    assert content_of(logs, "s-1") == [1, 2]
    writing = SessionLogs(place.medium(), confirm)
    writing.load("s-1").append("message", 3)

    assert content_of(logs, "s-1") == [1, 2, 3]

    logs.close()
    writing.close()


def test_a_row_that_was_taken_back_is_not_read_on_from(
    place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long line is kept by its reader, who is asked for it block by block."""
    written(place, "x" * 2 * BLOCK_BYTES)
    logs = SessionLogs(without_a_place(place), confirm)
    with logs.medium.open(SessionName.of("s-1")) as log:
        with monkeypatch.context() as patch:
            patch.setattr(sqlite_snapshot.Snapshot, "check", refuse)
            with pytest.raises(StorageReadOnlyError):
                log.read(1000, BLOCK_BYTES)
            with pytest.raises(StorageReadOnlyError):
                log.read(1000, BLOCK_BYTES)
        assert len(log.read(1000, BLOCK_BYTES)) == BLOCK_BYTES
    logs.close()


def refuse(_: object) -> None:
    raise StorageReadOnlyError(where="sessions.db", reason="it changed")


@pytest.mark.parametrize(
    ("age_ns", "stamp_ns", "waited"),
    [
        (10_000_000, 1, [sqlite_snapshot.TICK_S]),
        (150_000_000, 1, []),
        (-10_000_000, 1, [sqlite_snapshot.TICK_S]),
        (1_500_000_000, 0, [sqlite_snapshot.WHOLE_SECONDS_S]),
        (2_500_000_000, 0, []),
        (-3_600_000_000_000, 1, []),
    ],
)
def test_a_file_that_was_just_written_is_waited_for(
    place: SqlitePlace,
    monkeypatch: pytest.MonkeyPatch,
    age_ns: int,
    stamp_ns: int,
    waited: list[float],
) -> None:
    """A second write within a tick of the first would leave the same time of change."""
    slept: list[float] = []
    changed_ns = 1_000_000_000_000_000_000 + stamp_ns

    def state(_disk: Disk, _path: Path) -> sqlite_snapshot.State:
        return 1, 1, 1, changed_ns

    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(time, "time_ns", lambda: changed_ns + age_ns)
    monkeypatch.setattr(sqlite_snapshot, "_state", state)

    found = sqlite_snapshot._undisturbed(Disk(), place.path)

    assert slept == waited
    assert (found is None) == bool(waited)


def test_a_writer_who_is_just_closing_is_waited_for(
    place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite removes the index of the commits first."""
    written(place, 1)
    wal = place.path.with_name(WAL)
    wal.write_bytes(b"commits")
    slept: list[float] = []
    pause = time.sleep

    def close(seconds: float) -> None:
        slept.append(seconds)
        wal.unlink(missing_ok=True)
        pause(seconds)

    monkeypatch.setattr(time, "sleep", close)
    database = without_a_place(place).database
    database.settle = lambda: None  # type: ignore[method-assign]

    with database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM session").fetchone() == (1,)
    assert slept
    database.close()


def test_other_errors_of_sqlite_are_not_tried_again(
    place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def fail(_: Database, parameters: str) -> sqlite3.Connection:
        tried.append(parameters)
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error

    monkeypatch.setattr(Database, "_open_own", fail)

    with pytest.raises(AttachstoreError):
        SqliteMedium(place.root, ReadOnlyDisk()).exists(SessionName.of("s-1"))
    assert tried == ["mode=ro"]
