"""The writer's claim of every medium on a local disk: a lock file for each session.

One rule above the media, so that what `session-busy` means, who is named as the holder and how a
dead process lets go do not depend on where the events are kept (lock.py).
"""

from __future__ import annotations

from pathlib import Path

from attachstore.disk import Disk, ensure_directory, layout_errors, storage_errors
from attachstore.errors import SessionBusyError
from attachstore.lock import FileLock, acquire, holder
from attachstore.sessions.names import SessionName

LOCKS = "locks"


def take_claim(disk: Disk, root: Path, name: SessionName) -> FileLock:
    """Take the claim at once. Raises SessionBusyError, naming the holder, StoreLayoutError."""
    path = root / LOCKS / name.segment
    with storage_errors(path), layout_errors(path):
        try:
            lock = acquire(disk, path)
        except FileNotFoundError:  # some tools do not restore empty directories
            ensure_directory(disk, path.parent)
            disk.sync_directory(root)
            lock = acquire(disk, path)
        if lock is None:
            raise SessionBusyError(where=str(path), session=name.id, holder=holder(disk, path))
    return lock
