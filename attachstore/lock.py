"""FileLock: one holder at a time, or several that share it, decided by the kernel.

`flock` on a file. The kernel drops the lock when the process dies, however it dies: there is no
stale lock to clean up. The text in the file (pid, host, since) is for messages only and decides
nothing. Local file systems only; over NFS the PostgreSQL medium does its own locking.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import weakref
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attachstore.confinement import refuse_second_name
from attachstore.disk import Disk, is_regular, leads_to, read_all, write_all
from attachstore.errors import StoreLayoutError

_HOLDER_BYTES_MAX = 512

_held: weakref.WeakSet[FileLock] = weakref.WeakSet()
_held_guard = threading.Lock()


class FileLock:
    """A lock that this process holds until `release`.

    In a forked child it is dead: the child's descriptor is closed there, never unlocked, since
    an unlock would free the parent's lock too (both share one open file description).
    """

    def __init__(self, disk: Disk, path: Path, descriptor: int) -> None:
        self._disk = disk
        self._descriptor: int | None = descriptor
        self.path = path
        with _held_guard:
            _held.add(self)

    def release(self) -> None:
        """Let the next one in. Safe to repeat."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            try:
                with _held_guard:
                    _held.discard(self)
            finally:
                # The lock goes even with a close that fails, and its text is for messages only.
                with contextlib.suppress(OSError):
                    self._disk.close(descriptor)

    def close_in_child(self) -> None:
        """Drop a forked child's copy of the descriptor without touching the lock."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(descriptor)


def acquire(disk: Disk, path: Path, *, shared: bool = False) -> FileLock | None:
    """Take the lock at `path` at once, or return None if another holds it. Raises OSError.

    Several may hold it `shared`, and nobody else while they do; none of those is named in it.
    Raises StoreLayoutError for what is no lock file, or another file too: it is written.
    """
    while True:
        descriptor = disk.open_lock(path)
        try:
            _refuse_other(disk.status_open(descriptor), path)
            disk.lock(descriptor, exclusive=not shared, wait=False)
            if leads_to(disk, path, descriptor):  # whoever deletes a session removes it
                if not shared:
                    _write_holder(disk, descriptor)
                return FileLock(disk, path, descriptor)
        except BlockingIOError:
            disk.close(descriptor)
            return None
        except BaseException:
            disk.close(descriptor)
            raise
        disk.close(descriptor)  # the file was removed while we waited: lock the one that is there


def holder(disk: Disk, path: Path) -> str:
    """Who holds the lock, for a message: "process 4711 on host, since ..."."""
    try:
        descriptor = disk.open_read(path)
    except OSError:
        return "another process"
    try:
        known: dict[str, Any] = json.loads(read_all(disk, descriptor, _HOLDER_BYTES_MAX))
        return f"process {known['pid']} on {known['host']}, since {known['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
    finally:
        disk.close(descriptor)


def _refuse_other(status: os.stat_result, path: Path) -> None:
    if not is_regular(status):
        raise StoreLayoutError(where=ascii(str(path))[1:-1], reason="it is not a regular file")
    refuse_second_name(status, path)


def _write_holder(disk: Disk, descriptor: int) -> None:
    text = json.dumps(
        {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
    )
    with contextlib.suppress(OSError):  # a full disk must not stop a writer that only cuts a tail
        disk.truncate(descriptor, 0)
        write_all(disk, descriptor, text.encode(), 0)


def _close_all_in_child() -> None:
    # Another thread of the parent may have held the guard at the fork: nobody would free it.
    global _held_guard  # noqa: PLW0603 - the fork made it a different thing
    _held_guard = threading.Lock()
    for lock in list(_held):
        lock.close_in_child()
    _held.clear()


os.register_at_fork(after_in_child=_close_all_in_child)
