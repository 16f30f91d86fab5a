"""Strays: what lies below `sessions/` and belongs to no session's log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from attachstore.disk import Disk, layout_errors, storage_errors
from attachstore.sessions.mending import MENDING
from attachstore.sessions.names import SessionName
from attachstore.sessions.new_log import NEW_PREFIX
from attachstore.sessions.removal import DELETED_PREFIX
from attachstore.sessions.sealed_log import SEALED
from attachstore.sessions.torn import TORN

LOG = "log.jsonl"
"""A session's log in its directory, when it is not sealed."""
_OURS = frozenset({LOG, SEALED, MENDING, TORN})


def stray_paths(disk: Disk, sessions: Path, segments: Sequence[str]) -> Iterator[str]:
    """Among `segments`, the names in `sessions`, and in the directories of sessions."""
    for segment in segments:
        path = sessions / segment
        if segment.startswith(DELETED_PREFIX) or SessionName.from_segment(segment) is None:
            yield str(path)
            continue
        with storage_errors(path), layout_errors(path):
            try:
                inside = disk.names(path)
            except FileNotFoundError:
                continue  # deleted since it was listed
            except NotADirectoryError:
                yield str(path)
                continue
        for entry in inside:
            if entry not in _OURS and not entry.startswith(NEW_PREFIX):
                yield str(path / entry)
