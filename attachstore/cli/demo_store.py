"""The demo's own store: made by it, marked by it, and only then ever removed by it."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from attachstore.errors import DestinationError

MARKER = "made-by-attachstore-demo"
_CONTENTS = {
    MARKER,
    "attachstore.json",
    *("objects", "staging", "quarantine", "sessions", "locks"),
}


def make_way(root: Path) -> None:
    """Remove an earlier demo's store. Raises DestinationError for anything else that is there."""
    try:
        status = os.lstat(root)
    except FileNotFoundError:
        return
    where = ascii(str(root))[1:-1]
    if not stat.S_ISDIR(status.st_mode):
        raise DestinationError(where=where, reason="it is not a directory")
    names = set(os.listdir(root))  # noqa: PTH208 - names only
    if not names:
        return
    if MARKER not in names:
        raise DestinationError(where=where, reason="an earlier demo did not make it")
    strange = sorted(names - _CONTENTS)
    if strange:
        raise DestinationError(where=where, reason=f"it holds {strange[0]!a}, which is not ours")
    shutil.rmtree(root)


def mark(root: Path) -> None:
    """Say that the store may be removed by the next demo."""
    text = "`attachstore demo` made this directory and removes it when it runs again.\n"
    (root / MARKER).write_text(text, encoding="utf-8")
