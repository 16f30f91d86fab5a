"""Scratch: more bytes than memory should hold, in a temporary file that has no name.

The file is the system's business ($TMPDIR), not the store's: a scan writes nothing into what it
looks at. It goes with its process, however that ends. What is less than a block stays in memory,
so a scan of a small store makes no file at all; and where none can be made or written, the bytes
stay in memory too: a scan is worth more than its bound.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import tempfile
import weakref
from pathlib import Path

from attachstore.disk import BLOCK_BYTES, Disk, read_all, storage_errors, write_all
from attachstore.errors import StorageIOError
from attachstore.unnamed import open_unnamed

MEMORY_BYTES = BLOCK_BYTES

_MODE = 0o600
_log = logging.getLogger("attachstore")


class Scratch:
    """Bytes that are appended, and read at any place. Used by one thread at a time."""

    def __init__(self, disk: Disk | None = None, *, memory_bytes: int | None = None) -> None:
        """Touches nothing. `memory_bytes`: at so many a file takes them; by default at 1 MiB."""
        self._disk = disk or Disk()
        self._memory_bytes = MEMORY_BYTES if memory_bytes is None else memory_bytes
        self._descriptor: int | None = None
        self._closer: weakref.finalize[[Disk, int], Scratch] | None = None
        self._written_bytes = 0
        self._rest = bytearray()
        self._stays_in_memory = False

    def __len__(self) -> int:
        """Bytes appended so far."""
        return self._written_bytes + len(self._rest)

    def append(self, data: bytes) -> None:
        """Add `data` at the end. What no file takes stays in memory, which is told once."""
        self._rest += data
        if len(self._rest) >= self._memory_bytes and not self._stays_in_memory:
            self._spill()

    def read(self, size_bytes: int, offset_bytes: int) -> bytes:
        """`size_bytes` from `offset_bytes`, which must have been appended.

        Raises UnavailableError if the file does not give back what was put into it.
        """
        start = offset_bytes - self._written_bytes
        if start >= 0:
            return bytes(self._rest[start : start + size_bytes])
        in_file_bytes = min(size_bytes, -start)
        data = self._read_file(in_file_bytes, offset_bytes)
        return data + self._rest[: size_bytes - in_file_bytes]

    def close(self) -> None:
        """Forget all of it, and let the file go. Safe to repeat."""
        self._rest.clear()
        self._descriptor = None
        self._written_bytes = 0
        if self._closer is not None:
            self._closer()

    def _read_file(self, size_bytes: int, offset_bytes: int) -> bytes:
        assert self._descriptor is not None  # noqa: S101 - for the type checker: it was written
        where = _place()
        with storage_errors(where):
            data = read_all(self._disk, self._descriptor, size_bytes, offset_bytes)
        if len(data) < size_bytes:
            reason = "a temporary file is shorter than what was written to it"
            raise StorageIOError(where=where, reason=reason)
        return data

    def _spill(self) -> None:
        try:
            if self._descriptor is None:
                self._open()
            assert self._descriptor is not None  # noqa: S101 - for the type checker
            write_all(self._disk, self._descriptor, bytes(self._rest), self._written_bytes)
            # Only a sync tells that what was written could not be kept; a read then gives zeros.
            self._disk.sync_data(self._descriptor)
        except OSError as error:
            self._stays_in_memory = True
            _log.warning(
                "no temporary file in %s takes what a scan keeps, so it stays in memory: %s",
                _place(),
                error,
            )
        else:
            self._written_bytes += len(self._rest)
            self._rest = bytearray()

    def _open(self) -> None:
        # Where it really is: a link would be refused, and in the way to it anything may be one.
        directory = Path(os.path.realpath(tempfile.gettempdir()))
        descriptor = open_unnamed(self._disk, directory, _MODE)
        if descriptor is None:
            descriptor = _without_its_name(self._disk, directory)
        self._descriptor = descriptor
        self._closer = weakref.finalize(self, _close, self._disk, descriptor)
        self._closer.atexit = False  # the process's end closes it as well


def _without_its_name(disk: Disk, directory: Path) -> int:
    """As `open_unnamed`, where a file must have a name for a moment."""
    path = directory / f"attachstore-{secrets.token_hex(16)}"
    descriptor = disk.create(path, _MODE)
    try:
        disk.unlink(path)
    except BaseException:
        _close(disk, descriptor)
        raise
    return descriptor


def _close(disk: Disk, descriptor: int) -> None:
    with contextlib.suppress(OSError):  # it holds nothing that anybody still wants
        disk.close(descriptor)


def _place() -> str:
    """For messages; asking for the directory may fail as well."""
    try:
        return ascii(tempfile.gettempdir())[1:-1]
    except OSError:
        return "the directory for temporary files"
