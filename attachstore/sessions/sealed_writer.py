"""SealedWriter: a sealed log that is written to, and stays sealed.

Each append is a flushed block, or several, of the frame that is being written, and is synced, so
that whatever happens to the frame afterwards the append comes out of it again. A frame that
holds enough, and the one of a writer that is closed, gets its end.

Invariants

 (1) Bytes are added at the end only, and the end is where the writer believes it to be.
 (2) What is written behind an append, or behind a frame's end, is written after that was synced:
     so a power loss tears one append or one end, and it is the last.
 (3) A frame that another writer left without its end is mended before anything is added.
 (4) No byte is cut off before a copy of it in `torn/` is durable.
 (5) After an error nothing more is written: `_frame` is only there between two appends.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from attachstore.disk import Disk, storage_errors
from attachstore.errors import AttachstoreError, LogPoisonedError
from attachstore.promise import Promise
from attachstore.sessions.log_file import check_end, write_or_give_back
from attachstore.sessions.mending import finish_mending, mend, read_mending
from attachstore.sessions.names import SessionName
from attachstore.sessions.sealed_log import SealedLog
from attachstore.sessions.torn import TORN, keep_end
from attachstore.sessions.zstd_frames import CONTENT_BYTES, FrameWriter

_COMMIT_BYTES = 8 << 20  # of one append into one frame, which a reader unpacks in memory
_logger = logging.getLogger("attachstore")


class SealedWriter(SealedLog):
    """Reader and writer of one sealed log; it owns `descriptor`."""

    def __init__(
        self, disk: Disk, descriptor: int, path: Path, name: SessionName, promise: Promise
    ) -> None:
        super().__init__(disk, descriptor, path, promise)
        self._name = name
        self._frame: FrameWriter | None = None
        self._file_bytes = -1  # the file's end; -1: it is to be looked for
        self._log_bytes = -1

    def finish_mending(self) -> None:
        """Do what another writer, killed while it mended the log, did not come to.

        Raises StoreLayoutError if what that left does not belong to the log.
        """
        self._promise.check()
        if read_mending(self._disk, self._path) is None:
            return
        self._look()  # which says whether it belongs to the log
        with storage_errors(self._path):
            finish_mending(self._disk, self._promise, self._open_descriptor(), self._path)
        self._forget()

    def append(self, data: bytes, offset_bytes: int) -> None:
        self._promise.check()
        if self._file_bytes < 0:
            self._begin()
        if offset_bytes != self._log_bytes:
            raise self._changed(offset_bytes)
        with storage_errors(self._path):
            descriptor = self._open_descriptor()
            check_end(self._disk, descriptor, self._file_bytes, self._path, self._name)
            for piece in _pieces(data):
                self._commit(descriptor, piece)

    def cut(self, offset_bytes: int) -> str:
        self._promise.check()
        self._look()
        start_bytes, place = self._place(offset_bytes)
        content = self.read(start_bytes, offset_bytes - start_bytes)
        with storage_errors(self._path):
            descriptor = self._open_descriptor()
            kept = keep_end(
                self._disk,
                self._promise,
                descriptor,
                place,
                torn=self._path.parent / TORN,
                name=f"{self._path.name}-{start_bytes}-{offset_bytes}",
            )
            self._mend(descriptor, place, content)
        return str(kept)

    def close(self) -> None:
        if self._frame is not None:
            try:
                self._promise.check()
                with storage_errors(self._path):
                    descriptor = self._open_descriptor()
                    check_end(self._disk, descriptor, self._file_bytes, self._path, self._name)
                    self._end_frame(descriptor, self._frame)
            except AttachstoreError as error:
                # All that was acknowledged is there: the next writer mends the frame.
                _logger.warning("session %r: a frame has no end: %s", self._name.id, error)
        super().close()

    # -- parts; they raise OSError ---------------------------------------------------------

    def _begin(self) -> None:
        """Make the file end in a frame that has ended."""
        size_bytes = self.size()
        if self._loose.flaw is not None:
            raise self._changed(size_bytes)
        if self._has_loose_end():
            place, content = self._loose.offset_bytes, self._loose.content
            with storage_errors(self._path):
                self._mend(self._open_descriptor(), place, content)
        self._log_bytes = self.size()
        self._file_bytes = self.stored_bytes()

    def _commit(self, descriptor: int, data: bytes) -> None:
        frame = self._frame
        if frame and max(frame.content_bytes, len(data)) >= CONTENT_BYTES:
            self._end_frame(descriptor, frame)
            frame = None
        self._frame = None
        frame = frame or FrameWriter()
        self._add(descriptor, frame.add(data))
        self._log_bytes += len(data)
        self._frame = frame

    def _end_frame(self, descriptor: int, frame: FrameWriter) -> None:
        self._frame = None
        self._add(descriptor, frame.end())

    def _add(self, descriptor: int, stored: bytes) -> None:
        write_or_give_back(self._disk, descriptor, stored, self._file_bytes)
        self._disk.sync_data(descriptor)
        self._file_bytes += len(stored)

    def _mend(self, descriptor: int, place: int, content: bytes) -> None:
        mend(self._disk, self._promise, descriptor, self._path, offset_bytes=place, content=content)
        self._forget()
        self._file_bytes = -1

    def _place(self, offset_bytes: int) -> tuple[int, int]:
        """Where the frame begins that holds `offset_bytes`, in the log and in the file."""
        for start, frame in zip(reversed(self._starts), reversed(self._frames), strict=True):
            if offset_bytes >= self._framed_bytes:
                break
            if start <= offset_bytes:
                return start, frame.offset_bytes
        return self._framed_bytes, self._frames_end()

    def _changed(self, offset_bytes: int) -> LogPoisonedError:
        reason = f"another program changed the log: it does not end at byte {offset_bytes}"
        return LogPoisonedError(where=str(self._path), session=self._name.id, reason=reason)


def _pieces(data: bytes) -> Iterator[bytes]:
    """`data`, parted at line ends."""
    start = 0
    while len(data) - start > _COMMIT_BYTES:
        stop = data.rfind(b"\n", start, start + _COMMIT_BYTES) + 1
        stop = stop or data.find(b"\n", start) + 1 or len(data)
        yield data[start:stop]
        start = stop
    yield data[start:]
