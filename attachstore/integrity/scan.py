"""scan: every object against its name, every reference against its object, in both directions.

    list objects ─▶ read logs ─▶ read objects ─▶ read logs again, for the uses of bad objects

In this order, so that writers may go on: an object that is attached while the scan runs is at
worst not looked at, never missed by a reference, because a log can only refer to what is durable.

 (1) Nothing is written, unless `quarantine` asks for it. A read-only directory is enough.
 (2) `dangling-reference` was settled by opening the name after its log was read; `object-corrupt`
     by a second reading past the caches. What the medium did not answer is `unreadable`.
 (3) Every finding names the session events that are affected, found in one more pass over the
     logs that only a store with faults pays for.
 (4) Memory: one table of 50 bytes per object (`table.py`), and the report.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace

from attachstore.digest import Digest
from attachstore.errors import AttachstoreError, ObjectCorruptError, ObjectMissingError
from attachstore.integrity.checking import Checked, Checker, CheckPool, Task
from attachstore.integrity.listing import Lister, check_subset, in_subset
from attachstore.integrity.progress import Meter, Phase, Progress
from attachstore.integrity.report import Finding, Kind, ScanReport, Use
from attachstore.integrity.suspects import Suspect, Suspects
from attachstore.integrity.table import ObjectTable
from attachstore.integrity.walk import LogWalk
from attachstore.objects.store import ObjectStore
from attachstore.sessions.data import references_in
from attachstore.sessions.event import Event
from attachstore.sessions.logs import SessionLogs
from attachstore.sessions.names import SessionName
from attachstore.threads import CancelFlag

ProgressCallback = Callable[[Progress], None]


def scan(
    objects: ObjectStore,
    logs: SessionLogs,
    *,
    subset: tuple[int, int] | None = None,
    quarantine: bool = False,
    progress: ProgressCallback | None = None,
    cancel: CancelFlag | None = None,
    workers: int | None = None,
) -> ScanReport:
    """Check all objects and all session logs; report, change nothing.

    Runs beside writers. `subset=(K, N)` checks the K-th of N equal parts of the objects and all
    logs as far as they refer to that part. `quarantine` moves corrupt objects out of the way,
    after hashing them once more under their directory's lock. `progress` is called in this
    thread, a few times a second; `cancel` is looked at after every MiB. `workers` is the number
    of threads that read, by default one per core.

    Costs one reading of all objects and logs, 50 bytes of memory per object and 1 MiB per
    thread. What cannot be read is a finding, so nothing is raised but for a wrong call, a lack
    of threads, or a closed store.
    """
    check_subset(subset)
    return _Scan(objects, logs, subset, quarantine, Meter(progress), cancel, workers).run()


class _Scan:
    """One scan's state."""

    def __init__(
        self,
        objects: ObjectStore,
        logs: SessionLogs,
        subset: tuple[int, int] | None,
        quarantine: bool,
        meter: Meter,
        cancel: CancelFlag | None,
        workers: int | None,
    ) -> None:
        self._objects = objects
        self._walk = LogWalk(logs, cancel)
        self._subset = subset
        self._quarantine = quarantine
        self._meter = meter
        self._cancel = cancel or CancelFlag()
        self._pool = CheckPool(objects.backend, workers=workers, waiting=self._while_reading)
        self._table = ObjectTable()
        self._suspects = Suspects()
        self._gone = set[Digest]()
        self._report = ScanReport(subset=subset)

    def run(self) -> ScanReport:
        self._list_objects()
        self._read_logs()
        self._read_objects()
        self._find_uses()
        self._report.finish(f"{self._objects.backend.location}/")
        self._report.elapsed_s = self._meter.elapsed_s
        self._meter.report()
        return self._report

    # -- 1 objects, by name ----------------------------------------------------------------

    def _list_objects(self) -> None:
        self._meter.enter(Phase.LISTING)
        lister = Lister(self._table, self._suspects, self._report, self._subset)
        with self._unreadable(self._objects.backend.location):
            for entry in self._objects.backend.entries():
                self._tick()
                lister.take(entry)
        self._meter.objects_total = len(self._table)
        self._meter.bytes_total = self._table.size_bytes

    # -- 2 logs ----------------------------------------------------------------------------

    def _read_logs(self) -> None:
        self._meter.enter(Phase.LOGS)
        self._report.logs_complete = False  # until the last one has been read
        with self._unreadable(self._walk.location):
            complete = True
            for name in self._walk.names():
                complete &= self._read_log(name)
            self._report.logs_complete = complete
            for found in self._walk.strays():
                self._add(found)

    def _read_log(self, name: SessionName) -> bool:
        """Whether all of it could be read."""
        outcome = self._walk.outcome_of(name)
        for event in self._walk.read(name, outcome):
            self._tick()
            self._take_event(event)
        self._meter.sessions_done += 1
        if not outcome.vanished:
            self._report.sessions += 1
            self._add(outcome.finding())
        return outcome.complete

    def _take_event(self, event: Event) -> None:
        self._report.events += 1
        for _, reference in references_in(event.data):
            self._report.references += 1
            if not in_subset(reference.digest, self._subset):
                continue
            if event.verified:
                self._table.claim(reference)
            else:
                # The line is reported as damaged, and its digest may be the damaged part: it
                # keeps an object from being called unreferenced, and accuses nobody.
                self._table.mention(reference.digest)

    # -- 3 objects, byte for byte ----------------------------------------------------------

    def _read_objects(self) -> None:
        self._meter.enter(Phase.OBJECTS)
        with contextlib.closing(self._pool.run(self._tasks())) as batches:
            for objects, bad in batches:
                self._report.objects += objects
                self._meter.objects_done += objects
                for checked in bad:
                    self._judge(checked)
        self._report.bytes_read = self._pool.bytes_done
        self._list_unreferenced()

    def _list_unreferenced(self) -> None:
        for index, (digest, size_bytes) in enumerate(self._table):
            bad = digest in self._suspects or digest in self._gone
            if not bad and not self._table.is_referenced(index):
                self._report.unreferenced.append(digest, size_bytes)

    def _tasks(self) -> Iterator[Task]:
        for index, (digest, size_bytes) in enumerate(self._table):
            yield Task(digest, size_bytes, self._table.claims(index))
        for digest, claims in self._table.unlisted.items():
            yield Task(digest, 0, tuple(claims))

    def _while_reading(self, bytes_done: int) -> None:
        self._meter.bytes_done = bytes_done
        self._tick()

    def _judge(self, checked: Checked) -> None:
        """Turn what was found wrong with an object into suspects, whose uses are looked up."""
        digest, error = checked.task.digest, checked.error
        if isinstance(error, ObjectCorruptError) and self._quarantine:
            self._move_aside(checked, error)
        elif isinstance(error, ObjectMissingError):
            if checked.task.claims:
                self._suspects.add(Suspect.missing(digest, self._hint(digest)))
            else:  # moved away since it was listed, and nobody needs it
                self._gone.add(digest)
        elif error is not None:
            self._suspects.add(Suspect.bad(digest, error))
        else:
            for claim, differences in checked.mismatches:
                self._suspects.add(Suspect.mismatch(digest, claim, differences))

    def _move_aside(self, checked: Checked, error: ObjectCorruptError) -> None:
        digest = checked.task.digest
        try:
            moved = self._objects.quarantine(digest, "scan", self._cancel)
        except AttachstoreError as refusal:
            suspect = Suspect.bad(digest, error)
            suspect.finding = replace(
                suspect.finding, what=f"{suspect.finding.what}; it stays where it is: {refusal}"
            )
            self._suspects.add(suspect)
            return
        if moved:
            self._suspects.add(Suspect.bad(digest, error, quarantined=True))
            return
        # Somebody healed it, or moved it away, after the second reading.
        again = Checker(self._objects.backend, self._cancel).check(checked.task)
        if isinstance(again.error, ObjectCorruptError):
            self._suspects.add(Suspect.bad(digest, again.error))
        elif not again.good:
            self._judge(again)

    def _hint(self, digest: Digest) -> str | None:
        """Where a whole copy of a missing object is kept, if there is one."""
        error = self._objects.verify(digest, self._cancel).error
        return error.hint if isinstance(error, ObjectMissingError) else None

    # -- 4 logs again, if there is anything to look for ------------------------------------

    def _find_uses(self) -> None:
        if not self._suspects:
            return
        self._meter.enter(Phase.USES)
        complete = True
        try:
            for name in self._walk.names():
                complete &= self._find_uses_in(name)
        except AttachstoreError:  # reported when the logs were read first
            complete = False
        self._report.findings.extend(self._suspects.findings(complete=complete))

    def _find_uses_in(self, name: SessionName) -> bool:
        outcome = self._walk.outcome_of(name)
        for event in self._walk.read(name, outcome):
            self._tick()
            for pointer, reference in references_in(event.data):
                self._suspects.take_use(reference, Use(outcome.session, event.seq, pointer))
        return outcome.error is None  # beyond damage it was read as far as lines parse, as before

    # -- throughout ------------------------------------------------------------------------

    @contextlib.contextmanager
    def _unreadable(self, where: str) -> Generator[None]:
        """Report a directory that cannot be listed, and go on: the rest is worth checking."""
        try:
            yield
        except AttachstoreError as error:
            what = f"a directory cannot be listed: {error}".rstrip(".")
            self._report.findings.append(
                Finding(kind=Kind.DIRECTORY_UNREADABLE, what=what, path=error.where or where)
            )

    def _add(self, found: Finding | None) -> None:
        if found is not None:
            (self._report.findings if found.kind.is_fault else self._report.notes).append(found)

    def _tick(self) -> None:
        self._cancel.check()
        self._meter.tick()
