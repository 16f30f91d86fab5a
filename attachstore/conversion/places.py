"""Where a conversion puts things below a store's root, and the lock under which it does.

But for `has_the_store_alone` all functions raise OSError, and leave what they made durable.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from attachstore.disk import Disk, ensure_directory, layout_errors, storage_errors
from attachstore.errors import SessionBusyError
from attachstore.layout import LOCKS, MEDIUM_LOCK, SESSION_NAMES
from attachstore.lock import acquire, holder
from attachstore.sessions.claims import EVERYONE
from attachstore.sessions.names import SessionName
from attachstore.sessions.removal import remove_tree

CONVERTING = "converting"
CONVERTED = "converted"


@contextmanager
def has_the_store_alone(disk: Disk, root: Path) -> Generator[None]:
    """Nobody writes sessions, and what attachstore.json says is durable, inside the block.

    Raises SessionBusyError at once if somebody writes, naming who as far as that can be told.
    """
    path = root / LOCKS / MEDIUM_LOCK
    with storage_errors(path), layout_errors(path):
        ensure_directory(disk, path.parent)
        lock = acquire(disk, path)
        if lock is None:
            session, who = _somebody(disk, root)
            raise SessionBusyError(where=str(path), session=session, holder=who)
    try:
        with storage_errors(root):
            disk.sync_directory(root)  # a conversion may have been killed before it did
        yield
    finally:
        lock.release()


def _somebody(disk: Disk, root: Path) -> tuple[str, str]:
    """A session that is being written, and by whom, for a message.

    The kernel is asked who holds which lock: trying them would keep writers out for a moment.
    """
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        lines = []
    held = {int(inode) for inode in re.findall(r"FLOCK .*:(\d+) 0 EOF", "\n".join(lines))}
    for segment in disk.names(root / LOCKS):
        name, path = SessionName.from_segment(segment), root / LOCKS / segment
        with contextlib.suppress(FileNotFoundError):  # its session was deleted just now
            if name is not None and disk.status(path).st_ino in held:
                return name.id, holder(disk, path)
    return EVERYONE, "a process that has the store open, or converts it"


def start_converting(disk: Disk, root: Path) -> Path:
    """An empty place for the new logs. Its name need not be durable: they leave it by then."""
    clear_converting(disk, root)
    place = root / CONVERTING
    disk.make_directory(place)
    return place


def clear_converting(disk: Disk, root: Path) -> None:
    """Remove what is there of new logs that never were the store's."""
    place = root / CONVERTING
    try:
        disk.status(place)
    except FileNotFoundError:
        return
    remove_tree(disk, place)
    disk.sync_directory(root)


def move_in(disk: Disk, root: Path, kind: str) -> None:
    """Move the new logs to where they belong. Nothing lies there."""
    place = root / CONVERTING
    for name in _there(disk, place, kind):
        disk.rename(place / name, root / name)
    disk.sync_directory(root)
    disk.sync_directory(place)


def put_aside(disk: Disk, root: Path, kind: str) -> Path | None:
    """Move what lies in the place of a medium to `converted/`; None: nothing does."""
    names = _there(disk, root, kind)
    if not names:
        return None
    kept = root / CONVERTED
    ensure_directory(disk, kept)
    disk.sync_directory(root)
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    place = kept / f"{kind}-{moment}-{secrets.token_hex(4)}"
    disk.make_directory(place)
    disk.sync_directory(kept)
    for name in names:
        disk.rename(root / name, place / name)
    disk.sync_directory(place)
    disk.sync_directory(root)
    return place


def _there(disk: Disk, directory: Path, kind: str) -> list[str]:
    present = set(disk.names(directory))
    return [name for name in SESSION_NAMES[kind] if name in present]
