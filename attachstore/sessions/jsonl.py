"""JsonlMedium: each session's log as a file of JSON lines on a local file system.

    sessions/<segment>/log.jsonl    the log
    sessions/<segment>/torn/        what was ever cut off it, for diagnosis
    sessions/.deleted-<random>/     a deleted session on its way out
    locks/<segment>                 the writer's lock (claims.py)

Invariants

 (1) `log.jsonl` appears whole: its bytes are synced before it is linked, and link refuses to
     replace. Then the session's directory and `sessions/` are synced, whoever made them.
 (2) What lies below a session's directory is changed only under its lock, so whatever else is
     there when the lock is taken was left by a crash.
 (3) A deleted session is gone once `sessions/` is synced after the rename (removal.py).
 (4) Reading needs no lock, creates nothing and works on a read-only medium.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Self

from attachstore.disk import (
    Disk,
    ensure_directory,
    is_regular,
    remove_quietly,
    storage_errors,
)
from attachstore.errors import (
    SessionExistsError,
    SessionMissingError,
    StoreLayoutError,
)
from attachstore.lock import FileLock
from attachstore.sessions.claims import LOCKS, take_claim
from attachstore.sessions.durable_names import DurableNames
from attachstore.sessions.log_file import TORN, LogFile
from attachstore.sessions.names import SessionName
from attachstore.sessions.new_log import NEW_PREFIX, NewLog
from attachstore.sessions.removal import DELETED_PREFIX, remove_session, sweep

LOG = "log.jsonl"
_NO_FILE = (FileNotFoundError, NotADirectoryError)


class JsonlMedium:
    """A SessionMedium below a store's root. Making one touches nothing."""

    def __init__(self, root: Path, disk: Disk) -> None:
        self._disk = disk
        self._root = root
        self._sessions = root / "sessions"
        self._locks = root / LOCKS
        self._names = DurableNames(disk, str(self._sessions))
        self._swept = False

    @classmethod
    def create(cls, root: Path, disk: Disk) -> Self:
        """Make the directories, durably; `root` must be there. They may exist already."""
        medium = cls(root, disk)
        with storage_errors(root):
            medium._ensure_directories()
        return medium

    @property
    def location(self) -> str:
        return str(self._sessions)

    def where(self, name: SessionName) -> str:
        return str(self._log_path(name))

    # -- writing ---------------------------------------------------------------------------

    def claim(self, name: SessionName) -> FileLock:
        self._names.check()
        lock = take_claim(self._disk, self._root, name)
        if not self._swept:
            self._swept = True
            sweep(self._disk, self._sessions)
        return lock

    def add(self, name: SessionName, content: Iterable[bytes]) -> LogFile:
        self._names.check()
        directory = self._directory(name)
        with storage_errors(directory):
            try:
                ensure_directory(self._disk, directory)
            except FileNotFoundError:
                self._ensure_directories()
                ensure_directory(self._disk, directory)
            self._remove_stale(name)
            new = NewLog(self._disk, directory)
            try:
                new.fill(content)
                self._publish(new, name)
            except BaseException:
                new.abandon()
                with contextlib.suppress(OSError):  # not empty: there is a log, or a torn tail
                    self._disk.remove_directory(directory)
                raise
        return LogFile(self._disk, new.descriptor, self._log_path(name), name, self._names)

    def open_writer(self, name: SessionName) -> LogFile:
        self._names.check()
        with storage_errors(self._directory(name)):
            self._remove_stale(name)
            path = self._log_path(name)
            descriptor = self._open(name, path, self._disk.open_write)
        return LogFile(self._disk, descriptor, path, name, self._names)

    def delete(self, name: SessionName) -> None:
        self._names.check()
        with storage_errors(self._directory(name)):
            try:
                remove_session(self._disk, self._directory(name), self._names)
            except _NO_FILE:
                raise self._missing(name) from None
            # Whoever opened the lock file before this notices that it leads nowhere now.
            remove_quietly(self._disk, self._locks / name.segment)

    def close(self) -> None:
        return

    # -- reading ---------------------------------------------------------------------------

    def open(self, name: SessionName) -> LogFile:
        path = self._log_path(name)  # made once: a listing opens thousands
        with storage_errors(path):
            descriptor = self._open(name, path, self._disk.open_read)
        return LogFile(self._disk, descriptor, path, name, self._names)

    def exists(self, name: SessionName) -> bool:
        with storage_errors(self._log_path(name)):
            return self._has_log(name)

    def names(self) -> Iterator[SessionName]:
        with storage_errors(self._sessions):
            segments = self._segments()
        for segment in segments:
            name = SessionName.from_segment(segment)
            if name is not None and self._may_have_log(name):
                yield name

    def strays(self) -> Iterator[str]:
        with storage_errors(self._sessions):
            segments = self._segments()
        for segment in segments:
            path = self._sessions / segment
            if segment.startswith(DELETED_PREFIX) or SessionName.from_segment(segment) is None:
                yield str(path)
                continue
            with storage_errors(path):
                try:
                    inside = self._disk.names(path)
                except FileNotFoundError:
                    continue  # deleted since it was listed
                except NotADirectoryError:
                    yield str(path)
                    continue
            for entry in inside:
                if entry not in {LOG, TORN} and not entry.startswith(NEW_PREFIX):
                    yield str(path / entry)

    # -- parts; they raise OSError ---------------------------------------------------------

    def _publish(self, new: NewLog, name: SessionName) -> None:
        path = self._log_path(name)
        try:
            new.publish(path)
        except FileExistsError:
            raise SessionExistsError(where=str(path), session=name.id) from None
        self._names.sync(path.parent, undo=lambda: new.take_back(path))
        self._names.sync(self._sessions, undo=lambda: new.take_back(path))

    def _open(self, name: SessionName, path: Path, opener: Callable[[Path], int]) -> int:
        try:
            descriptor = opener(path)
        except _NO_FILE:
            raise self._missing(name) from None
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.EISDIR, errno.ENXIO}:
                raise self._not_a_file(path) from error
            raise
        regular = False
        try:
            regular = is_regular(self._disk.status_open(descriptor))
        finally:
            if not regular:
                self._disk.close(descriptor)
        if not regular:
            raise self._not_a_file(path)
        return descriptor

    def _remove_stale(self, name: SessionName) -> None:
        """Remove what a killed creation left; we hold the lock, so nobody is at it."""
        directory = self._directory(name)
        try:
            entries = self._disk.names(directory)
        except _NO_FILE:
            return
        for entry in entries:
            if entry.startswith(NEW_PREFIX):
                with contextlib.suppress(FileNotFoundError):
                    self._disk.unlink(directory / entry)

    def _ensure_directories(self) -> None:
        ensure_directory(self._disk, self._sessions)
        ensure_directory(self._disk, self._locks)
        self._disk.sync_directory(self._root)

    def _segments(self) -> list[str]:
        try:
            return self._disk.names(self._sessions)
        except FileNotFoundError:
            return []

    def _has_log(self, name: SessionName) -> bool:
        try:
            self._disk.status(self._log_path(name))
        except _NO_FILE:
            return False
        return True

    def _may_have_log(self, name: SessionName) -> bool:
        try:
            return self._has_log(name)
        except OSError:  # whoever opens it is told why; one bad entry must not hide the others
            return True

    def _directory(self, name: SessionName) -> Path:
        return self._sessions / name.segment

    def _log_path(self, name: SessionName) -> Path:
        return self._sessions.joinpath(name.segment, LOG)

    def _missing(self, name: SessionName) -> SessionMissingError:
        return SessionMissingError(where=self.where(name), session=name.id)

    def _not_a_file(self, path: Path) -> StoreLayoutError:
        return StoreLayoutError(where=str(path), reason="a session's log is not a regular file")
