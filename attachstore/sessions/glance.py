"""A glance at a log: its header, its last line, its length, if nothing about it is unusual.

A listing needs no more of a session, and there may be ten thousand. So a medium may show that
without opening one log after the other. Whatever is unusual (a header of many KiB, a torn tail, a
sealed log, an error) is no glance, and whoever listed opens the log to find out.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from attachstore.disk import Disk, is_regular, read_all

LOOK_BYTES = 4 << 10
"""As much of a log's beginning, and of its end, is looked at."""


class Glance(NamedTuple):
    size_bytes: int
    header_line: bytes
    """Without its line feed, as is the last line."""
    last_line: bytes | None
    """None: there is nothing after the header."""


def glance_at(disk: Disk, path: Path) -> Glance | None:
    """Look at the log in a file. Raises OSError."""
    descriptor = disk.open_read(path)
    try:
        status = disk.status_open(descriptor)
        size_bytes = status.st_size
        if not is_regular(status):
            return None
        first = read_all(disk, descriptor, min(size_bytes, LOOK_BYTES))
        if size_bytes <= LOOK_BYTES:
            return glance_of(size_bytes, first, first)
        last = read_all(disk, descriptor, LOOK_BYTES, size_bytes - LOOK_BYTES)
        return glance_of(size_bytes, first, last)
    finally:
        disk.close(descriptor)


def glance_of(size_bytes: int, first: bytes, last: bytes) -> Glance | None:
    """What the first and the last bytes of a log show; they may be the same ones."""
    header_line, line_feed, _ = first.partition(b"\n")
    end = len(last) - 1
    if not line_feed or last.rfind(b"\n") != end:
        return None
    if len(header_line) + 1 == size_bytes:
        return Glance(size_bytes, header_line, None)
    before = last.rfind(b"\n", 0, end)
    return None if before < 0 else Glance(size_bytes, header_line, last[before + 1 : end])
