"""The demo's own store: made by it, marked by it, and only then ever removed by it.

The marker lists every file that the demo has left, with its digest. Whatever has come or changed
since is somebody else's work, and keeps the whole store from being removed.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from attachstore.digest import Digest
from attachstore.disk import storage_errors
from attachstore.errors import DestinationError

MARKER = "made-by-attachstore-demo"
_SAID = "`attachstore demo` made these files and removes them, and no others, when it runs again:\n"
_OBJECTS = "objects/"
_LOCKS = "locks/"
_WAL, _SHM = "sessions.db-wal", "sessions.db-shm"
_UNKNOWN = "the demo that made it was killed, so what is its own is not known"


def make_way(root: Path) -> None:
    """Remove an earlier demo's store. Raises DestinationError for anything else that is there."""
    where = ascii(str(root))[1:-1]
    with storage_errors(root):
        try:
            status = os.lstat(root)
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(status.st_mode):
            raise DestinationError(where=where, reason="it is not a directory")
        names = os.listdir(root)  # noqa: PTH208 - names only
        if not names:
            return
        if MARKER not in names:
            raise DestinationError(where=where, reason="an earlier demo did not make it")
        reason = _reason_to_stay(root)
        if reason is not None:
            raise DestinationError(where=where, reason=f"{reason}; remove it yourself to go on")
        shutil.rmtree(root)


def mark(root: Path) -> None:
    """Say whose the store is, as long as the demo is at work in it."""
    with storage_errors(root):
        (root / MARKER).write_bytes(b"")


def take_stock(root: Path) -> None:
    """List what the demo has made, now that it has ended, well or not."""
    if not os.path.lexists(root / MARKER):
        return
    with storage_errors(root):
        lines = [f"{_digest(root, name)} {name}\n" for name in _files(root)]
        (root / MARKER).write_text(_SAID + "".join(lines), encoding="ascii")


def _reason_to_stay(root: Path) -> str | None:
    """What in the store the demo did not make, or cannot be known to have made."""
    made = _listed(root)
    if made is None:
        return _UNKNOWN
    for name in _files(root):
        if name not in made:
            return f"it holds {name}, which the demo did not make"
        if not name.startswith(_OBJECTS) and _digest(root, name) != made[name]:
            return f"{name} was changed after the demo"
    return None


def _listed(root: Path) -> dict[str, str] | None:
    """Name to digest of what the demo made; None if it did not come to say so."""
    text = (root / MARKER).read_bytes().decode("ascii", "replace")
    if not text.startswith(_SAID):
        return None
    pairs = (line.split(" ", 1) for line in text.removeprefix(_SAID).splitlines())
    return {pair[-1]: pair[0] for pair in pairs}


def _files(root: Path) -> Iterator[str]:
    """Whatever lies below the root and is no directory, but the marker and what holds nothing."""
    for directory, directories, names in os.walk(root, onerror=_raise):
        links = [name for name in directories if (Path(directory) / name).is_symlink()]
        for name in sorted(names + links):
            found = ascii(str((Path(directory) / name).relative_to(root)))[1:-1]
            if found != MARKER and not _holds_nothing(root, found):
                yield found


def _holds_nothing(root: Path, name: str) -> bool:
    """Locks, and what SQLite leaves beside a database that was only read."""
    empty_wal = name == _WAL and (root / name).lstat().st_size == 0
    return name.startswith(_LOCKS) or name == _SHM or empty_wal


def _digest(root: Path, name: str) -> str:
    """An object's is its name; whether it still fits is nobody's concern once it is to go."""
    if name.startswith(_OBJECTS):
        return Path(name).name
    path = root / name
    regular = stat.S_ISREG(path.lstat().st_mode)
    return Digest.of(path.read_bytes()).hex if regular else "-"


def _raise(error: OSError) -> None:
    raise error
