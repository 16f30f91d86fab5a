"""Who writes what, for every medium on a local disk: lock files, one per session and one for all.

One rule above the media, so that what `session-busy` means, who is named as the holder and how a
dead process lets go do not depend on where the events are kept (lock.py).

    locks/<segment>    held by the writer of that session
    locks/.medium      shared by everybody who writes sessions, held alone by who converts them

Invariants

 (1) While somebody holds a claim, the store's sessions stay where attachstore.json says they
     are, and that is the medium that the claim is for. Nobody appends to a medium that a
     conversion has left.
 (2) What attachstore.json says is durable before it is believed: a conversion may have been
     killed before it synced.
"""

from __future__ import annotations

import threading
from pathlib import Path

from attachstore.disk import Disk, ensure_directory, layout_errors, storage_errors
from attachstore.errors import SessionBusyError, StoreLayoutError
from attachstore.layout import LOCKS, MARKER, MEDIUM_LOCK, read_marker
from attachstore.lock import FileLock, acquire, holder
from attachstore.promise import Promise
from attachstore.sessions.names import SessionName

EVERYONE = "(all)"
"""In the place of a session's id, where no single one is meant."""


class SessionClaim:
    """The right to write one session."""

    def __init__(self, lock: FileLock, claims: Claims) -> None:
        self._lock: FileLock | None = lock
        self._claims = claims

    def release(self) -> None:
        """Safe to repeat."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()
            self._claims.leave()


class Claims:
    """The claims of one open medium, `kind` as attachstore.json names it. For any thread."""

    def __init__(self, disk: Disk, root: Path, kind: str) -> None:
        self._disk = disk
        self._root = root
        self._kind = kind
        self._promise = Promise(disk, str(root))
        self._guard = threading.Lock()
        self._lock: FileLock | None = None
        self._users = 0
        self._believed: tuple[int, int] | None = None  # which attachstore.json was read

    def take(self, name: SessionName) -> SessionClaim:
        """Claim a session at once. Raises SessionBusyError, naming the holder, StoreLayoutError."""
        path = self._root / LOCKS / name.segment
        lock: FileLock | None = None
        self.join(name.id)
        try:
            with storage_errors(path), layout_errors(path):
                lock = self._acquire(path, shared=False)
        finally:
            if lock is None:
                self.leave()
        if lock is None:
            who = holder(self._disk, path)
            raise SessionBusyError(where=str(path), session=name.id, holder=who)
        return SessionClaim(lock, self)

    def join(self, session_id: str = EVERYONE) -> None:
        """Keep the sessions in this medium until as many `leave`.

        Raises SessionBusyError while they are converted, StoreLayoutError once they are.
        """
        with self._guard:
            if self._users == 0:
                self._lock = self._share(session_id)
            self._users += 1

    def leave(self) -> None:
        with self._guard:
            self._users -= 1
            if self._users == 0 and self._lock is not None:
                lock, self._lock = self._lock, None
                lock.release()

    def lend(self) -> None:
        """Let the holder of the lock for all use this medium: who joins now asks nobody."""
        with self._guard:
            self._users += 1

    def check(self) -> None:
        """Raises StoreLayoutError if the store's sessions are in another medium by now."""
        marker = read_marker(self._disk, self._root)
        if marker is not None and marker.sessions != self._kind:
            reason = (
                f"its sessions were converted to {marker.sessions!a} since it was opened as "
                f"{self._kind!a}: open the store again"
            )
            raise StoreLayoutError(where=str(self._root), reason=reason)

    def _share(self, session_id: str) -> FileLock:
        self._promise.check()
        path = self._root / LOCKS / MEDIUM_LOCK
        with storage_errors(path), layout_errors(path):
            lock = self._acquire(path, shared=True)
            if lock is None:
                who = f"{holder(self._disk, path)}, which converts the store's sessions"
                raise SessionBusyError(where=str(path), session=session_id, holder=who)
            try:
                self._check_durably()
            except BaseException:
                lock.release()
                raise
            return lock

    def _check_durably(self) -> None:
        """Invariant (2). Costs a look at one name, unless the file is new to us."""
        try:
            status = self._disk.status(self._root / MARKER)
        except FileNotFoundError:  # a medium that no store has been made of yet
            return
        found = (status.st_ino, status.st_mtime_ns)
        if found != self._believed:
            self._promise.sync_directory(self._root)
            self.check()
            self._believed = found

    def _acquire(self, path: Path, *, shared: bool) -> FileLock | None:
        try:
            return acquire(self._disk, path, shared=shared)
        except FileNotFoundError:  # some tools do not restore empty directories
            ensure_directory(self._disk, path.parent)  # not synced: no lock outlives a power cut
            return acquire(self._disk, path, shared=shared)
