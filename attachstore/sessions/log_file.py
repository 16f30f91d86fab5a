"""LogFile: one open log.jsonl.

Invariants

 (1) Bytes are added at the end only, and the end is where the writer believes it to be: another
     program's change to the file stops the writer before it writes.
 (2) No byte is cut off before a copy of it in `torn/` is durable, but those that an append itself
     has just written in vain to a full disk.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Self

from attachstore.disk import FULL, Disk, read_all, storage_errors, write_all
from attachstore.errors import LogPoisonedError
from attachstore.promise import Promise
from attachstore.sessions.names import SessionName
from attachstore.sessions.room import Room, content_size
from attachstore.sessions.torn import TORN, keep_end


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
        self._room = Room(disk)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def size(self) -> int:
        with storage_errors(self._path):
            descriptor = self._open_descriptor()
            file_bytes = self._disk.status_open(descriptor).st_size
            return content_size(self._disk, descriptor, file_bytes)

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
            sync_names(self._promise, self._path)
        return size_bytes

    def append(self, data: bytes, offset_bytes: int) -> None:
        self._promise.check()
        with storage_errors(self._path):
            descriptor = self._open_descriptor()
            file_bytes = self._room.file_bytes(offset_bytes)
            check_end(self._disk, descriptor, file_bytes, self._path, self._name)
            write_or_give_back(self._disk, descriptor, data, offset_bytes)
            end_bytes = offset_bytes + len(data)
            file_bytes = self._room.add(descriptor, end_bytes, len(data), file_bytes)
            self._disk.sync_data(descriptor)
            self._room.acknowledge(end_bytes, file_bytes)

    @property
    def is_ready(self) -> bool:
        """See medium.RestingWriter, as for `rest`."""
        return self._room.is_there

    def rest(self, end_bytes: int) -> None:
        with storage_errors(self._path):
            self._room.cut_back(self._open_descriptor(), end_bytes)

    def cut(self, offset_bytes: int) -> str:
        self._promise.check()
        with storage_errors(self._path):
            descriptor = self._open_descriptor()
            kept = keep_end(
                self._disk,
                self._promise,
                descriptor,
                offset_bytes,
                torn=self._path.parent / TORN,
                name=str(offset_bytes),
            )
            self._disk.truncate(descriptor, offset_bytes)
            self._disk.sync_file(descriptor)
        return str(kept)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with storage_errors(self._path):
                self._disk.close(descriptor)

    def _open_descriptor(self) -> int:
        if self._descriptor is None:
            message = "the log is closed"
            raise ValueError(message)
        return self._descriptor


def write_or_give_back(disk: Disk, descriptor: int, data: bytes, offset_bytes: int) -> None:
    """Write at a log's end. What a full disk took of it is free again. Raises OSError.

    Else the half of one large event would keep every small one out: it fills the disk, and has to
    be kept elsewhere before the log may go on. Nothing was acknowledged behind `offset_bytes`.
    """
    try:
        write_all(disk, descriptor, data, offset_bytes)
    except OSError as error:
        if error.errno in FULL:
            with contextlib.suppress(OSError):  # then it is a tail, as after a crash
                disk.truncate(descriptor, offset_bytes)
        raise


def sync_names(promise: Promise, path: Path) -> None:
    """Make a log's name durable: whoever gave it may have been killed before. Raises OSError."""
    promise.sync_directory(path.parent)
    promise.sync_directory(path.parent.parent)


def check_end(disk: Disk, descriptor: int, size_bytes: int, path: Path, name: SessionName) -> None:
    """Raises LogPoisonedError unless the log's file is where it was, and `size_bytes` long."""
    status = disk.status_open(descriptor)
    if status.st_nlink == 0:
        reason = "another program removed the log"
    elif status.st_size != size_bytes:
        reason = (
            f"another program changed the log: it has {status.st_size} bytes, "
            f"{size_bytes} were written"
        )
    else:
        return
    raise LogPoisonedError(where=str(path), session=name.id, reason=reason)
