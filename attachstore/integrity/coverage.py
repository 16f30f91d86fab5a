"""Coverage: what a scan has read of the objects, and how a later one goes on from there.

Batches end in any order. Covered is what lies before the first that has not ended; what was found
beyond it is kept too, since it may have been moved aside or mended by now.

A scan that goes on looks once more at every object that something was found about: the report
says what is true at its end, and what was true before it is not forgotten.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from attachstore.digest import Digest
from attachstore.integrity.checking import Batch, Task
from attachstore.integrity.checkpoint import Checkpoint, Covered, Keeper
from attachstore.integrity.judging import Judge
from attachstore.integrity.report import Kind, Resumed
from attachstore.integrity.suspects import Suspect, Suspects
from attachstore.integrity.table import ObjectTable

SAVE_INTERVAL_S = 1.0


class Coverage:
    """One scan's, in the scanning thread. Without a checkpoint nothing is skipped or kept."""

    def __init__(
        self, checkpoint: Checkpoint | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Raises InvalidConfigurationError for a checkpoint of something else."""
        self._checkpoint = checkpoint
        self._clock = clock
        self._keeper: Keeper | None = None
        self._before = Covered.nothing()
        self._goes_on = False
        if checkpoint is not None:
            self._begin(checkpoint)
        self._now = self._before
        self._ended: dict[int, Batch] = {}
        self._next_number = 0
        self._next_save_s = 0.0
        self._stays = False
        self._again = {
            suspect.finding.digest
            for suspect in self._before.found
            if not suspect.finding.quarantined
        }
        self._moved_aside = {
            suspect.finding.digest: suspect
            for suspect in self._before.found
            if suspect.finding.quarantined
        }
        self._listed_again = set[Digest | None]()  # of both, those that `tasks` came across

    def stay(self) -> None:
        """Something could not be listed: its objects are not read, so nothing more is covered."""
        self._stays = True

    def tasks(self, table: ObjectTable) -> Iterator[Task]:
        """What is still to be checked, listed objects in ascending order."""
        upto = self._before.upto
        for known in table:
            digest, size_bytes = known.digest, known.size_bytes
            if size_bytes is None:
                # Where one that was moved aside is missing, that is our own doing.
                if known.claims and digest not in self._moved_aside:
                    yield Task(digest, 0, known.claims, is_listed=False)
                continue
            if digest in self._again or digest in self._moved_aside:
                self._listed_again.add(digest)
            if upto is None or digest > upto or digest in self._again:
                yield Task(digest, size_bytes, known.claims)

    def skipped(self, table: ObjectTable) -> tuple[int, int]:
        """Objects, and bytes by the listing, that `tasks` leaves out."""
        upto = self._before.upto
        if upto is None:
            return 0, 0
        objects = size_bytes = 0
        for digest, size in table.objects:
            if digest > upto:
                break
            if digest not in self._again:
                objects += 1
                size_bytes += size
        return objects, size_bytes

    def resumed(self, objects_skipped: int) -> Resumed | None:
        """What the report says of an earlier scan; None if this one began at the beginning."""
        if not self._goes_on:
            return None
        return Resumed(
            started_at=self._before.started_at,
            objects=objects_skipped,
            bytes_read=self._before.bytes_read,
        )

    def add(self, batch: Batch, found: Sequence[Suspect]) -> None:
        """A batch has been judged; `found` is everything that was found by now."""
        self._ended[batch.number] = batch
        while (ended := self._ended.pop(self._next_number, None)) is not None:
            self._next_number += 1
            if self._stays:
                continue
            last = ended.last if ended.last is not None else self._now.upto
            self._now = replace(
                self._now,
                upto=last if self._now.upto is None or last is None else max(last, self._now.upto),
                bytes_read=self._now.bytes_read + ended.bytes_read,
            )
        if self._keeper is not None and self._clock() >= self._next_save_s:
            self.save(found)

    def save(self, found: Sequence[Suspect]) -> None:
        """Keep it in the checkpoint, if there is one."""
        if self._keeper is not None:
            kept = _newest([*found, *self._before.found])
            self._keeper.save(replace(self._now, found=tuple(kept)))
            self._next_save_s = self._clock() + SAVE_INTERVAL_S

    def end(self) -> None:
        """The scan is over: nothing is left to go on with. Raises UnavailableError."""
        if self._checkpoint is not None:
            self._checkpoint.remove()

    def recall(
        self,
        judge: Judge,
        suspects: Suspects,
        *,
        listing_complete: bool,
        logs_complete: bool,
    ) -> None:
        """Bring back what was found before the interruption and is not found any more.

        A log that was not read mends nothing that is found in logs only: a reference that dangles,
        a claim that does not hold. Nor does a directory that could not be listed mend its objects.
        """
        for suspect in self._before.found:
            finding = suspect.finding
            digest = finding.digest
            if digest is None or suspects.has_fault(digest):
                continue
            is_listed = digest in self._listed_again
            is_gone = finding.quarantined and not is_listed
            of_logs = finding.kind is Kind.DANGLING_REFERENCE or suspect.claim is not None
            unread = not logs_complete if of_logs else not (is_listed or listing_complete)
            if is_gone or unread or finding.kind is Kind.MENDED:
                judge.add(suspect)
            elif finding.kind is not Kind.NOT_DECODED:
                judge.add(suspect.mended("found before the scan was interrupted, and not after it"))

    def _begin(self, checkpoint: Checkpoint) -> None:
        checkpoint.sweep()
        found = checkpoint.load()
        if found is None:
            checkpoint.save(self._before)  # a place that cannot be written is told at once
        else:
            self._before, self._goes_on = found, True
        self._keeper = Keeper(checkpoint)


def _newest(found: Sequence[Suspect]) -> Iterator[Suspect]:
    """Of suspects that say the same of the same object, the first."""
    seen: set[tuple[Digest | None, Kind, object]] = set()
    for suspect in found:
        key = (suspect.finding.digest, suspect.finding.kind, suspect.claim)
        if key not in seen:
            seen.add(key)
            yield suspect
