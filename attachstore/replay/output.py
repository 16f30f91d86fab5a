"""Draft: a file that appears under its name only when it is complete.

Written under a temporary name in the target's own directory, then synced and renamed. Whatever
goes wrong before `publish`, nothing is left behind but what a killed process cannot remove: a
file called `.<hex>.attachstore-draft`.
"""

from __future__ import annotations

import contextlib
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self

from attachstore.destination import destination_errors
from attachstore.disk import BLOCK_BYTES, Disk, read_all, remove_quietly, storage_errors, write_all
from attachstore.errors import DestinationError

DRAFT_SUFFIX = ".attachstore-draft"
_MODE = 0o666  # less the umask: what the user makes with any other tool


class Draft:
    """A file in the making. As a context manager it is discarded unless it was published."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._path = directory / f".{uuid.uuid4().hex}{DRAFT_SUFFIX}"
        self._buffer = bytearray()
        self.size_bytes = 0
        """Of what was written so far, buffered or not."""
        with storage_errors(directory), destination_errors(directory):
            try:
                self._descriptor: int | None = disk.create(self._path, _MODE)
            except (FileNotFoundError, NotADirectoryError):
                raise DestinationError(
                    where=ascii(str(directory))[1:-1], reason="there is no such folder"
                ) from None

    def write(self, data: bytes) -> None:
        """Append; at most a block is held in memory. Raises UnavailableError."""
        self._buffer += data
        self.size_bytes += len(data)
        if len(self._buffer) >= BLOCK_BYTES:
            self._flush()

    def copy_from(self, other: Draft) -> None:
        """Append all that was written to `other`."""
        other._flush()
        with storage_errors(other._path):
            for offset_bytes in range(0, other.size_bytes, BLOCK_BYTES):
                self.write(read_all(self._disk, other._open(), BLOCK_BYTES, offset_bytes))

    def publish(self, target: Path) -> None:
        """Give the file its name, its bytes synced; what was at `target` is replaced.

        The name itself is durable once the caller has synced the directory.
        """
        self._flush()
        with storage_errors(target):
            self._disk.sync_file(self._open())
            self._disk.rename(self._path, target)
            self._close()

    def discard(self) -> None:
        """Leave nothing behind; after `publish` it does nothing."""
        if self._descriptor is not None:
            remove_quietly(self._disk, self._path)
            with contextlib.suppress(OSError):  # what failed before matters more
                self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.discard()

    def _open(self) -> int:
        if self._descriptor is None:
            message = "the draft has been published or discarded"
            raise ValueError(message)
        return self._descriptor

    def _flush(self) -> None:
        with storage_errors(self._path.parent):
            write_all(self._disk, self._open(), bytes(self._buffer), self._flushed_bytes())
        self._buffer.clear()

    def _flushed_bytes(self) -> int:
        return self.size_bytes - len(self._buffer)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            self._disk.close(descriptor)
