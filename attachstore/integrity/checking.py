"""Check objects with all cores: every byte hashed, the header compared with what logs claim.

Threads, because BLAKE3 and preadv release the interpreter's lock. Each has one buffer of 1 MiB
for all its work, and at most two batches per thread wait, so memory does not depend on how many
objects there are, nor on their sizes.

 (1) "Corrupt" is said only of bytes that were read twice, the second time from a name opened
     anew and past the caches.
 (2) "Missing" is what opening the name said, at that moment.
 (3) Whatever the medium did not answer is `unreadable`, never one of the two above.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from attachstore.admission.probe import differences, has_probe, probe
from attachstore.cores import usable_cores
from attachstore.digest import Digest, Hasher, hex_digits
from attachstore.disk import BLOCK_BYTES
from attachstore.errors import AttachstoreError, ObjectCorruptError, ObjectMissingError
from attachstore.integrity.claims import Claim
from attachstore.integrity.decoding import Decoded, DeepCheck
from attachstore.integrity.pace import UNPACED, Pace
from attachstore.objects.backend import ObjectBackend, StoredObject
from attachstore.objects.reading import file_of
from attachstore.objects.verification import read_block
from attachstore.thread_pool import ThreadPool
from attachstore.threads import CancelFlag

BATCH_OBJECTS_MAX = 64
BATCH_BYTES_MAX = 4 << 20
_POLL_S = 0.1

Difference: TypeAlias = tuple[str, str, str]
"""(field, logged value, actual value)"""


class Task(NamedTuple):  # made in a fraction of a dataclass's time, for every object there is
    """An object to check. `size_bytes` is an estimate that decides how work is shared out."""

    digest: Digest
    size_bytes: int
    claims: tuple[Claim, ...]
    is_listed: bool = True
    """False for one that only logs have told of."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found wrong with an object: either an error, or claims that do not hold."""

    task: Task
    error: AttachstoreError | None = None
    mismatches: tuple[tuple[Claim, tuple[Difference, ...]], ...] = ()
    undecoded: tuple[tuple[Claim, Decoded], ...] = ()
    """Claims whose object did not decode, or could not be decoded here."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Objects that were checked one after the other."""

    number: int
    """From 0, in the order of the tasks."""
    last: Digest | None
    """The last of them that was listed."""
    objects: int
    bytes_read: int
    bad: list[Checked]


class Checker:
    """One thread's way to check objects, one after the other."""

    def __init__(
        self,
        backend: ObjectBackend,
        stop: CancelFlag,
        *,
        pace: Pace = UNPACED,
        deep: DeepCheck | None = None,
    ) -> None:
        self._backend = backend
        self._stop = stop
        self._pace = pace
        self._deep = deep
        self._buffer = memoryview(bytearray(BLOCK_BYTES))
        self.bytes_done = 0

    def check_all(self, tasks: Iterable[Task]) -> list[Checked]:
        """Check one after the other; returns what is not good. Raises Cancelled."""
        found = list[Checked]()
        for _, group in itertools.groupby(tasks, _first_byte):
            near = list(group)
            with self._backend.near(near[0].digest):
                found += filter(None, map(self.check, near))
        # (2): the name is asked for once more, now that nothing is held.
        settled = (
            self.check(it.task) if isinstance(it.error, ObjectMissingError) else it for it in found
        )
        return list(filter(None, settled))

    def check(self, task: Task) -> Checked | None:
        """Read the object, twice if it looks corrupt; None: it is good. Raises Cancelled."""
        try:
            found = self._read(task, fresh=False)
            if found is not None and isinstance(found.error, ObjectCorruptError):
                found = self._read(task, fresh=True)
        except AttachstoreError as error:
            return Checked(task, error)
        return found

    def _read(self, task: Task, *, fresh: bool) -> Checked | None:
        with self._backend.open(task.digest, fresh=fresh) as stored:
            digits, size_bytes = self._hash(stored)
            if digits != task.digest.hex:
                error = ObjectCorruptError(
                    where=stored.location,
                    digest=str(task.digest),
                    actual=str(Digest(digits)),
                    size_bytes=size_bytes,
                )
                return Checked(task, error)
            mismatches = dict(self._mismatches(task, stored, size_bytes))
            if self._deep is None:
                return Checked(task, None, tuple(mismatches.items())) if mismatches else None
            return self._decoded(task, stored, self._deep, mismatches)

    def _hash(self, stored: StoredObject) -> tuple[str, int]:
        """The digits of the digest of all there is, and how many bytes that is."""
        if (size_bytes := stored.size) < len(self._buffer):
            self._stop.check()
            # One byte more is asked for than there should be: what is short of it is the end,
            # and most objects are read in one call.
            filled = stored.read_into(self._buffer[: size_bytes + 1], 0)
            if filled == size_bytes:
                self._count(filled)
                return hex_digits(self._buffer[:filled]), filled
        return self._hash_blocks(stored)

    def _hash_blocks(self, stored: StoredObject) -> tuple[str, int]:
        hasher = Hasher()
        size_bytes = 0
        while True:
            filled = read_block(stored, self._buffer, size_bytes, self._stop)
            hasher.update(self._buffer[:filled])
            size_bytes += filled
            self._count(filled)
            if filled < len(self._buffer):
                return hasher.hex_digits(), size_bytes

    def _count(self, read_bytes: int) -> None:
        self.bytes_done += read_bytes
        self._pace.spend(read_bytes, self._stop.check)

    def _mismatches(
        self, task: Task, stored: StoredObject, size_bytes: int
    ) -> Iterator[tuple[Claim, tuple[Difference, ...]]]:
        """Claims that the bytes just hashed do not bear out."""
        whole = size_bytes < len(self._buffer)  # then the buffer still holds all of them
        for claim in task.claims:
            if claim.size == size_bytes and _is_label(claim):
                continue
            source = self._buffer[:size_bytes] if whole else file_of(stored)
            header = probe(source, claim.media_type)
            if header is None or not claim.holds(size_bytes, header):
                reference = claim.reference(task.digest)
                # There may be none: a HEIC stored unopened says less than its header does.
                if found := differences(reference, size_bytes, header):
                    yield claim, found

    def _decoded(
        self,
        task: Task,
        stored: StoredObject,
        deep: DeepCheck,
        mismatches: dict[Claim, tuple[Difference, ...]],
    ) -> Checked | None:
        """What decoding it says of the claims that its header bears out."""
        undecoded: list[tuple[Claim, Decoded]] = []
        for claim in task.claims:
            if claim in mismatches:
                continue
            decoded = deep.decode(stored, task.digest, claim, self._stop)
            if decoded is None:
                continue
            if decoded.defect is not None or decoded.unknown is not None:
                undecoded.append((claim, decoded))
            elif found := decoded.differences(claim):
                mismatches[claim] = found
        if not mismatches and not undecoded:
            return None
        return Checked(task, None, tuple(mismatches.items()), tuple(undecoded))


class CheckPool:
    """Checks many objects at once. Used by one thread, which is told how far the work is."""

    def __init__(
        self,
        make_checker: Callable[[CancelFlag], Checker],
        *,
        workers: int | None = None,
        waiting: Callable[[int], None] = lambda _bytes_done: None,
    ) -> None:
        """`waiting` is called a few times a second with the bytes read so far; it may raise."""
        self._make_checker = make_checker
        self._workers = workers or usable_cores()
        self._waiting = waiting
        self._stop = CancelFlag()
        self._idle = list[Checker]()
        self._checkers = list[Checker]()

    @property
    def bytes_done(self) -> int:
        """Bytes read, second readings included."""
        return sum(checker.bytes_done for checker in self._checkers)

    def run(self, tasks: Iterable[Task]) -> Generator[Batch]:
        """Yield what was checked, batch by batch in any order.

        Tasks are taken from the iterable as they are needed. Raises what `waiting` raises,
        after all threads have ended; closing the iterator ends them too.
        """
        pending = 0
        pool = ThreadPool[Batch]("attachstore-scan", self._workers)
        try:
            for number, batch in enumerate(_batches(tasks)):
                pool.submit(functools.partial(self._check_batch, number, batch))
                pending += 1
                while pending >= 2 * self._workers:
                    pending -= yield from self._finished(pool)
            while pending:
                pending -= yield from self._finished(pool)
        finally:
            try:
                self._stop.set()
                pool.end()
            finally:  # once more: Ctrl-C may have come before the first
                pool.end()
                pool.join()

    def _finished(self, pool: ThreadPool[Batch]) -> Generator[Batch, None, int]:
        """Wait for a batch, or for a moment; the batch, and how many that were."""
        done = pool.outcome(_POLL_S)
        self._waiting(self.bytes_done)
        if done is None:
            return 0
        yield done
        return 1

    def _check_batch(self, number: int, batch: list[Task]) -> Batch:
        self._stop.check()
        try:
            checker = self._idle.pop()
        except IndexError:
            checker = self._make_checker(self._stop)
            self._checkers.append(checker)
        before = checker.bytes_done
        try:
            found = checker.check_all(batch)
            bytes_read = checker.bytes_done - before
        finally:
            self._idle.append(checker)
        last = max((task.digest for task in batch if task.is_listed), default=None)
        return Batch(number, last, len(batch), bytes_read, found)


def _is_label(claim: Claim) -> bool:
    """Whether any bytes of the size bear it out: nothing in them is compared."""
    return claim.width is None and claim.height is None and not has_probe(claim.media_type)


def _first_byte(task: Task) -> str:
    return task.digest.hex[:2]


def _batches(tasks: Iterable[Task]) -> Iterator[list[Task]]:
    """Small objects together, so that handing over costs little; large ones alone."""
    batch, bytes_planned = list[Task](), 0
    for task in tasks:
        batch.append(task)
        bytes_planned += task.size_bytes
        if len(batch) == BATCH_OBJECTS_MAX or bytes_planned >= BATCH_BYTES_MAX:
            yield batch
            batch, bytes_planned = [], 0
    if batch:
        yield batch
