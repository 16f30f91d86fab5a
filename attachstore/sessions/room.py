"""Room: zeros at the end of a busy log's file, for the next events to take the place of.

A write that makes a file longer is synced with the file system's journal, which has the new
length; one that stays within the file is not, and takes a third to a half of the time
(docs/decisions/0086-room-for-the-next-events.md). So a writer that appends many events in a row
adds zeros to what it writes, and later events go there.

Definitions. The *content* of a file is the log. *Room* is the zeros behind it, less than
ROOM_BYTES_MAX of them, in a file whose length is a multiple of ROOM_BYTES.

Invariants

 (1) To readers the log ends with its content: no line holds a NUL, so zeros are never a part of it.
     What a crash leaves of room is an uncommitted tail in the format, without a byte to keep.
 (2) Room is all zeros: it is made by the writer that knows the end, and after an append that
     failed it is not written to again.
 (3) A writer that rests leaves none: it is cut back when a log is opened, idle or closed.
"""

from __future__ import annotations

import time

from attachstore.disk import Disk, read_all, write_all

ROOM_BYTES = 64 << 10
ROOM_BYTES_MAX = ROOM_BYTES * 5 // 4
EVENTS_BYTES_MAX = 16 << 10
"""An append of more is left as it is: its bytes cost more than the file's length does."""
BUSY_APPENDS = 16
"""So many in a row, each at most so long after the one before, and room is worth its writing."""
BUSY_S = 0.25


class Room:
    """What one writer knows of its file's length."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._content_bytes = -1
        self._file_bytes = -1
        self._appends_in_a_row = 0
        self._last_s = float("-inf")

    @property
    def is_there(self) -> bool:
        return self._file_bytes > self._content_bytes

    def file_bytes(self, content_bytes: int) -> int:
        """How long the file is, if the log ends at `content_bytes`, as far as we know."""
        return self._file_bytes if content_bytes == self._content_bytes else content_bytes

    def add(self, descriptor: int, content_bytes: int, added_bytes: int, file_bytes: int) -> int:
        """After a write that let the log end at `content_bytes`; the file's length from now on.

        Makes room if it is worth it and there is none. Raises OSError, if the file could not be
        left as it was either.
        """
        if content_bytes <= file_bytes:
            return file_bytes
        is_busy = self._appends_in_a_row >= BUSY_APPENDS and self._is_in_a_row()
        if not is_busy or added_bytes > EVENTS_BYTES_MAX:
            return content_bytes
        full_bytes = -(-(content_bytes + ROOM_BYTES_MAX - ROOM_BYTES) // ROOM_BYTES) * ROOM_BYTES
        try:
            zeros = bytes(full_bytes - content_bytes)
            write_all(self._disk, descriptor, zeros, content_bytes)
        except OSError:  # the disk is full, or worse: the sync that follows will tell
            self._disk.truncate(descriptor, content_bytes)
            return content_bytes
        return full_bytes

    def acknowledge(self, content_bytes: int, file_bytes: int) -> None:
        """An append is durable, and this is how the file is now."""
        self._content_bytes, self._file_bytes = content_bytes, file_bytes
        self._appends_in_a_row = self._appends_in_a_row + 1 if self._is_in_a_row() else 0
        self._last_s = time.monotonic()

    def cut_back(self, descriptor: int, content_bytes: int) -> None:
        """Let the file end where the log does, if there is nothing but room. Raises OSError.

        Not synced: if the zeros come back with a power loss, they are room again.
        """
        file_bytes = self._disk.status_open(descriptor).st_size
        if file_bytes == content_bytes:
            return
        if content_size(self._disk, descriptor, file_bytes) == content_bytes:
            self._disk.truncate(descriptor, content_bytes)
            self._content_bytes = self._file_bytes = content_bytes

    def _is_in_a_row(self) -> bool:
        return time.monotonic() - self._last_s <= BUSY_S


def content_size(disk: Disk, descriptor: int, file_bytes: int) -> int:
    """Where the log in a file of `file_bytes` ends: before its room, if it has any."""
    if file_bytes == 0 or file_bytes % ROOM_BYTES:
        return file_bytes
    if read_all(disk, descriptor, 1, file_bytes - 1) != b"\0":
        return file_bytes
    start_bytes = max(0, file_bytes - ROOM_BYTES_MAX)
    end = read_all(disk, descriptor, file_bytes - start_bytes, start_bytes)
    room_bytes = len(end) - len(end.rstrip(b"\0"))
    return file_bytes - room_bytes if room_bytes < len(end) else file_bytes
