"""The SQLite medium keeps the contract, and its database is what the reference says."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from attachstore.disk import Disk, ReadOnlyDisk
from attachstore.errors import (
    LogDamagedError,
    LogPoisonedError,
    SessionMissingError,
    StorageReadOnlyError,
    StoreLayoutError,
)
from attachstore.sessions import JsonlMedium, SessionLogs
from attachstore.sessions.sqlite import SqliteMedium
from tests.conformance.session_contract import SessionContractConformance
from tests.conformance.session_damage import SessionDamageConformance
from tests.conformance.session_kills import SessionKillConformance
from tests.conformance.session_medium import (
    REFERENCE,
    SessionMediumConformance,
    confirm,
    content_of,
    filled,
)
from tests.conformance.session_suffix import SessionSuffixConformance
from tests.sessions.places import JsonlPlace, SqlitePlace


@pytest.fixture
def place(tmp_path: Path) -> SqlitePlace:
    return SqlitePlace(tmp_path)


@pytest.fixture
def medium(place: SqlitePlace) -> SqliteMedium:
    return place.medium()


@pytest.fixture
def logs(medium: SqliteMedium) -> SessionLogs:
    return SessionLogs(medium, confirm)


class TestSqliteMedium(SessionMediumConformance):
    pass


class TestDamageInSqlite(SessionDamageConformance):
    pass


class TestSuffixInSqlite(SessionSuffixConformance):
    pass


class TestContractInSqlite(SessionContractConformance):
    pass


class TestKillsInSqlite(SessionKillConformance):
    pass


def rows(place: SqlitePlace, query: str, *values: object) -> list[Any]:
    with place.connection() as connection:
        return connection.execute(query, values).fetchall()


# -- what is stored ----------------------------------------------------------------------------


def test_the_lines_are_those_of_every_medium(place: SqlitePlace, tmp_path: Path) -> None:
    """So the chains of two sessions compare, wherever they are kept."""
    (tmp_path / "jsonl").mkdir()
    other = JsonlPlace(tmp_path / "jsonl")

    def clock() -> datetime:
        return datetime(2026, 1, 2, tzinfo=UTC)

    for medium in (place.medium(), other.medium()):
        logs = SessionLogs(medium, confirm, clock=clock)
        log = logs.create("s-1", meta={"title": "T"}, cwd="/")
        log.append("turn/start", {"n": 1.50, "ref": REFERENCE})
        log.append_many([("message", "\u00e9\u2028"), ("message", ["x" * 9000])])
        log.close()
        logs.load("s-1")
        logs.fork("s-1", id="s-2", at=2)
        logs.close()

    for session_id in ("s-1", "s-2"):
        assert (
            place.read(session_id).partition(b"\n")[2] == other.read(session_id).partition(b"\n")[2]
        )


def test_a_row_is_a_line_at_its_offset(place: SqlitePlace, logs: SessionLogs) -> None:
    filled(logs, "s-1", 1, 2)
    whole = place.read("s-1")

    offset_bytes = 0
    for line, row in zip(
        whole.splitlines(keepends=True),
        rows(place, "SELECT offset_bytes, bytes FROM line ORDER BY 1"),
        strict=True,
    ):
        assert row == (offset_bytes, line)
        offset_bytes += len(line)


def test_every_append_and_every_cut_is_one_revision(place: SqlitePlace, logs: SessionLogs) -> None:
    def revision() -> int:
        return rows(place, "SELECT revision FROM session")[0][0]

    log = logs.create("s-1")
    log.append("message", 1)
    assert revision() == 0
    log.append("message", 2)
    log.append_many([("message", each) for each in range(5)])
    assert revision() == 2
    log.close()
    place.write("s-1", place.read("s-1") + b"torn")
    logs.load("s-1")
    assert revision() == 3
    assert rows(place, "SELECT revision, bytes FROM torn") == [(3, b"torn")]


def test_a_repair_with_its_closers_is_one_revision(place: SqlitePlace, logs: SessionLogs) -> None:
    """One transaction: nobody finds the turn closed and the tail there, or the other way."""
    log = logs.create("s-2")
    log.append("turn/start", 1)
    log.close()
    place.write("s-2", place.read("s-2") + b"torn")

    assert logs.load("s-2").head == 2

    assert rows(place, "SELECT revision FROM session") == [(1,)]
    assert rows(place, "SELECT revision, bytes FROM torn") == [(1, b"torn")]
    assert logs.verify("s-2").head_seq == 2


def test_a_deletion_leaves_no_row_and_gives_the_space_back(
    place: SqlitePlace, logs: SessionLogs
) -> None:
    filled(logs, "kept", 1)
    filled(logs, "s-1", *["x" * 10_000] * 50)
    place.write("s-1", place.read("s-1") + b"torn")
    logs.load("s-1").close()
    before = rows(place, "PRAGMA page_count")[0][0]

    logs.delete("s-1")

    assert rows(place, "SELECT count(*) FROM session") == [(1,)]
    assert rows(place, "SELECT count(DISTINCT session) FROM line") == [(1,)]
    assert rows(place, "SELECT count(*) FROM torn") == [(0,)]
    assert rows(place, "PRAGMA page_count")[0][0] < before - 100
    assert list(logs.medium.strays()) == []


def test_a_closed_store_is_one_file(place: SqlitePlace, logs: SessionLogs) -> None:
    filled(logs, "s-1", 1)
    logs.close()

    assert {path.name for path in place.root.iterdir()} == {"locks", "sessions.db", "staging"}


def test_what_belongs_to_no_session_is_named(place: SqlitePlace, logs: SessionLogs) -> None:
    filled(logs, "s-1", 1)
    with place.connection() as connection:
        connection.execute("INSERT INTO session VALUES (70, '..', 0)")
        connection.execute("INSERT INTO line VALUES (71, 0, x'00')")

    assert [stray.rpartition("sessions.db")[2] for stray in logs.medium.strays()] == [
        "#..",
        ": lines of session 71",
    ]
    assert [summary.id for summary in logs.list()] == ["s-1"]


# -- rows that others touched ------------------------------------------------------------------


def test_a_lost_row_is_damage_where_it_was(place: SqlitePlace, logs: SessionLogs) -> None:
    """Everything after it stays where it was, and is found again."""
    filled(logs, "s-1", 1, 2, 3, 4)
    lines = place.read("s-1").splitlines(keepends=True)
    start = len(lines[0] + lines[1])
    with place.connection() as connection:
        connection.execute("DELETE FROM line WHERE offset_bytes = ?", (start,))

    with pytest.raises(LogDamagedError) as damage:
        logs.verify("s-1")
    assert (damage.value.line, damage.value.offset_bytes) == (3, start)
    resynced = [(each.data, each.line) for each in logs.events("s-1", damaged="resync")]
    assert resynced == [(1, 2), (3, 4), (4, 5)]
    assert logs.repair("s-1").head_seq == 1
    assert place.torn("s-1") == [lines[3] + lines[4]]


def test_rows_that_cannot_be_a_log_are_refused(place: SqlitePlace, logs: SessionLogs) -> None:
    for offset_bytes in (10, 1 << 40):
        filled(logs, "s-1", 1)
        with place.connection() as connection:
            insert = "INSERT INTO line SELECT number, ?, x'7b' FROM session"
            connection.execute(insert, (offset_bytes,))
        with pytest.raises(StoreLayoutError):
            logs.verify("s-1")
        logs.delete("s-1")


def test_a_cut_inside_a_row_keeps_what_is_before_it(place: SqlitePlace, logs: SessionLogs) -> None:
    """Rows of ours are lines; another program may have joined them."""
    filled(logs, "s-1", 1, 2)
    whole = place.read("s-1")
    with place.connection() as connection:
        connection.execute("DELETE FROM line WHERE offset_bytes > 0")
        connection.execute("UPDATE line SET bytes = ?", (whole + b"torn",))

    assert logs.load("s-1").append("message", 3).seq == 3
    assert place.read("s-1").startswith(whole)
    assert place.torn("s-1") == [b"torn"]


def test_a_changed_revision_stops_the_writer(place: SqlitePlace, logs: SessionLogs) -> None:
    """Even if the log has the length that the writer knows."""
    log = logs.create("s-1")
    log.append("message", 1)
    before = place.read("s-1")
    with place.connection() as connection:
        connection.execute("UPDATE session SET revision = 9")

    with pytest.raises(LogPoisonedError, match="revision 9"):
        log.append("message", 2)
    assert place.read("s-1") == before


def test_a_session_that_vanishes_is_missing_not_short(
    place: SqlitePlace, logs: SessionLogs
) -> None:
    """An open file outlives its name, rows do not: a reader must not take that for the end."""
    log = logs.create("s-1")
    log.append_many([("message", "x" * 1000)] * 3000)  # more than one block
    reading = SessionLogs(place.medium(), confirm)
    events = reading.events("s-1")
    next(events)
    logs.delete("s-1")
    filled(logs, "s-1", "another")

    with pytest.raises(SessionMissingError):
        list(events)


# -- forks -------------------------------------------------------------------------------------


def test_a_fork_copies_rows_inside_the_database(medium: SqliteMedium, logs: SessionLogs) -> None:
    filled(logs, "s-1", *range(500))
    statements: list[str] = []
    with medium.database.writing() as connection:
        connection.set_trace_callback(statements.append)

    logs.fork("s-1", id="s-2")

    inserts = [each for each in statements if each.startswith("INSERT INTO line")]
    assert len(inserts) == 2, "the header, then all others"
    assert content_of(logs, "s-2") == list(range(500))


def test_a_parent_that_changes_under_a_fork_leaves_no_fork(
    place: SqlitePlace, medium: SqliteMedium, logs: SessionLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is copied must end in the chain that was checked."""
    filled(logs, "s-1", 1, 2)
    filled(logs, "other", 1, 7)
    copy = medium.add_copy

    def add_copy(*arguments: Any, **options: Any) -> Any:
        place.write("s-1", place.read("other"))
        return copy(*arguments, **options)

    monkeypatch.setattr(medium, "add_copy", add_copy)

    with pytest.raises(LogDamagedError):
        logs.fork("s-1", id="s-2")
    assert [summary.id for summary in logs.list()] == ["other", "s-1"]
    assert rows(place, "SELECT count(DISTINCT session) FROM line") == [(2,)]


# -- threads -----------------------------------------------------------------------------------


def test_sessions_are_written_and_read_by_many_threads(
    place: SqlitePlace, logs: SessionLogs
) -> None:
    """One connection writes at a time; readers see prefixes, and nothing waits for ever."""
    done = threading.Event()

    def write(name: str) -> None:
        log = logs.create(name)
        for number in range(25):
            log.append_many([("message", number * 2), ("message", number * 2 + 1)])

    def read(reader: SessionLogs) -> None:
        while not done.is_set():
            for summary in reader.list():
                content = content_of(reader, summary.id)
                assert content == list(range(len(content)))
                assert len(content) % 2 == 0, "a batch is there, or is not"

    with ThreadPoolExecutor(6) as pool:
        readers = [pool.submit(read, logs), pool.submit(read, SessionLogs(place.medium(), confirm))]
        writers = [pool.submit(write, f"s-{number}") for number in range(4)]
        try:
            for writer in writers:
                writer.result()
        finally:
            done.set()
        for reader in readers:
            reader.result()

    assert [logs.verify(f"s-{number}").head_seq for number in range(4)] == [50] * 4


# -- reading only ------------------------------------------------------------------------------


def test_a_medium_opened_read_only_is_read_and_never_written(
    place: SqlitePlace, logs: SessionLogs
) -> None:
    filled(logs, "s-1", 1, 2)
    place.write("s-1", place.read("s-1") + b"torn")
    logs.close()
    before = place.path.read_bytes()
    reading = SessionLogs(SqliteMedium(place.root, ReadOnlyDisk()), confirm)

    assert content_of(reading, "s-1") == [1, 2]
    assert reading.verify("s-1").head_seq == 2
    assert len(reading.list()) == 1
    calls: list[Any] = [
        lambda: reading.load("s-1"),
        lambda: reading.create("s-2").append("message", 1),
        lambda: reading.fork("s-1", id="s-3"),
        lambda: reading.delete("s-1"),
        lambda: reading.repair("s-1"),
    ]
    for call in calls:
        with pytest.raises(StorageReadOnlyError):
            call()
    reading.close()
    assert place.path.read_bytes() == before


def test_a_reader_beside_a_writer_sees_what_was_acknowledged(
    place: SqlitePlace, logs: SessionLogs
) -> None:
    reading = SessionLogs(SqliteMedium(place.root, ReadOnlyDisk()), confirm)
    log = logs.create("s-1")
    for number in range(10):
        log.append("message", number)
        assert content_of(reading, "s-1") == list(range(number + 1))


def test_media_of_one_store_do_not_hide_each_other(tmp_path: Path) -> None:
    """Both kinds may lie in one directory, as `session convert` needs it."""
    place = SqlitePlace(tmp_path)
    filled(SessionLogs(place.medium(), confirm), "s-1", 1)
    filled(SessionLogs(JsonlMedium.create(tmp_path, Disk()), confirm), "s-2", 2)

    assert [each.id for each in SessionLogs(place.medium(), confirm).list()] == ["s-1"]
