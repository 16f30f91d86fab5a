"""SealedLog: a log in Zstandard frames, read as the bytes it stands for.

 (1) A loose end reads as the lines in it that are proven. If what lies behind them is torn, one
     byte without a line feed follows, an uncommitted tail; if it is damaged, a line that no
     record can be (loose_end.py).
 (2) A frame with its end that does not unpack to what it says reads as such a line, as long as
     its content: damage, and what follows stays where it was.
 (3) While a loose end is mended, and after a kill in the middle of it, its lines are taken from
     the file of the mending (mending.py).

A reader keeps what it read of a loose end until it is asked for the size again: what lies there
changes its form when its frame ends or is mended, and never what was proven.
"""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import Self

from attachstore.disk import Disk, read_all, storage_errors
from attachstore.errors import StoreLayoutError
from attachstore.promise import Promise
from attachstore.sessions import zstd_frames
from attachstore.sessions.log_file import sync_names
from attachstore.sessions.loose_end import Flaw, LooseEnd, examine, is_proven
from attachstore.sessions.mending import read_mending
from attachstore.sessions.record import LINE_BYTES_MAX
from attachstore.sessions.zstd_frames import CONTENT_BYTES, Frame

SEALED = "log.jsonl.zst"
_LOST = b"\x1a"  # SUBSTITUTE: what cannot be unpacked is made of it
_SHOWN = {None: b"", Flaw.TORN: _LOST, Flaw.DAMAGED: _LOST + b"\n"}
_NOTHING = LooseEnd(0, b"", None)
_LOOKS_MAX = 3


class SealedLog:
    """Reader of one sealed log; it owns `descriptor`."""

    def __init__(self, disk: Disk, descriptor: int, path: Path, promise: Promise) -> None:
        self._disk = disk
        self._promise = promise
        self._descriptor: int | None = descriptor
        self._path = path
        self._forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def size(self) -> int:
        self._look()
        return self._framed_bytes + len(self._shown)

    def read(self, offset_bytes: int, size_bytes: int) -> bytes:
        if self._looked_at < 0:
            self._look()
        end_bytes = offset_bytes + size_bytes
        pieces: list[bytes] = []
        number = max(0, bisect_right(self._starts, offset_bytes) - 1)
        while offset_bytes < end_bytes and number < len(self._frames):
            start = self._starts[number]
            piece = self._content(number)[max(0, offset_bytes - start) : end_bytes - start]
            pieces.append(piece)
            offset_bytes += len(piece)
            number += 1
        if offset_bytes < end_bytes:
            start = offset_bytes - self._framed_bytes
            pieces.append(self._shown[start : start + end_bytes - offset_bytes])
        return b"".join(pieces)

    def settle(self) -> int:
        with storage_errors(self._path):
            self._disk.sync_file(self._open_descriptor())
            self._disk.drop_cache(self._open_descriptor())
            sync_names(self._promise, self._path)
        self._forget()
        return self.size()

    def stored_bytes(self) -> int:
        """What the file takes."""
        with storage_errors(self._path):
            return self._disk.status_open(self._open_descriptor()).st_size

    def is_packed(self) -> bool:
        """Whether the file takes about as little room as it can."""
        needed = 1 + self.size() // CONTENT_BYTES
        is_in_one_piece = all(frame.is_packed for frame in self._frames)
        return is_in_one_piece and not self._has_loose_end() and len(self._frames) <= needed

    def check(self) -> int:
        """Unpack everything; return how much of the log is whole.

        Raises StoreLayoutError if anything but a torn end is damaged.
        """
        self._look()
        for frame in self._frames:
            if self._decompress(frame) is None:
                raise self._layout(f"the sealed log is damaged at byte {frame.offset_bytes}")
        if self._loose.flaw is Flaw.DAMAGED:
            raise self._layout(f"the sealed log is damaged behind byte {self._loose.offset_bytes}")
        return self._framed_bytes + len(self._loose.content)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with storage_errors(self._path):
                self._disk.close(descriptor)

    # -- parts -----------------------------------------------------------------------------

    def _forget(self) -> None:
        self._frames: list[Frame] = []
        self._starts: list[int] = []  # of each frame's content in the log
        self._framed_bytes = 0  # of the log, in frames
        self._loose = _NOTHING
        self._shown = b""  # of the loose end
        self._looked_at = -1  # the file's size then
        self._unpacked: tuple[int, bytes] = (-1, b"")  # the frame that was read last

    def _look(self) -> None:
        """Find what there is; frames that were found before stay as they are."""
        for _ in range(_LOOKS_MAX):
            size_bytes = self.stored_bytes()
            if size_bytes < self._frames_end():
                self._forget()
            if size_bytes != self._looked_at:
                self._index(size_bytes)
            mending = read_mending(self._disk, self._path)
            if mending is not None:
                self._take(mending)
                return
            # Else it may have been mended since, and we looked at it while it was shorter.
            if self.stored_bytes() == size_bytes:
                self._looked_at = size_bytes
                return

    def _index(self, size_bytes: int) -> None:
        for frame in zstd_frames.walk(self._stored, self._frames_end(), size_bytes):
            if frame.content_bytes > LINE_BYTES_MAX:
                raise self._layout("its frames say that they hold too much: they are not ours")
            self._frames.append(frame)
            self._starts.append(self._framed_bytes)
            self._framed_bytes += frame.content_bytes
        end = self._frames_end()
        self._loose = LooseEnd(end, b"", None)
        if end < size_bytes:
            self._loose = examine(self._stored, end, size_bytes, self._last_line())
        self._shown = self._loose.content + _SHOWN[self._loose.flaw]

    def _take(self, mending: LooseEnd) -> None:
        """Let the log end in what a mending holds."""
        while self._frames and self._frames[-1].offset_bytes >= mending.offset_bytes:
            self._framed_bytes = self._starts.pop()
            self._frames.pop()
        self._unpacked = (-1, b"")
        fits = self._frames_end() == mending.offset_bytes
        if not fits or not is_proven(mending.content, self._last_line()):
            raise self._layout("what a mending left beside it does not belong to it")
        self._loose, self._shown = mending, mending.content
        self._looked_at = 0  # look again, and at the mending too

    def _has_loose_end(self) -> bool:
        return bool(self._shown) or self._loose.offset_bytes < self.stored_bytes()

    def _frames_end(self) -> int:
        """Where the last frame ends in the file."""
        return self._frames[-1].end_bytes if self._frames else 0

    def _last_line(self) -> bytes | None:
        """The last line in frames; None if there are none."""
        if not self._frames:
            return None
        return self._content(len(self._frames) - 1).removesuffix(b"\n").rpartition(b"\n")[2]

    def _content(self, number: int) -> bytes:
        if self._unpacked[0] != number:
            frame = self._frames[number]
            content = self._decompress(frame)
            if content is None:
                content = _LOST * max(0, frame.content_bytes - 1) + b"\n"
            self._unpacked = (number, content)
        return self._unpacked[1]

    def _decompress(self, frame: Frame) -> bytes | None:
        stored = self._stored(frame.offset_bytes, frame.size_bytes)
        return zstd_frames.decompress(stored, frame.content_bytes)

    def _stored(self, offset_bytes: int, size_bytes: int) -> bytes:
        with storage_errors(self._path):
            return read_all(self._disk, self._open_descriptor(), size_bytes, offset_bytes)

    def _layout(self, reason: str) -> StoreLayoutError:
        return StoreLayoutError(where=str(self._path), reason=reason)

    def _open_descriptor(self) -> int:
        if self._descriptor is None:
            message = "the log is closed"
            raise ValueError(message)
        return self._descriptor
