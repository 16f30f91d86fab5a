"""Removal: a session's directory goes at once, its contents after that.

The directory is renamed to a name that no session can have, and that is synced: from then on
the session is gone. Only then are the files removed, and what a killed removal leaves is removed
by the next.
"""

from __future__ import annotations

import logging
import secrets
import stat
from pathlib import Path

from attachstore.disk import Disk
from attachstore.promise import Promise

DELETED_PREFIX = ".deleted-"
_logger = logging.getLogger("attachstore")


def remove_session(disk: Disk, directory: Path, promise: Promise) -> None:
    """Remove `directory`, durably. Raises FileNotFoundError and other OSErrors."""
    doomed = directory.parent / f"{DELETED_PREFIX}{secrets.token_hex(8)}"
    disk.rename(directory, doomed)
    promise.sync_directory(directory.parent, undo=lambda: disk.rename(doomed, directory))
    sweep(disk, directory.parent)


def sweep(disk: Disk, sessions: Path) -> None:
    """Remove what deletions have left. A leftover that cannot be removed is logged, and stays."""
    try:
        # Another process may have renamed it and not synced yet: then what comes back from a power
        # loss is a directory without a log, which is no session. It was deleted all the same.
        for name in disk.names(sessions):
            if name.startswith(DELETED_PREFIX):
                remove_tree(disk, sessions / name)
    except FileNotFoundError:
        return  # no session was ever made, or the directory was not restored
    except OSError as error:
        _logger.warning("leftovers of deleted sessions in %s stay: %s", sessions, error)


def remove_tree(disk: Disk, path: Path) -> None:
    """Remove `path` and all below it. Links are removed, not followed. Others may help."""
    try:
        if stat.S_ISDIR(disk.status(path).st_mode):
            for name in disk.names(path):
                remove_tree(disk, path / name)
            disk.remove_directory(path)
        else:
            disk.unlink(path)
    except FileNotFoundError:
        pass  # another process sweeps too
