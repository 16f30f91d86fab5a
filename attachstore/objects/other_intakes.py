"""OtherIntakes: objects in the intakes of other processes, the living and the dead.

Looked at only for an object that has no file. The files of the living change under our hands:
what is read from them counts if it hashes to its digest, and nothing else is believed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from attachstore.digest import Digest
from attachstore.disk import Disk, is_regular, leads_to, read_all, storage_errors
from attachstore.lock import FileLock
from attachstore.objects.backend import QuarantineNote
from attachstore.objects.intake import Objects
from attachstore.objects.intake_file import SUFFIX, Read, Record, generation_of, records

_BATCH_BYTES = 4 << 20
_OBJECT_BYTES_MAX = 64 << 20
"""More than any writer takes in: a record that says so is not read into memory."""


@dataclass(slots=True)
class _Known:
    """What has been read of one file's headers."""

    generation: int = -1
    end_bytes: int = 0
    records: dict[Digest, Record] = field(default_factory=dict[Digest, Record])


class OtherIntakes:
    """The files in the intake directory but those that `is_own` claims. Not thread-safe reads
    are harmless: what is known of a file is only a hint where to look."""

    def __init__(self, disk: Disk, directory: Path, is_own: Callable[[Path], bool]) -> None:
        self._disk = disk
        self._directory = directory
        self._is_own = is_own
        self._known: dict[Path, _Known] = {}

    def exist(self) -> bool:
        """Whether there are any."""
        return bool(self._paths())

    def read(self, digest: Digest) -> tuple[Path, bytes] | None:
        """The object's bytes, hashed, and the file they lie in; None if none has them."""
        for path in self._paths():
            with self._opened(path) as read:
                record = None if read is None else self._look(path, read).records.get(digest)
                if read is not None and record is not None:
                    data = _bytes_of(read, record)
                    if data is not None:
                        return path, data
        return None

    def records(self) -> dict[Digest, tuple[Path, Record]]:
        """What lies where, by the headers alone."""
        found: dict[Digest, tuple[Path, Record]] = {}
        for path in self._paths():
            with self._opened(path) as read:
                if read is not None:
                    known = self._look(path, read).records
                    found |= {digest: (path, record) for digest, record in known.items()}
        return found

    def replay(
        self,
        settle: Callable[[Objects], None],
        keep_aside: Callable[[Digest, bytes, QuarantineNote], None],
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
        self, read: Read, keep_aside: Callable[[Digest, bytes, QuarantineNote], None]
    ) -> Iterator[list[tuple[Digest, bytes]]]:
        generation = generation_of(read)
        batch: list[tuple[Digest, bytes]] = []
        torn: list[Record] = []
        for record in () if generation is None else records(read, generation):
            data = _bytes_of(read, record)
            if data is None:
                torn.append(record)
                continue
            for earlier in torn:  # a crash tears the end only; before a whole one it may be rot
                _keep(read, earlier, keep_aside)
            torn.clear()
            batch.append((record.digest, data))
            if sum(len(data) for _, data in batch) >= _BATCH_BYTES:
                yield batch
                batch = []
        if batch:
            yield batch

    def _look(self, path: Path, read: Read) -> _Known:
        """Read on in the file's headers from where we were."""
        generation = generation_of(read)
        known = self._known.get(path)
        if generation is None:
            return _Known()
        if known is None or known.generation != generation:
            known = self._known[path] = _Known(generation)
        start = {"start_bytes": known.end_bytes} if known.end_bytes else {}
        for record in records(read, generation, **start):
            known.records[record.digest] = record
            known.end_bytes = record.end_bytes
        return known

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
    def _opened(self, path: Path) -> Generator[Read | None]:
        with storage_errors(path):
            try:
                descriptor = self._disk.open_read(path)
            except FileNotFoundError:
                self._known.pop(path, None)
                yield None
                return
            try:
                if is_regular(self._disk.status_open(descriptor)):
                    yield lambda size, offset: read_all(self._disk, descriptor, size, offset)
                else:
                    yield None
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


def _bytes_of(read: Read, record: Record) -> bytes | None:
    """The record's bytes if they are what its digest says."""
    if record.size_bytes > _OBJECT_BYTES_MAX:
        return None
    data = read(record.size_bytes, record.offset_bytes)
    return data if Digest.of(data) == record.digest else None


def _keep(
    read: Read, record: Record, keep_aside: Callable[[Digest, bytes, QuarantineNote], None]
) -> None:
    data = read(min(record.size_bytes, _OBJECT_BYTES_MAX), record.offset_bytes)
    note = QuarantineNote(
        found_by="intake",
        expected=str(record.digest),
        actual=str(Digest.of(data)),
        size_bytes=len(data),
    )
    keep_aside(record.digest, data, note)
