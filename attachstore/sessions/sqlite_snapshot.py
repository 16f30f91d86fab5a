"""Snapshot: the database file read alone, by somebody who cannot make SQLite's other files.

Readers and writers take turns by `-wal` and `-shm`, which SQLite makes when they are not there.
On a medium or in a directory that cannot be written it cannot. If no commit waits in `-wal` then,
the file alone is the whole database, and SQLite reads it as `immutable`. But its owner may come
and write at any time, and an immutable connection takes no lock and notices nothing.

Invariants

 (1) What a call has read counts only if the file has the status afterwards that it had before
     `-wal` was seen to be empty. Commits reach the file by writes to it, each of which sets the
     time of change (ctime), and no program can set that to a value of its choice.
 (2) The file was left alone for longer than a tick of those times before the first status is
     taken: a second write in the tick of the first would leave no trace.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from attachstore.disk import Disk, storage_errors
from attachstore.errors import StorageReadOnlyError

_TRIES = 50
"""How often SQLite is asked again while somebody writes: for seconds."""
TICK_S = 0.1
"""Longer than the ticks in which file systems set times."""
WHOLE_SECONDS_S = 2.1
"""The same where they set whole, or even, seconds."""
_PAUSE_S = 0.01
_COMMITS = ("-wal", "-journal")
_INDEX = "-shm"

State = tuple[int, int, int, int]
"""Of a file: device, inode, bytes, time of change in ns."""


class Snapshot(sqlite3.Connection):
    """An immutable connection. Ask `check` before anything that it has read is handed out."""

    _disk: Disk
    _path: Path
    _state: State

    def begin(self, disk: Disk, path: Path, state: State) -> None:
        """To be called once, with what the file was before it was opened."""
        self._disk, self._path, self._state = disk, path, state

    def is_current(self) -> bool:
        """Whether it may be used for another call: nobody has changed or committed anything."""
        return self._now() == self._state and not _waiting(self._disk, self._path)

    def check(self) -> None:
        """Raises StorageReadOnlyError if the file has changed since then; closes itself."""
        if self._now() != self._state:
            self.close()
            reason = (
                "another process wrote to it while it was read, and who may not write in its "
                "directory cannot take turns with writers: repeat the call"
            )
            raise StorageReadOnlyError(where=str(self._path), reason=reason)

    def _now(self) -> State | None:
        """What the file is by now. Closes itself if the medium does not say."""
        try:
            return _state(self._disk, self._path)
        except BaseException:
            self.close()
            raise


def open_to_read(
    disk: Disk,
    path: Path,
    together: Callable[[], sqlite3.Connection],
    alone: Callable[[str, type[sqlite3.Connection]], sqlite3.Connection],
) -> sqlite3.Connection:
    """What `together` opens, which takes turns with writers; a Snapshot where that cannot be.

    Raises StorageReadOnlyError if commits wait that SQLite cannot read here, and sqlite3.Error.
    """
    tries = _TRIES
    while True:
        try:
            return together()
        except sqlite3.OperationalError as error:
            if not _has_no_place(error):
                raise
            state, tries = _undisturbed(disk, path), tries - 1
            if state is None and not tries:
                _check_indexed(disk, path, error)
                raise
        if state is not None:
            connection = alone("mode=ro&immutable=1", Snapshot)
            assert isinstance(connection, Snapshot)  # noqa: S101 - for type checkers
            connection.begin(disk, path, state)
            return connection


def _has_no_place(error: sqlite3.OperationalError) -> bool:
    """Whether SQLite says that it cannot make its other files."""
    code = error.sqlite_errorcode
    return code & 0xFF == sqlite3.SQLITE_CANTOPEN or code == sqlite3.SQLITE_READONLY_DIRECTORY


def _undisturbed(disk: Disk, path: Path) -> State | None:
    """What the file is, if it is the whole database; None, after a pause, to ask SQLite again."""
    now_ns = time.time_ns()  # before the status: what is written after that has a later time
    state = _state(disk, path)
    if state is None or _waiting(disk, path):
        time.sleep(_PAUSE_S)
        return None
    *_, changed_ns = state
    tick_s = TICK_S if changed_ns % 1_000_000_000 else WHOLE_SECONDS_S
    if abs(now_ns - changed_ns) < tick_s * 1e9:
        time.sleep(tick_s)
        return None
    return state


def _check_indexed(disk: Disk, path: Path, error: sqlite3.Error) -> None:
    """Asked last: SQLite, when it closes, removes the index a moment before the commits."""
    waiting = _waiting(disk, path)
    if waiting and _status(disk, path, _INDEX) is None:
        reason = (
            f"{waiting}, and their index, {path.name}{_INDEX}, cannot be made on this medium or by "
            "this user: open the store once where, and as somebody by whom, it can be written"
        )
        raise StorageReadOnlyError(where=str(path), reason=reason) from error


def _waiting(disk: Disk, path: Path) -> str | None:
    """Which commits are not in the file itself; None: none."""
    for suffix in _COMMITS:
        status = _status(disk, path, suffix)
        if status is not None and status.st_size:
            return f"{status.st_size} bytes of commits are in {path.name}{suffix}"
    return None


def _state(disk: Disk, path: Path) -> State | None:
    status = _status(disk, path, "")
    if status is None:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns


def _status(disk: Disk, path: Path, suffix: str) -> os.stat_result | None:
    path = path.with_name(path.name + suffix)
    with storage_errors(path):
        try:
            return disk.status(path)
        except FileNotFoundError:
            return None
