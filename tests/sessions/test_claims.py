"""Claims: while somebody writes, the sessions stay in the medium that the store names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from attachstore import layout
from attachstore.disk import Disk, ReadOnlyDisk
from attachstore.errors import (
    SessionBusyError,
    StorageIOError,
    StoreLayoutError,
    StorePoisonedError,
)
from attachstore.lock import FileLock, acquire
from attachstore.opening import create_medium, medium_of
from attachstore.sessions import SessionLogs
from attachstore.sessions.claims import Claims
from attachstore.sessions.names import SessionName
from tests.conformance.session_place import confirm, content_of, filled
from tests.faults import FailingDisk, RecordingDisk

NAME = SessionName.of("s-1")


def make_store(root: Path, sessions: str) -> Path:
    root.mkdir(exist_ok=True)
    (root / "staging").mkdir(exist_ok=True)
    create_medium(sessions, root, Disk())
    layout.write_marker(Disk(), root, sessions=sessions)
    return root


def rename_medium(root: Path, sessions: str) -> None:
    """As a conversion does it in the end."""
    marker = root / layout.MARKER
    other = "sqlite" if sessions == "jsonl" else "jsonl"
    changed = root / "changed.json"
    changed.write_text(marker.read_text().replace(f'"{other}"', f'"{sessions}"'))
    changed.rename(marker)


@pytest.fixture(params=["jsonl", "sqlite"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def root(tmp_path: Path, kind: str) -> Path:
    return make_store(tmp_path / "store", kind)


@pytest.fixture
def open_logs(root: Path, kind: str) -> Callable[[Disk], SessionLogs]:
    return lambda disk: SessionLogs(medium_of(kind, root, disk), confirm)


def lock_all(root: Path) -> FileLock | None:
    return acquire(Disk(), root / "locks" / ".medium")


def test_writers_share_the_lock_and_keep_converters_out(
    root: Path, open_logs: Callable[[Disk], SessionLogs]
) -> None:
    logs, other = open_logs(Disk()), open_logs(Disk())
    first, second = logs.create("s-1"), other.create("s-2")
    first.append("message", 1)
    second.append("message", 2)

    assert lock_all(root) is None
    logs.close()
    assert lock_all(root) is None
    other.close()
    alone = lock_all(root)
    assert alone is not None
    alone.release()


def test_nobody_writes_while_the_sessions_are_converted(
    root: Path, open_logs: Callable[[Disk], SessionLogs]
) -> None:
    logs = open_logs(Disk())
    alone = lock_all(root)
    assert alone is not None

    with pytest.raises(SessionBusyError, match="which converts the store's sessions"):
        logs.create("s-1").append("message", 1)
    alone.release()
    log = logs.held("s-1") or logs.create("s-1")  # in SQLite even a look needs the lock
    assert log.append("message", 1).seq == 1
    logs.close()


def test_whoever_opened_the_store_before_writes_nothing_after(
    root: Path, kind: str, open_logs: Callable[[Disk], SessionLogs]
) -> None:
    """The event would be acknowledged, and be in a place where nobody looks any more."""
    filled(earlier := open_logs(Disk()), "s-1", 1)
    earlier.close()
    logs = open_logs(Disk())
    log = None
    if kind == "jsonl":
        log = logs.create("s-2")  # in SQLite even a look keeps converters out
    rename_medium(root, "sqlite" if kind == "jsonl" else "jsonl")

    with pytest.raises(StoreLayoutError, match="open the store again"):
        (log or logs.create("s-2")).append("message", 1)
    with pytest.raises(StoreLayoutError, match="open the store again"):
        logs.load("s-1")
    logs.close()


def test_a_reader_is_told_that_the_sessions_are_elsewhere(
    root: Path, kind: str, open_logs: Callable[[Disk], SessionLogs]
) -> None:
    """Not that there are none."""
    filled(earlier := open_logs(Disk()), "s-1", 1)
    earlier.close()
    reading = open_logs(ReadOnlyDisk())
    assert content_of(reading, "s-1") == [1]
    kept = root / "kept"
    kept.mkdir()
    for name in layout.SESSION_NAMES[kind]:
        if (root / name).exists():
            (root / name).rename(kept / name)
    rename_medium(root, "sqlite" if kind == "jsonl" else "jsonl")

    for look in (lambda: content_of(reading, "s-1"), reading.list, lambda: reading.inspect("s-1")):
        with pytest.raises(StoreLayoutError, match="open the store again"):
            look()
    reading.close()


def test_what_the_store_says_is_durable_before_it_is_believed(tmp_path: Path) -> None:
    """A conversion may have been killed after its last rename and before its sync."""
    root = make_store(tmp_path / "store", "jsonl")
    disk = RecordingDisk(root, methods={"sync_directory", "open_read"})
    claims = Claims(disk, root, "jsonl")

    for _ in range(2):
        claims.take(NAME).release()

    assert disk.trace == [("sync_directory", "."), ("open_read", "attachstore.json")]


def test_after_a_failed_sync_of_it_nothing_is_claimed(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", "jsonl")
    claims = Claims(FailingDisk(1, methods={"sync_directory"}), root, "jsonl")

    with pytest.raises(StorageIOError):
        claims.take(NAME)
    with pytest.raises(StorePoisonedError):
        claims.take(NAME)
    alone = lock_all(root)
    assert alone is not None
    alone.release()


def test_without_a_directory_for_locks_writers_are_kept_out_all_the_same(tmp_path: Path) -> None:
    """Some tools do not restore empty directories."""
    root = make_store(tmp_path / "store", "jsonl")
    (root / "locks").rmdir()
    claim = Claims(Disk(), root, "jsonl").take(NAME)

    assert lock_all(root) is None
    claim.release()
    alone = lock_all(root)
    assert alone is not None
    alone.release()


def test_a_session_that_is_elsewhere_is_not_said_to_be_missing(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", "jsonl")
    medium = medium_of("jsonl", root, Disk())
    assert not medium.exists(NAME)
    rename_medium(root, "sqlite")

    with pytest.raises(StoreLayoutError, match="open the store again"):
        medium.exists(NAME)
