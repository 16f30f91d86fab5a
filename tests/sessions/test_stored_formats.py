"""Databases as earlier versions left them, kept as files: each newer version opens them.

Whoever adds a migration adds the database that the version before it made: stored/format-<n>.db.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from attachstore.disk import Disk, ReadOnlyDisk
from attachstore.errors import StorageReadOnlyError, StoreVersionError
from attachstore.layout import DATABASE
from attachstore.sessions import SessionLogs
from attachstore.sessions.sqlite import SqliteMedium
from attachstore.sessions.sqlite_database import Database
from attachstore.sessions.sqlite_format import MIGRATIONS, first_bytes
from tests.conformance.session_place import REFERENCE, confirm, content_of

STORED = Path(__file__).parent / "stored"
FORMATS = range(1, len(MIGRATIONS) + 1)
NEXT = (*MIGRATIONS, ("ALTER TABLE session ADD COLUMN note TEXT",))
EVENTS = [None, {"file": REFERENCE}, 0, 1, 2]
HEAD_CHAIN = "af4edd0ccb68a71366c0c4a5631bb269"


def opened(root: Path, disk: Disk) -> SessionLogs:
    return SessionLogs(SqliteMedium(root, disk), confirm)


def opened_by_the_next(root: Path, disk: Disk) -> SessionLogs:
    medium = SqliteMedium(root, disk)
    medium.database = Database(root / DATABASE, disk, medium.claims, migrations=NEXT)
    return SessionLogs(medium, confirm)


@pytest.fixture(params=FORMATS)
def root(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    shutil.copy(STORED / f"format-{request.param}.db", tmp_path / DATABASE)
    return tmp_path


def version(root: Path) -> int:
    with contextlib.closing(sqlite3.connect(root / DATABASE)) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


def schema(content: bytes) -> list[str]:
    connection = sqlite3.connect(":memory:")
    with contextlib.closing(connection):
        # A database in WAL mode cannot be opened in memory: bytes 18 and 19 say that it is.
        connection.deserialize(content[:18] + b"\1\1" + content[20:])
        return [sql for (sql,) in connection.execute("SELECT sql FROM sqlite_schema") if sql]


def test_every_format_there_was_is_stored() -> None:
    assert {path.name for path in STORED.iterdir()} == {f"format-{n}.db" for n in FORMATS}


@pytest.mark.parametrize("number", FORMATS)
def test_a_migration_that_was_released_is_never_changed(number: int) -> None:
    stored = (STORED / f"format-{number}.db").read_bytes()

    assert schema(stored) == schema(first_bytes(MIGRATIONS[:number]))


@pytest.mark.parametrize("opening", [opened, opened_by_the_next], ids=["this", "the next"])
def test_what_an_earlier_version_stored_is_read_and_gone_on_with(
    root: Path, opening: Callable[[Path, Disk], SessionLogs]
) -> None:
    logs = opening(root, Disk())

    assert content_of(logs, "s-1") == EVENTS
    view = logs.verify("s-1")
    assert (view.header.title, view.head_seq, view.head_chain) == ("Stored", 5, HEAD_CHAIN)
    assert content_of(logs, "s-1.fork") == EVENTS[:2]
    assert logs.medium.cuts(logs.load("s-1").name) == 1
    assert logs.append("s-1", "message", "new").seq == 7, "the turn that was open was closed"
    assert logs.fork("s-1", id="s-2").head == 7
    logs.close()
    assert version(root) == len(NEXT if opening is opened_by_the_next else MIGRATIONS)


def test_read_only_it_is_read_by_its_own_version(root: Path) -> None:
    before = (root / DATABASE).read_bytes()
    assert content_of(opened(root, ReadOnlyDisk()), "s-1") == EVENTS
    with pytest.raises(StorageReadOnlyError, match="a writer must bring it"):
        content_of(opened_by_the_next(root, ReadOnlyDisk()), "s-1")

    assert (root / DATABASE).read_bytes() == before


def test_once_migrated_the_earlier_version_leaves_it_alone(root: Path) -> None:
    logs = opened_by_the_next(root, Disk())
    logs.load("s-1")
    logs.close()

    with pytest.raises(StoreVersionError):
        opened(root, Disk()).list()
    assert version(root) == len(NEXT)
