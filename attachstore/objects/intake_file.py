"""IntakeFile: new objects one behind the other in a file that has its room already.

    0    "attachstore-intake/1\n", generation, id, checksum; zeros up to 64
    64   record: "object\n\0", size, digest, checksum; then the bytes; then the next record

A record counts if its header's checksum fits the file's id and generation and the record's place,
and its bytes hash to its digest: nothing else is needed to tell what a crash left in the middle.
The first header that does not fit is the end. The id is random: bytes that somebody attached, and
that a later filling has cut in two, cannot hold a header that fits.

Invariants

 (1) The file is written ahead of its records, in steps that double until it is full, so that
     syncing most records is syncing bytes: no size and no block changes, and no journal of the
     file system is waited for. Few objects pay for a small file, many for a large one once.
 (2) A file is held by an flock for as long as its writer lives. Whoever gets the lock and finds
     the name still leading to the locked file may replay and remove it.
 (3) `start_over` is called when every record lies under its own name, durably. The old records
     may still be found after a crash, up to the first that was overwritten: they are objects
     that are there.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from attachstore.digest import CHECKSUM_BYTES, Digest, checksum
from attachstore.disk import BLOCK_BYTES, Disk, leads_to, read_all, remove_quietly, write_all
from attachstore.lock import FileLock

SUFFIX = ".intake"
_MAGIC = b"attachstore-intake/1\n"
_ID_BYTES = 16
_HEAD = struct.Struct(f"<{len(_MAGIC)}sQ{_ID_BYTES}s")
_HEAD_BYTES = 64
_RECORD_MAGIC = b"object\n\0"
_RECORD = struct.Struct("<8sQ32s")
_RECORD_BYTES = _RECORD.size + CHECKSUM_BYTES
_PLACE = struct.Struct(f"<{_ID_BYTES}sQQ")
_FIRST_STEP = 32
"""Of so many equal parts of the file, the first is written ahead with the first record."""

Read = Callable[[int, int], bytes]
"""Up to so many bytes from an offset."""


@dataclass(frozen=True, slots=True)
class Record:
    """Where an object's bytes lie in the file. They have not been hashed."""

    digest: Digest
    offset_bytes: int
    size_bytes: int

    @property
    def end_bytes(self) -> int:
        return self.offset_bytes + self.size_bytes


def room_for(size_bytes: int) -> int:
    """What a record of an object of that size takes."""
    return _RECORD_BYTES + size_bytes


def fits(size_bytes: int, file_bytes: int) -> bool:
    """Whether an object of that size would go into an empty file."""
    return _HEAD_BYTES + room_for(size_bytes) <= file_bytes


@dataclass(frozen=True, slots=True)
class Front:
    """Whose file this is, and which filling of it."""

    id: bytes
    generation: int


def front_of(read: Read) -> Front | None:
    """What the file says of itself; None for a file whose front is not ours."""
    front = read(_HEAD_BYTES, 0)
    if len(front) < _HEAD.size + CHECKSUM_BYTES:
        return None
    head = front[: _HEAD.size]
    magic, generation, file_id = _HEAD.unpack(head)
    if magic != _MAGIC or front[_HEAD.size :][:CHECKSUM_BYTES] != checksum(head):
        return None
    return Front(file_id, generation)


def records(read: Read) -> Iterator[Record]:
    """The file's records, by their headers alone; none of a file that is not ours."""
    front = front_of(read)
    if front is None:
        return
    at = _HEAD_BYTES
    while True:
        header = read(_RECORD_BYTES, at)
        if len(header) < _RECORD_BYTES or not header.startswith(_RECORD_MAGIC):
            return
        fields = header[: _RECORD.size]
        if header[_RECORD.size :] != _check(fields, front, at):
            return
        _, size_bytes, digest = _RECORD.unpack(fields)
        yield Record(Digest(digest.hex()), at + _RECORD_BYTES, size_bytes)
        at += _RECORD_BYTES + size_bytes


def _check(fields: bytes, front: Front, at: int) -> bytes:
    return checksum(_PLACE.pack(front.id, front.generation, at), fields)


class IntakeFile:
    """One writer's file. Methods raise OSError; one thread at a time."""

    def __init__(
        self, disk: Disk, lock: FileLock, descriptor: int, size_bytes: int, front: Front
    ) -> None:
        self.size_bytes = size_bytes
        self._disk = disk
        self._lock = lock
        self._descriptor: int | None = descriptor
        self._front = front
        self._end_bytes = _HEAD_BYTES
        self._ahead_bytes = 0

    @classmethod
    def create(cls, disk: Disk, directory: Path, size_bytes: int) -> IntakeFile:
        """A new file, ours, that will take records up to so many bytes. Its name is durable."""
        while True:
            path = directory / f"{secrets.token_hex(16)}{SUFFIX}"
            descriptor = disk.create(path, 0o644)
            lock = FileLock(disk, path, descriptor)
            front = Front(secrets.token_bytes(_ID_BYTES), 0)
            try:
                disk.lock(descriptor, exclusive=True, wait=False)
                write_all(disk, descriptor, _written(front), 0)
                disk.sync_directory(directory)
                if leads_to(disk, path, descriptor):
                    return cls(disk, lock, descriptor, size_bytes, front)
                lock.release()  # somebody took it for a dead writer's before it was locked
            except BlockingIOError:
                lock.release()
            except BaseException:
                remove_quietly(disk, path)
                lock.release()
                raise

    @property
    def path(self) -> Path:
        return self._lock.path

    @property
    def is_empty(self) -> bool:
        return self._end_bytes == _HEAD_BYTES

    @property
    def position(self) -> tuple[int, int]:
        """Generation, and where the next record begins: only ever grows."""
        return self._front.generation, self._end_bytes

    @property
    def room_bytes(self) -> int:
        return self.size_bytes - self._end_bytes

    def make_room(self, size_bytes: int) -> None:
        """Write the file ahead, so that the next record is bytes alone; there is `room_bytes`."""
        needed_bytes = self._end_bytes + room_for(size_bytes)
        if needed_bytes <= self._ahead_bytes:
            return
        step_bytes = self._ahead_bytes or self.size_bytes // _FIRST_STEP
        goal_bytes = min(max(needed_bytes, self._ahead_bytes + step_bytes), self.size_bytes)
        at = max(self._end_bytes, self._ahead_bytes)
        for offset_bytes in range(at, goal_bytes, BLOCK_BYTES):
            zeros = bytes(min(BLOCK_BYTES, goal_bytes - offset_bytes))
            write_all(self._disk, self._opened(), zeros, offset_bytes)
        self._ahead_bytes = goal_bytes

    def append(self, digest: Digest, data: bytes) -> Record:
        """Write a record, behind the last; `sync` makes it durable. It needs `make_room`.

        After an error the next record takes its place.
        """
        fields = _RECORD.pack(_RECORD_MAGIC, len(data), bytes.fromhex(digest.hex))
        whole = b"".join((fields, _check(fields, self._front, self._end_bytes), data))
        at = self._end_bytes
        if self.is_empty:  # what is at the front belongs to the generation before
            whole, at = _written(self._front) + whole, 0
        write_all(self._disk, self._opened(), whole, at)
        record = Record(digest, self._end_bytes + _RECORD_BYTES, len(data))
        self._end_bytes = record.end_bytes
        return record

    def sync(self) -> None:
        self._disk.sync_data(self._opened())

    def read(self, record: Record) -> bytes:
        return read_all(self._disk, self._opened(), record.size_bytes, record.offset_bytes)

    def start_over(self) -> None:
        """Forget the records: each lies under its own name, durably.

        For other processes too, which would rely on them although their files are gone. Not
        synced: if they come back after a crash they are settled once more.
        """
        self._front = replace(self._front, generation=self._front.generation + 1)
        self._end_bytes = _HEAD_BYTES
        write_all(self._disk, self._opened(), _written(self._front), 0)

    def remove(self) -> None:
        """Take the file's name away and let it go; nothing in it is needed any more."""
        try:
            self._disk.unlink(self.path)
        finally:
            self.close()

    def close(self) -> None:
        """Let it go as it is: whoever opens the store next replays it."""
        self._descriptor = None
        self._lock.release()

    def _opened(self) -> int:
        if self._descriptor is None:
            message = "the intake is closed"
            raise ValueError(message)
        return self._descriptor


def _written(front: Front) -> bytes:
    head = _HEAD.pack(_MAGIC, front.generation, front.id)
    return (head + checksum(head)).ljust(_HEAD_BYTES, b"\0")
