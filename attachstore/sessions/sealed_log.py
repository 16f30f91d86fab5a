"""SealedLog: a log in Zstandard frames, read as the bytes it stands for. It is never written.

A sealed log is published whole, so only a damaged medium leaves anything else:

 (1) a final frame without its end, cut or zeroed, reads as what can be unpacked of it, and then
     as bytes without a line feed: an uncommitted tail, of which the chain proves the whole lines;
 (2) a frame with its end that does not unpack to what it says reads as a line that no record can
     be, as long as its content: damage, and what follows stays where it was;
 (3) anything that is no frame reads as one such line.
"""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import Self

from attachstore.disk import Disk, read_all, storage_errors
from attachstore.errors import StoreLayoutError
from attachstore.sessions import zstd_frames
from attachstore.sessions.record import LINE_BYTES_MAX
from attachstore.sessions.zstd_frames import Frame

SEALED = "log.jsonl.zst"
_LOST = b"\x1a"  # SUBSTITUTE: what cannot be unpacked is made of it


class SealedLog:
    """Reader of one sealed log; it owns `descriptor`."""

    def __init__(self, disk: Disk, descriptor: int, path: Path) -> None:
        self._disk = disk
        self._descriptor: int | None = descriptor
        self._path = path
        self._frames: list[Frame] | None = None
        self._starts: list[int] = []  # of each frame's content in the log
        self._size_bytes = 0
        self._unpacked: tuple[int, bytes] = (-1, b"")  # the frame that was read last

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def size(self) -> int:
        self._index()
        return self._size_bytes

    def read(self, offset_bytes: int, size_bytes: int) -> bytes:
        frames = self._index()
        end_bytes = min(offset_bytes + size_bytes, self._size_bytes)
        pieces: list[bytes] = []
        number = max(0, bisect_right(self._starts, offset_bytes) - 1)
        while offset_bytes < end_bytes and number < len(frames):
            start = self._starts[number]
            piece = self._content(number)[offset_bytes - start : end_bytes - start]
            pieces.append(piece)
            offset_bytes += len(piece)
            number += 1
        return b"".join(pieces)

    def settle(self) -> int:
        with storage_errors(self._path):
            self._disk.sync_file(self._open_descriptor())
            self._disk.drop_cache(self._open_descriptor())
        self._frames, self._unpacked = None, (-1, b"")
        return self.size()

    def stored_bytes(self) -> int:
        """What the file takes."""
        with storage_errors(self._path):
            return self._disk.status_open(self._open_descriptor()).st_size

    def check(self) -> bool:
        """Unpack every frame; return whether the last one has its end.

        Raises StoreLayoutError if anything but that end is damaged.
        """
        for frame in self._index():
            stored = self._stored(frame.offset_bytes, frame.size_bytes)
            if not frame.has_end and (frame.is_frame or not stored.strip(b"\0")):
                return False
            if not frame.has_end or zstd_frames.decompress(stored) is None:
                reason = f"the sealed log is damaged at byte {frame.offset_bytes} of its file"
                raise StoreLayoutError(where=str(self._path), reason=reason)
        return True

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with storage_errors(self._path):
                self._disk.close(descriptor)

    # -- parts -----------------------------------------------------------------------------

    def _index(self) -> list[Frame]:
        if self._frames is None:
            frames: list[Frame] = []
            starts: list[int] = []
            size_bytes = 0
            for frame in zstd_frames.walk(self._stored, self.stored_bytes()):
                frames.append(frame)
                starts.append(size_bytes)
                size_bytes += self._content_bytes(frame)
            self._frames, self._starts, self._size_bytes = frames, starts, size_bytes
        return self._frames

    def _content_bytes(self, frame: Frame) -> int:
        if not frame.has_end:
            return len(self._unpack(frame))
        if frame.content_bytes is None or frame.content_bytes > LINE_BYTES_MAX:
            reason = "its frames do not say what they hold, or too much: it was not sealed by us"
            raise StoreLayoutError(where=str(self._path), reason=reason)
        return frame.content_bytes

    def _content(self, number: int) -> bytes:
        if self._unpacked[0] != number:
            self._unpacked = (number, self._unpack(self._index()[number]))
        return self._unpacked[1]

    def _unpack(self, frame: Frame) -> bytes:
        stored = self._stored(frame.offset_bytes, frame.size_bytes)
        if frame.has_end:
            content = zstd_frames.decompress(stored)
            if content is not None and len(content) == frame.content_bytes:
                return content
            return _LOST * max(0, (frame.content_bytes or 0) - 1) + b"\n"
        if not frame.is_frame and stored.strip(b"\0"):
            return _LOST + b"\n"
        salvaged = zstd_frames.salvage(stored) if frame.is_frame else b""
        return salvaged if salvaged and not salvaged.endswith(b"\n") else salvaged + _LOST

    def _stored(self, offset_bytes: int, size_bytes: int) -> bytes:
        with storage_errors(self._path):
            return read_all(self._disk, self._open_descriptor(), size_bytes, offset_bytes)

    def _open_descriptor(self) -> int:
        if self._descriptor is None:
            message = "the log is closed"
            raise ValueError(message)
        return self._descriptor
