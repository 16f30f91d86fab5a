"""LogFile: one open log.jsonl.

Invariants

 (1) Bytes are added at the end only, and the end is where the writer believes it to be: another
     program's change to the file stops the writer before it writes.
 (2) No byte is cut off before a copy of it in `torn/` is durable.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Self

from attachstore.disk import (
    BLOCK_BYTES,
    Disk,
    ensure_directory,
    layout_errors,
    read_all,
    remove_quietly,
    storage_errors,
    write_all,
)
from attachstore.errors import LogPoisonedError
from attachstore.promise import Promise
from attachstore.sessions.names import SessionName
from attachstore.sessions.new_log import FILE_MODE

TORN = "torn"


class LogFile:
    """Reader and writer of one log; it owns `descriptor`."""

    def __init__(
        self, disk: Disk, descriptor: int, path: Path, name: SessionName, promise: Promise
    ) -> None:
        self._disk = disk
        self._descriptor: int | None = descriptor
        self._path = path
        self._name = name
        self._promise = promise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def size(self) -> int:
        with storage_errors(self._path):
            return self._disk.status_open(self._open_descriptor()).st_size

    def read(self, offset_bytes: int, size_bytes: int) -> bytes:
        with storage_errors(self._path):
            return read_all(self._disk, self._open_descriptor(), size_bytes, offset_bytes)

    def settle(self) -> int:
        size_bytes = self.size()
        with storage_errors(self._path):
            # In this order: only clean pages are dropped, and after a failed write-back of
            # another process the cache shows bytes that the disk does not have.
            self._disk.sync_file(self._open_descriptor())
            self._disk.drop_cache(self._open_descriptor())
        return size_bytes

    def append(self, data: bytes, offset_bytes: int) -> None:
        self._promise.check()
        with storage_errors(self._path):
            descriptor = self._open_descriptor()
            self._check_end(descriptor, offset_bytes)
            write_all(self._disk, descriptor, data, offset_bytes)
            self._disk.sync_data(descriptor)

    def cut(self, offset_bytes: int) -> str:
        self._promise.check()
        with storage_errors(self._path):
            descriptor = self._open_descriptor()
            kept = self._keep(descriptor, offset_bytes)
            self._disk.truncate(descriptor, offset_bytes)
            self._disk.sync_file(descriptor)
        return str(kept)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with storage_errors(self._path):
                self._disk.close(descriptor)

    def _keep(self, descriptor: int, offset_bytes: int) -> Path:
        """Copy what lies from `offset_bytes` on into `torn/`, durably."""
        torn = self._path.parent / TORN
        ensure_directory(self._disk, torn)
        kept = torn / f"{offset_bytes}-{secrets.token_hex(8)}"
        with layout_errors(kept):
            copy = self._disk.create(kept, FILE_MODE)
        try:
            try:
                copied_bytes = 0
                while block := read_all(
                    self._disk, descriptor, BLOCK_BYTES, offset_bytes + copied_bytes
                ):
                    write_all(self._disk, copy, block, copied_bytes)
                    copied_bytes += len(block)
                self._disk.sync_file(copy)
            finally:
                self._disk.close(copy)
        except BaseException:
            remove_quietly(self._disk, kept)
            raise
        self._promise.sync_directory(torn)
        self._promise.sync_directory(torn.parent)
        return kept

    def _check_end(self, descriptor: int, offset_bytes: int) -> None:
        status = self._disk.status_open(descriptor)
        if status.st_nlink == 0:
            reason = "another program removed the log"
        elif status.st_size != offset_bytes:
            reason = (
                f"another program changed the log: it has {status.st_size} bytes, "
                f"{offset_bytes} were written"
            )
        else:
            return
        raise LogPoisonedError(where=str(self._path), session=self._name.id, reason=reason)

    def _open_descriptor(self) -> int:
        if self._descriptor is None:
            message = "the log is closed"
            raise ValueError(message)
        return self._descriptor
