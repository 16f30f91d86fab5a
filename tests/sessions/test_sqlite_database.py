"""The database: whose it is, which format and settings it has, and what its errors mean."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from attachstore.disk import Disk, ReadOnlyDisk
from attachstore.errors import (
    AttachstoreError,
    LogPoisonedError,
    ResourceExhaustedError,
    SessionBusyError,
    StorageFullError,
    StorageIOError,
    StorageReadOnlyError,
    StorageUnsupportedError,
    StoreForeignError,
    StoreLayoutError,
    StoreVersionError,
)
from attachstore.sessions import SessionLogs, sqlite_database
from attachstore.sessions.names import SessionName
from attachstore.sessions.sqlite import SqliteMedium
from attachstore.sessions.sqlite_database import Database
from attachstore.sessions.sqlite_errors import translated
from attachstore.sessions.sqlite_format import APPLICATION_ID, MIGRATIONS
from tests.conformance.session_medium import confirm, content_of, filled
from tests.descriptors import open_descriptors
from tests.faults import RecordingDisk, failing_disks
from tests.sessions.places import SqlitePlace
from tests.tidy.checkout import ROOT

NEXT = (*MIGRATIONS, ("ALTER TABLE session ADD COLUMN note TEXT", "CREATE TABLE n (a INT) STRICT"))
"""The migrations of a later attachstore."""


@pytest.fixture
def place(tmp_path: Path) -> SqlitePlace:
    return SqlitePlace(tmp_path)


@pytest.fixture
def medium(place: SqlitePlace) -> SqliteMedium:
    return place.medium()


@pytest.fixture
def logs(medium: SqliteMedium) -> SessionLogs:
    return SessionLogs(medium, confirm)


def ask(connection: sqlite3.Connection, pragma: str) -> object:
    return connection.execute(f"PRAGMA {pragma}").fetchone()[0]


# -- settings ----------------------------------------------------------------------------------


def test_a_new_database_says_what_it_is(place: SqlitePlace) -> None:
    with place.connection() as connection:
        assert ask(connection, "application_id") == APPLICATION_ID
        assert ask(connection, "user_version") == 1
        assert ask(connection, "journal_mode") == "wal"
        tables = connection.execute("PRAGMA table_list").fetchall()
    strict = {name: bool(is_strict) for _, name, kind, _, _, is_strict in tables if kind == "table"}
    assert {name for name, is_strict in strict.items() if is_strict} == {"session", "line", "torn"}


def test_the_reference_shows_the_tables_as_they_are() -> None:
    page = (ROOT / "docs" / "reference" / "formats-sqlite.md").read_text()
    shown = page.partition("```sql\n")[2].partition("```")[0]

    assert shown.split() == " ".join(f"{each.rstrip()};" for each in MIGRATIONS[0]).split()


def test_a_library_that_was_built_to_sync_less_is_told_to(
    place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLITE_DEFAULT_WAL_SYNCHRONOUS=1, as some systems build it."""
    connect = sqlite3.connect

    def connect_lazily(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect_lazily)
    database = Database(place.path, Disk())
    with database.writing() as connection:
        assert ask(connection, "synchronous") == 2
    database.close()


def test_every_writing_connection_syncs_whatever_others_have_set(place: SqlitePlace) -> None:
    """The journal mode is in the file, and any program may change it."""
    with contextlib.closing(sqlite3.connect(place.path)) as connection:
        assert connection.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)

    for database in (place.medium().database, Database(place.path, Disk())):
        with database.writing() as connection:
            assert ask(connection, "journal_mode") == "wal"
            assert ask(connection, "synchronous") == 2
            assert ask(connection, "mmap_size") == 0
        with database.reading() as connection:
            assert ask(connection, "query_only") == 1
        database.close()


def test_a_setting_that_does_not_take_is_an_error(
    place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite says nothing when it does not do as it is told; so it is asked."""
    real = sqlite_database._ask

    def ask_wrongly(connection: sqlite3.Connection, pragma: str) -> int | str:
        return 1 if pragma == "synchronous" else real(connection, pragma)

    monkeypatch.setattr(sqlite_database, "_ask", ask_wrongly)

    with (
        pytest.raises(StorageUnsupportedError, match="synchronous=1"),
        Database(place.path, Disk()).writing(),
    ):
        pass


# -- whose it is -------------------------------------------------------------------------------


def make(path: Path, *statements: str) -> None:
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


@pytest.mark.parametrize(
    ("statements", "error"),
    [
        (["PRAGMA application_id = 7", "CREATE TABLE session (a)"], StoreForeignError),
        (["CREATE TABLE notes (a)"], StoreForeignError),
        ([f"PRAGMA application_id = {APPLICATION_ID}", "PRAGMA user_version = 2"], None),
        ([f"PRAGMA application_id = {APPLICATION_ID}", "CREATE TABLE line (a)"], None),
        (["PRAGMA user_version = 0"], StoreLayoutError),
    ],
    ids=["foreign", "unversioned", "newer", "unversioned-ours", "empty"],
)
def test_a_database_that_is_not_ours_is_refused_and_left_alone(
    place: SqlitePlace, statements: list[str], error: type[AttachstoreError] | None
) -> None:
    make(place.path, *statements)
    before = place.path.read_bytes()

    for disk in (Disk(), ReadOnlyDisk()):
        logs = SessionLogs(SqliteMedium(place.root, disk), confirm)
        with pytest.raises(error or StoreVersionError):
            logs.list()
        logs.close()
    with pytest.raises(error or StoreVersionError):
        SqliteMedium.create(place.root, Disk())
    assert place.path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused(place: SqlitePlace) -> None:
    place.path.write_bytes(b"not a database " * 1000)
    with pytest.raises(StoreLayoutError, match="not a database"):
        SessionLogs(place.medium(), confirm).list()
    place.path.unlink()
    with pytest.raises(StoreLayoutError, match="no such file"):
        SessionLogs(place.medium(), confirm).list()
    assert not place.path.exists(), "none is made in its place"
    place.path.mkdir()
    with pytest.raises(StoreLayoutError):
        SessionLogs(place.medium(), confirm).list()


# -- making it ---------------------------------------------------------------------------------


def test_the_database_appears_whole(tmp_path: Path) -> None:
    disk = RecordingDisk(tmp_path)
    SqliteMedium.create(tmp_path, disk).close()

    assert disk.trace == [
        ("make_directory", "locks"),
        ("make_directory", "staging"),
        ("open_temporary", "staging"),
        ("write", "staging/<unnamed>"),
        ("sync_file", "staging/<unnamed>"),
        ("link_open_file", "staging/<unnamed> sessions.db"),
        ("sync_directory", "."),
        ("open_lock", "locks/.medium"),
    ]


def test_any_call_that_fails_leaves_no_database_or_a_whole_one(tmp_path: Path) -> None:
    for number, disk in enumerate(failing_disks()):
        root = tmp_path / str(number)
        root.mkdir()
        with contextlib.suppress(AttachstoreError):
            SqliteMedium.create(root, disk).close()
        SqliteMedium.create(root, Disk()).close()
        filled(SessionLogs(SqliteMedium(root, Disk()), confirm), "s-1", 1)


def test_a_database_that_cannot_be_opened_leaves_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite fails by itself, below the disk, when the lock is taken already."""
    connect = sqlite3.connect

    def fail(name: str, **options: Any) -> sqlite3.Connection:
        nowhere = "file:/dev/null/nowhere" if name.startswith("file:") else name
        return connect(nowhere, **options)

    monkeypatch.setattr(sqlite3, "connect", fail)
    before = open_descriptors()

    with pytest.raises(AttachstoreError):
        SqliteMedium.create(tmp_path, Disk())

    assert open_descriptors() <= before


def test_of_many_that_make_it_each_gets_the_same(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()

    def create(number: int) -> None:
        logs = SessionLogs(SqliteMedium.create(tmp_path, Disk()), confirm)
        filled(logs, f"s-{number}", number)
        logs.close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(create, range(6)))
    logs = SessionLogs(SqliteMedium(tmp_path, Disk()), confirm)
    assert [summary.id for summary in logs.list()] == [f"s-{number}" for number in range(6)]


# -- formats -----------------------------------------------------------------------------------


def test_an_older_database_is_brought_up_to_date(place: SqlitePlace, logs: SessionLogs) -> None:
    filled(logs, "s-1", 1, 2)
    logs.close()
    before = place.read("s-1")

    databases = [Database(place.path, Disk(), migrations=NEXT) for _ in range(4)]

    def read(database: Database) -> None:
        with database.reading():
            pass

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read, databases))

    with databases[0].writing() as connection:
        assert ask(connection, "user_version") == 2
        assert connection.execute("SELECT note FROM session").fetchall() == [(None,)]
    assert place.read("s-1") == before
    for database in databases:
        database.close()
    with pytest.raises(StoreVersionError):
        SessionLogs(place.medium(), confirm).list()


def test_a_migration_that_fails_changes_nothing(place: SqlitePlace, logs: SessionLogs) -> None:
    filled(logs, "s-1", 1)
    broken = (*MIGRATIONS, (NEXT[1][0], "CREATE TABLE line (a INT) STRICT"))

    with (
        pytest.raises(StoreLayoutError, match="already exists"),
        Database(place.path, Disk(), migrations=broken).reading(),
    ):
        pass
    assert content_of(logs, "s-1") == [1]


def test_a_migration_waits_for_a_writer(place: SqlitePlace, logs: SessionLogs) -> None:
    reading = Database(place.path, ReadOnlyDisk(), migrations=NEXT)
    with pytest.raises(StorageReadOnlyError, match="a writer must"), reading.reading():
        pass
    filled(logs, "s-1", 1)


def test_a_writer_notices_that_another_version_has_migrated(
    place: SqlitePlace, logs: SessionLogs
) -> None:
    log = logs.create("s-1")
    log.append("message", 1)
    with Database(place.path, Disk(), migrations=NEXT).reading():
        pass

    with pytest.raises(StoreVersionError):
        log.append("message", 2)


# -- durability --------------------------------------------------------------------------------


def copy_of_a_live_store(place: SqlitePlace, logs: SessionLogs, target: Path) -> Path:
    """What a killed process leaves: commits that are in the write-ahead log only."""
    filled(logs, "s-1", 1, 2)
    target.mkdir()
    for name in ("sessions.db", "sessions.db-wal"):
        shutil.copy(place.root / name, target / name)
    return target


def test_what_a_dead_process_left_is_synced_before_it_is_believed(
    place: SqlitePlace, logs: SessionLogs, tmp_path: Path
) -> None:
    """It may have died between its write and its sync; SQLite would take the commit."""
    root = copy_of_a_live_store(place, logs, tmp_path / "copy")
    disk = RecordingDisk(root, methods={"sync_file", "drop_cache", "status"})
    reading = SessionLogs(SqliteMedium(root, disk), confirm)

    assert content_of(reading, "s-1") == [1, 2]
    synced = disk.trace.index(("sync_file", "sessions.db-wal"))
    followed = [("drop_cache", "sessions.db-wal"), ("status", "sessions.db")]
    assert disk.trace[synced + 1 : synced + 3] == followed


def test_after_a_failed_write_nothing_is_written_over_what_the_cache_alone_holds(
    place: SqlitePlace,
) -> None:
    """The next write would go to the same pages of the write-ahead log, and ext4 would not do it.

    Seen on a device that fails once: the sync after that says OK, and the disk has zeros there.
    At once for other processes, and once more before we write, if it could not be done before.
    """
    settled = [("sync_file", "sessions.db-wal"), ("drop_cache", "sessions.db-wal")]
    disk = RecordingDisk(place.root, methods={"sync_file", "drop_cache"})
    database = Database(place.path, disk)
    with database.reading(), database.writing() as connection:  # readers keep the log alive
        connection.execute("INSERT INTO session (segment, revision) VALUES ('a', 0)")
    disk.trace.clear()

    failure = sqlite3.OperationalError("disk I/O error")
    failure.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
    with pytest.raises(StorageIOError), database.writing():
        raise failure
    assert disk.trace == settled
    with database.writing() as connection:
        assert disk.trace == 2 * settled
        connection.execute("INSERT INTO session (segment, revision) VALUES ('b', 0)")
    database.close()


def test_a_sync_that_fails_is_told_before_anything_is_read(
    place: SqlitePlace, logs: SessionLogs, tmp_path: Path
) -> None:
    copy_of_a_live_store(place, logs, tmp_path / "copy")
    for number, disk in enumerate(failing_disks(methods={"sync_file", "open_read", "drop_cache"})):
        root = tmp_path / str(number)
        shutil.copytree(tmp_path / "copy", root)
        reading = SessionLogs(SqliteMedium(root, disk), confirm)
        if number < 3:
            with pytest.raises(StorageIOError):
                content_of(reading, "s-1")
        assert content_of(reading, "s-1") == [1, 2], "then read from the disk, not from memory"
        reading.close()


# -- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (sqlite3.SQLITE_FULL, StorageFullError),
        (sqlite3.SQLITE_READONLY, StorageReadOnlyError),
        (sqlite3.SQLITE_READONLY_DBMOVED, StorageReadOnlyError),
        (sqlite3.SQLITE_BUSY, SessionBusyError),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, SessionBusyError),
        (sqlite3.SQLITE_LOCKED, SessionBusyError),
        (sqlite3.SQLITE_CORRUPT, StoreLayoutError),
        (sqlite3.SQLITE_NOTADB, StoreLayoutError),
        (sqlite3.SQLITE_IOERR, StorageIOError),
        (sqlite3.SQLITE_IOERR_FSYNC, StorageIOError),
        (sqlite3.SQLITE_IOERR_NOMEM, ResourceExhaustedError),
        (sqlite3.SQLITE_IOERR_SHMMAP, ResourceExhaustedError),
        (sqlite3.SQLITE_IOERR_SHMSIZE, StorageFullError),
        (sqlite3.SQLITE_NOMEM, ResourceExhaustedError),
        (sqlite3.SQLITE_CANTOPEN, StorageIOError),
        (sqlite3.SQLITE_TOOBIG, StorageIOError),
    ],
)
def test_what_sqlite_says_becomes_what_a_caller_can_do(
    code: int, error: type[AttachstoreError]
) -> None:
    said = sqlite3.OperationalError("it said so")
    said.sqlite_errorcode = code  # type: ignore[misc] # read-only for type checkers
    said.sqlite_errorname = "SQLITE_X"  # type: ignore[misc] # read-only for type checkers

    assert isinstance(translated(said, "there"), error)
    assert "it said so" in str(translated(said, "there")) or error is SessionBusyError


def test_memory_that_runs_out_is_no_disk_error(place: SqlitePlace, logs: SessionLogs) -> None:
    """In a process of its own: SQLite's heap limit can only be lowered."""
    filled(logs, "s-1", "x" * 100_000)
    program = (
        "import sqlite3, sys\n"
        "from pathlib import Path\n"
        "from attachstore.disk import Disk\n"
        "from attachstore.errors import ResourceExhaustedError\n"
        "from attachstore.sessions import SessionLogs\n"
        "from attachstore.sessions.sqlite import SqliteMedium\n"
        "logs = SessionLogs(SqliteMedium(Path(sys.argv[1]), Disk()), lambda reference: None)\n"
        "logs.list()\n"
        "memory = sqlite3.connect(':memory:')\n"
        "try: memory.execute('PRAGMA hard_heap_limit = 1')\n"
        "except MemoryError: pass\n"  # for its own answer: the limit holds
        "try: list(logs.events('s-1'))\n"
        "except ResourceExhaustedError: print('told')\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, str(place.root)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "told\n", done.stderr


def test_a_full_disk_stops_the_append_and_loses_nothing(
    place: SqlitePlace, medium: SqliteMedium, logs: SessionLogs
) -> None:
    log = filled(logs, "s-1", 1)
    log = logs.load("s-1")
    with medium.database.writing() as connection:
        connection.execute(f"PRAGMA max_page_count = {ask(connection, 'page_count')}")

    with pytest.raises(StorageFullError):
        log.append("message", "x" * 50_000)
    with pytest.raises(LogPoisonedError):
        log.append("message", 2)
    assert content_of(logs, "s-1") == [1]
    assert logs.load("s-1").append("message", "x" * 50_000).seq == 2


def test_a_locked_database_is_busy_and_not_for_ever(
    place: SqlitePlace, logs: SessionLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_database, "BUSY_TIMEOUT_S", 0.05)
    filled(logs, "s-1", 1)
    logs.close()
    logs = SessionLogs(place.medium(), confirm)
    log = logs.load("s-1")
    with contextlib.closing(sqlite3.connect(place.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(SessionBusyError, match="locked"):
            logs.create("s-2").append("message", 1)
        assert content_of(logs, "s-1") == [1], "reading goes on"
        other.execute("ROLLBACK")
    assert log.append("message", 2).seq == 2


def test_no_damaged_page_becomes_an_event(place: SqlitePlace, logs: SessionLogs) -> None:
    """Every page of the file in turn: an error of ours, or exactly what was written."""
    filled(logs, "s-1", *[f"{number}" * 300 for number in range(60)])
    expected = content_of(logs, "s-1")
    logs.close()
    whole = place.path.read_bytes()
    refused = 0
    for position in range(100, len(whole), 1021):
        damaged = bytearray(whole)
        damaged[position : position + 8] = b"\xff\0\xff\0\xa5\xa5\0\xff"
        place.path.write_bytes(damaged)
        reading = SessionLogs(SqliteMedium(place.root, ReadOnlyDisk()), confirm)
        seen: list[object] = []
        try:
            for event in reading.events("s-1"):
                seen.append(event.data)  # noqa: PERF401 - the error ends the loop
            reading.list()
        except AttachstoreError:
            refused += 1
        assert seen == expected[: len(seen)]
        with contextlib.suppress(AttachstoreError):
            reading.close()
    assert refused > 10


def test_a_closed_medium_is_closed(place: SqlitePlace, medium: SqliteMedium) -> None:
    filled(SessionLogs(medium, confirm), "s-1", 1)
    medium.close()
    medium.close()

    for call in (medium.open, medium.exists, medium.open_writer):
        with pytest.raises(ValueError, match="closed"):
            call(SessionName.of("s-1"))


# -- a medium that cannot be written -----------------------------------------------------------

READER = """
import sys
from pathlib import Path
from attachstore.disk import Disk
from attachstore.errors import AttachstoreError
from attachstore.sessions import SessionLogs
from attachstore.sessions.sqlite import SqliteMedium

for name in sys.argv[2:]:
    logs = SessionLogs(SqliteMedium(Path(sys.argv[1]) / name, Disk()), lambda reference: None)
    try:
        print(name, [event.data for event in logs.events("s-1")])
    except AttachstoreError as error:
        print(name, error.code)
    try:
        logs.load("s-1")
    except AttachstoreError as error:
        print(name, error.code)
"""


@pytest.mark.root
def test_a_read_only_mount_is_read(place: SqlitePlace, logs: SessionLogs, tmp_path: Path) -> None:
    """Closed, live, and copied without the index of its commits, which cannot be made there."""
    copy_of_a_live_store(place, logs, tmp_path / "without-index")
    (tmp_path / "live").mkdir()
    for path in place.root.glob("sessions.db*"):
        shutil.copy(path, tmp_path / "live" / path.name)
    logs.close()
    (tmp_path / "closed").mkdir()
    shutil.copy(place.path, tmp_path / "closed")
    mount = (
        'mount --bind $0 $0 && mount -o remount,ro,bind $0 && exec "$1" -c "$2" $0 "$3" "$4" "$5"'
    )

    done = subprocess.run(
        [
            *("unshare", "-m", "sh", "-c", mount, str(tmp_path), sys.executable, READER),
            *("closed", "live", "without-index"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    if "unshare failed" in done.stderr or "permission denied" in done.stderr.lower():
        pytest.skip(f"no mount namespace here: {done.stderr.strip()}")
    assert done.stdout.splitlines() == [
        "closed [1, 2]",
        "closed storage-read-only",
        "live [1, 2]",
        "live storage-read-only",
        "without-index storage-read-only",
        "without-index storage-read-only",
    ], done.stderr


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (errno.EMFILE, ResourceExhaustedError),
        (errno.ENOSPC, StorageFullError),
        (errno.EROFS, StorageReadOnlyError),
        (errno.EIO, StorageIOError),
        (errno.EOPNOTSUPP, StorageIOError),
    ],
)
def test_why_sqlite_cannot_open_is_asked_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: type[AttachstoreError]
) -> None:
    """It says "unable to open database file" to all of these."""
    path = tmp_path / "sessions.db"
    path.touch()
    said = sqlite3.OperationalError("unable to open database file")
    said.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN  # type: ignore[misc] # read-only for type checkers
    asked: list[Path] = []
    allow = Disk.open_temporary

    def refuse(disk: Disk, directory: Path, mode: int) -> int:
        asked.append(directory)
        if len(asked) == 1:
            return allow(disk, directory, mode)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Disk, "open_temporary", refuse)
    before = open_descriptors()
    found = translated(said, str(path))

    assert open_descriptors() <= before
    assert (type(found), asked) == (error, [tmp_path] * 2)
