"""OtherIntakes: objects in the intakes of other processes, the living and the dead.

Looked at only for an object that has no file. The files of the living change under our hands:
what is read from them counts if it hashes to its digest, and nothing else is believed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

from attachstore.digest import Digest
from attachstore.disk import Disk, is_regular, leads_to, read_all, storage_errors
from attachstore.errors import AttachstoreError
from attachstore.lock import FileLock
from attachstore.objects.intake import OBJECT_BYTES_LIMIT, Objects
from attachstore.objects.intake_file import SUFFIX, Front, Read, Record, front_of, records

_BATCH_BYTES = 4 << 20
_SEEN_MAX = 65_536
"""Records kept in mind: some 500 bytes each."""


class OtherIntakes:
    """The files in the intake directory but those that `is_own` claims.

    Where a record was seen is kept in mind as a hint, which is looked up first: a living writer may
    have put another one there. Without a good one a look costs a read for each record there is.
    Thread-safe.
    """

    def __init__(self, disk: Disk, directory: Path, is_own: Callable[[Path], bool]) -> None:
        self._disk = disk
        self._directory = directory
        self._is_own = is_own
        self._seen: dict[Digest, tuple[Path, Front, Record]] = {}

    def exist(self) -> bool:
        """Whether there are any."""
        return bool(self._paths())

    def read(self, digest: Digest) -> tuple[Path, bytes] | None:
        """The object's bytes, hashed, and the file they lie in; None if none has them."""
        if seen := self._seen.get(digest):
            path, front, record = seen
            with self._opened(path) as read:
                data = _bytes_of(read, record) if front_of(read) == front else None
            if data is not None:
                return path, data
        for path in self._paths():
            with self._opened(path) as read:
                for record in self._records(path, read):
                    data = _bytes_of(read, record) if record.digest == digest else None
                    if data is not None:
                        return path, data
        return None

    def rotten(self, digest: Digest) -> tuple[Path, bytes] | None:
        """What has become of the object's bytes, for who has looked for whole ones everywhere.

        None if it is nowhere, and of a record that no whole one follows: a crash tears the end,
        which was never acknowledged.
        """
        for path in self._paths():
            with self._opened(path) as read:
                suspect = None
                for record in records(read):
                    if record.digest == digest:
                        suspect = record
                    elif suspect and _bytes_of(read, record) is not None:
                        return path, _as_they_lie(read, suspect)
        return None

    def records(self, failures: list[AttachstoreError]) -> dict[Digest, tuple[Path, Record]]:
        """What lies where, by the headers alone. What cannot be read hides nothing else."""
        found: dict[Digest, tuple[Path, Record]] = {}
        try:
            paths = self._paths()
        except AttachstoreError as error:
            failures.append(error)
            return found
        for path in paths:
            try:
                with self._opened(path) as read:
                    found |= {it.digest: (path, it) for it in self._records(path, read)}
            except AttachstoreError as error:
                failures.append(error)
        return found

    def _records(self, path: Path, read: Read) -> Iterator[Record]:
        """The file's records, each kept in mind."""
        front = front_of(read)
        for record in records(read):
            if front is not None:
                if len(self._seen) >= _SEEN_MAX:
                    self._seen.clear()
                self._seen[record.digest] = path, front, record
            yield record

    def replay(
        self,
        settle: Callable[[Objects], None],
        keep_aside: Callable[[Digest, bytes], None],
    ) -> int:
        """Settle what is in the files of dead processes, then remove them."""
        count = 0
        for path in self._paths():
            with self._taken_over(path) as read:
                if read is None:
                    continue
                for batch in self._replayed(read, keep_aside):
                    settle(batch)
                    count += len(batch)
                with storage_errors(path):
                    self._disk.unlink(path)
        return count

    def _replayed(
        self, read: Read, keep_aside: Callable[[Digest, bytes], None]
    ) -> Iterator[list[tuple[Digest, bytes]]]:
        batch: list[tuple[Digest, bytes]] = []
        torn: list[Record] = []
        for record in records(read):
            data = _bytes_of(read, record)
            if data is None:
                torn.append(record)
                continue
            for earlier in torn:  # a crash tears the end only; before a whole one it may be rot
                keep_aside(earlier.digest, _as_they_lie(read, earlier))
            torn.clear()
            batch.append((record.digest, data))
            if sum(len(data) for _, data in batch) >= _BATCH_BYTES:
                yield batch
                batch = []
        if batch:
            yield batch

    def _paths(self) -> list[Path]:
        with storage_errors(self._directory):
            try:
                names = self._disk.names(self._directory)
            except (FileNotFoundError, NotADirectoryError):
                return []
        paths = [self._directory / name for name in names if name.endswith(SUFFIX)]
        return [path for path in paths if not self._is_own(path) and self._is_file(path)]

    def _is_file(self, path: Path) -> bool:
        with storage_errors(path):
            try:
                return is_regular(self._disk.status(path))
            except FileNotFoundError:
                return False

    @contextlib.contextmanager
    def _opened(self, path: Path) -> Generator[Read]:
        """Reads of the file; of nothing, if it is gone or no file."""
        with storage_errors(path):
            try:
                descriptor = self._disk.open_read(path)
            except FileNotFoundError:
                yield _nothing
                return
            try:
                if is_regular(self._disk.status_open(descriptor)):
                    yield lambda size, offset: read_all(self._disk, descriptor, size, offset)
                else:
                    yield _nothing
            finally:
                self._disk.close(descriptor)

    @contextlib.contextmanager
    def _taken_over(self, path: Path) -> Generator[Read | None]:
        """The file, locked, if its writer is gone; else None."""
        with storage_errors(path):
            try:
                descriptor = self._disk.open_write(path)
            except FileNotFoundError:
                yield None
                return
            lock = FileLock(self._disk, path, descriptor)
            try:
                yield self._reader_if_dead(path, descriptor)
            finally:
                lock.release()

    def _reader_if_dead(self, path: Path, descriptor: int) -> Read | None:
        if not is_regular(self._disk.status_open(descriptor)):
            return None
        try:
            self._disk.lock(descriptor, exclusive=True, wait=False)
        except BlockingIOError:
            return None
        if not leads_to(self._disk, path, descriptor):
            return None  # somebody else has replayed it
        return lambda size, offset: read_all(self._disk, descriptor, size, offset)


def _nothing(_size_bytes: int, _offset_bytes: int) -> bytes:
    return b""


def _as_they_lie(read: Read, record: Record) -> bytes:
    return read(min(record.size_bytes, OBJECT_BYTES_LIMIT), record.offset_bytes)


def _bytes_of(read: Read, record: Record) -> bytes | None:
    """The record's bytes if they are what its digest says."""
    if record.size_bytes > OBJECT_BYTES_LIMIT:
        return None
    data = read(record.size_bytes, record.offset_bytes)
    return data if Digest.of(data) == record.digest else None
