"""JsonlMedium: each session's log as a file of JSON lines on a local file system.

    sessions/<segment>/log.jsonl    the log
    sessions/<segment>/log.jsonl.zst    or the log, sealed (sealing.py)
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
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Self

from attachstore.confinement import refuse_second_name
from attachstore.disk import (
    Disk,
    ensure_directory,
    is_regular,
    layout_errors,
    remove_quietly,
    storage_errors,
)
from attachstore.errors import SessionExistsError, SessionMissingError, StoreLayoutError
from attachstore.layout import JSONL, LOCKS
from attachstore.promise import Promise
from attachstore.sessions import sealing, zstd_frames
from attachstore.sessions.claims import Claims, SessionClaim
from attachstore.sessions.glance import Glance
from attachstore.sessions.log_file import LogFile
from attachstore.sessions.medium import LogReader, LogWriter
from attachstore.sessions.names import SessionName
from attachstore.sessions.new_log import NEW_PREFIX, NewLog
from attachstore.sessions.removal import remove_session, sweep
from attachstore.sessions.sealed_glance import glance_at_either
from attachstore.sessions.sealed_log import SEALED, SealedLog
from attachstore.sessions.sealed_writer import SealedWriter
from attachstore.sessions.strays import LOG, stray_paths
from attachstore.sessions.torn import TORN
from attachstore.threads import CancelFlag


@contextlib.contextmanager
def _medium_errors(path: Path) -> Generator[None]:
    """What a medium's disk says as our own errors: a wrong thing at a path of ours is layout."""
    with storage_errors(path), layout_errors(path):
        yield


class JsonlMedium:
    """A SessionMedium below a store's root. Making one touches nothing."""

    def __init__(self, root: Path, disk: Disk) -> None:
        self._disk = disk
        disk.confine(root)
        self._root = root
        self._sessions = root / "sessions"
        self._locks = root / LOCKS
        self._promise = Promise(disk, str(self._sessions))
        self._swept = False
        self.claims = Claims(disk, root, JSONL)

    @classmethod
    def create(cls, root: Path, disk: Disk) -> Self:
        """Make the directories, durably; `root` must be there. They may exist already."""
        medium = cls(root, disk)
        with _medium_errors(root):
            medium._ensure_directories()
        return medium

    @property
    def location(self) -> str:
        return str(self._sessions)

    def where(self, name: SessionName) -> str:
        path, sealed_path = self._log_path(name), self._sealed_path(name)
        with contextlib.suppress(OSError):  # whoever opens it is told why
            if not self._is_there(path) and self._is_there(sealed_path):
                path = sealed_path
        return str(path)

    # -- writing ---------------------------------------------------------------------------

    def claim(self, name: SessionName) -> SessionClaim:
        self._promise.check()
        claim = self.claims.take(name)
        try:
            if not self._swept:
                self._swept = True
                sweep(self._disk, self._sessions)
        except BaseException:
            claim.release()
            raise
        return claim

    def add(self, name: SessionName, content: Iterable[bytes]) -> LogWriter:
        self._promise.check()
        directory = self._directory(name)
        with _medium_errors(directory):
            try:
                ensure_directory(self._disk, directory)
            except FileNotFoundError:
                self._ensure_directories()
                ensure_directory(self._disk, directory)
            self._remove_stale(name)
            if self._is_there(self._sealed_path(name)):
                raise SessionExistsError(where=self.where(name), session=name.id)
            new = NewLog(self._disk, directory)
            try:
                new.fill(content)
                self._publish(new, name)
            except BaseException:
                new.abandon()
                with contextlib.suppress(OSError):  # not empty: there is a log, or a torn tail
                    self._disk.remove_directory(directory)
                raise
        return LogFile(self._disk, new.descriptor, self._log_path(name), name, self._promise)

    def open_writer(self, name: SessionName) -> LogWriter:
        self._promise.check()
        path, sealed_path = self._log_path(name), self._sealed_path(name)
        with _medium_errors(self._directory(name)):
            self._remove_stale(name)
            is_sealed = self._is_there(sealed_path)
            if is_sealed and self._is_there(path):
                is_sealed = self._settle(name)
        if is_sealed:
            return self._open_sealed_writer(name)
        with _medium_errors(path):
            descriptor = self._open(name, path, self._disk.open_write)
        return LogFile(self._disk, descriptor, path, name, self._promise)

    def seal(
        self,
        name: SessionName,
        check: Callable[[LogReader], None],
        cancel: CancelFlag | None = None,
    ) -> int:
        with self.open_writer(name) as log:
            if isinstance(log, SealedLog) and log.is_packed():
                return log.stored_bytes()
        self.unseal(name, cancel)  # what was appended to it is packed with the rest
        with self.open_writer(name) as raw:
            sealed_path = self._sealed_path(name)

            def check_sealed(descriptor: int) -> None:
                # Whose descriptor is not closed here.
                check(SealedLog(self._disk, descriptor, sealed_path, self._promise))

            with _medium_errors(sealed_path):
                frames = zstd_frames.compress(sealing.blocks_of(raw, cancel))
                sealing.publish(self._disk, self._promise, sealed_path, frames, check_sealed)
                sealing.remove(self._disk, self._promise, self._log_path(name))
        with self._open_sealed(name) as sealed:
            return sealed.stored_bytes()

    def unseal(self, name: SessionName, cancel: CancelFlag | None = None) -> None:
        self._promise.check()
        path, sealed_path = self._log_path(name), self._sealed_path(name)
        with _medium_errors(self._directory(name)):
            self._remove_stale(name)
            if not self._is_there(sealed_path):
                return
            if self._is_there(path) and not self._settle(name):
                return
            with self._open_sealed_writer(name) as sealed:
                whole_bytes = sealed.check()
                is_whole = sealing.is_all(sealed, name, sealed_path, whole_bytes)
                content = sealing.blocks_of(sealed, cancel, whole_bytes)
                sealing.publish(self._disk, self._promise, path, content, lambda _: None)
            if is_whole:
                sealing.remove(self._disk, self._promise, sealed_path)
            else:
                sealing.keep_aside(self._disk, self._promise, sealed_path)

    def delete(self, name: SessionName) -> None:
        self._promise.check()
        with _medium_errors(self._directory(name)):
            try:
                remove_session(self._disk, self._directory(name), self._promise)
            except FileNotFoundError:
                raise self._missing(name) from None
            # Whoever opened the lock file before this notices that it leads nowhere now.
            remove_quietly(self._disk, self._locks / name.segment)

    def close(self) -> None:
        return

    # -- reading ---------------------------------------------------------------------------

    def open(self, name: SessionName) -> LogFile | SealedLog:
        sealed_path = self._sealed_path(name)
        with _medium_errors(sealed_path):
            for _ in range(3):  # a writer may seal or unseal it between two looks
                has_sealed = self._is_there(sealed_path)
                try:
                    raw = self._open_raw(name)
                except SessionMissingError:
                    if has_sealed:
                        with contextlib.suppress(SessionMissingError):
                            return self._open_sealed(name)
                    continue
                return self._open_better(name, raw) if has_sealed else raw
        self.claims.check()
        raise self._missing(name)

    def exists(self, name: SessionName) -> bool:
        with _medium_errors(self._log_path(name)):
            if self._has_log(name):
                return True
        self.claims.check()
        return False

    def names(self) -> Iterator[SessionName]:
        with _medium_errors(self._sessions):
            segments = self._segments()
        for segment in segments:
            name = SessionName.from_segment(segment)
            if name is not None and self._may_have_log(name):
                yield name

    def glances(self) -> Iterator[tuple[SessionName, Glance | None]]:
        """See medium.GlancingMedium. Of two files that a killed seal left it sees the plain one."""
        with _medium_errors(self._sessions):
            segments = self._segments()
        for segment in segments:
            name = SessionName.from_segment(segment)
            if name is None:
                continue
            glance: Glance | None = None
            try:
                paths = self._log_path(name), self._sealed_path(name)
                glance = glance_at_either(self._disk, *paths)
            except OSError:  # whoever opens it is told why
                if not self._may_have_log(name):
                    continue
            yield name, glance

    def strays(self) -> Iterator[str]:
        with _medium_errors(self._sessions):
            segments = self._segments()
        yield from stray_paths(self._disk, self._sessions, segments)

    def cuts(self, name: SessionName) -> int:
        torn = self._directory(name) / TORN
        with _medium_errors(torn):
            try:
                return len(self._disk.names(torn))
            except FileNotFoundError:
                return 0

    # -- parts; they raise OSError ---------------------------------------------------------

    def _publish(self, new: NewLog, name: SessionName) -> None:
        path = self._log_path(name)
        try:
            new.publish(path)
        except FileExistsError:
            raise SessionExistsError(where=str(path), session=name.id) from None
        self._promise.sync_directory(path.parent, undo=lambda: new.take_back(path))
        self._promise.sync_directory(self._sessions, undo=lambda: new.take_back(path))

    def _open(self, name: SessionName, path: Path, opener: Callable[[Path], int]) -> int:
        try:
            descriptor = opener(path)
        except FileNotFoundError:
            raise self._missing(name) from None
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.EISDIR, errno.ENXIO}:
                raise self._not_a_file(path) from error
            raise
        try:
            self._check_file(descriptor, path, written=opener == self._disk.open_write)
        except BaseException:
            self._disk.close(descriptor)
            raise
        return descriptor

    def _check_file(self, descriptor: int, path: Path, *, written: bool) -> None:
        status = self._disk.status_open(descriptor)
        if not is_regular(status):
            raise self._not_a_file(path)
        if written:
            refuse_second_name(status, path)

    def _remove_stale(self, name: SessionName) -> None:
        """Remove what a killed creation left; we hold the lock, so nobody is at it."""
        directory = self._directory(name)
        try:
            entries = self._disk.names(directory)
        except FileNotFoundError:
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
            self._disk.refuse_gone(self._sessions)
            self.claims.check()
            return []

    def _has_log(self, name: SessionName) -> bool:
        path = self._log_path(name)
        # Asked again, because it may have been unsealed between the first two looks.
        return any(map(self._is_there, (path, self._sealed_path(name), path)))

    def _is_there(self, path: Path) -> bool:
        try:
            self._disk.status(path)
        except FileNotFoundError:
            return False
        return True

    def _open_raw(self, name: SessionName) -> LogFile:
        path = self._log_path(name)
        with _medium_errors(path):
            descriptor = self._open(name, path, self._disk.open_read)
        return LogFile(self._disk, descriptor, path, name, self._promise)

    def _open_sealed(self, name: SessionName) -> SealedLog:
        path = self._sealed_path(name)
        with _medium_errors(path):
            descriptor = self._open(name, path, self._disk.open_read)
        return SealedLog(self._disk, descriptor, path, self._promise)

    def _open_sealed_writer(self, name: SessionName) -> SealedWriter:
        path = self._sealed_path(name)
        with _medium_errors(path):
            descriptor = self._open(name, path, self._disk.open_write)
        writer = SealedWriter(self._disk, descriptor, path, name, self._promise)
        try:
            writer.finish_mending()
        except BaseException:
            writer.close()
            raise
        return writer

    def _open_better(self, name: SessionName, raw: LogFile) -> LogFile | SealedLog:
        """Of two files that a killed writer left, the one that will stay."""
        try:
            sealed = self._open_sealed(name)
        except SessionMissingError:  # it was unsealed just now
            return raw
        sealed_stays = False
        try:
            sealed_stays, _ = sealing.better_of(raw, sealed, name)
        finally:
            (raw if sealed_stays else sealed).close()
        return sealed if sealed_stays else raw

    def _settle(self, name: SessionName) -> bool:
        """Let one of two files stay, and make it durable; return whether it is the sealed one."""
        paths = self._log_path(name), self._sealed_path(name)
        with self._open_raw(name) as raw, self._open_sealed_writer(name) as sealed:
            return sealing.let_one_stay(self._disk, self._promise, raw, sealed, name, paths)

    def _may_have_log(self, name: SessionName) -> bool:
        try:
            return self._has_log(name)
        except NotADirectoryError:  # a stray file; whoever asks for it by name is told more
            return False
        except OSError:  # whoever opens it is told why; one bad entry must not hide the others
            return True

    def _directory(self, name: SessionName) -> Path:
        return self._sessions / name.segment

    def _sealed_path(self, name: SessionName) -> Path:
        return self._sessions.joinpath(name.segment, SEALED)

    def _log_path(self, name: SessionName) -> Path:
        return self._sessions.joinpath(name.segment, LOG)

    def _missing(self, name: SessionName) -> SessionMissingError:
        return SessionMissingError(where=self.where(name), session=name.id)

    def _not_a_file(self, path: Path) -> StoreLayoutError:
        return StoreLayoutError(where=str(path), reason="a session's log is not a regular file")
