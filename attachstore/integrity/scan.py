"""scan: every object against its name, every reference against its object, in both directions.

    list objects ─▶ read logs ─▶ read objects ─▶ read logs again, for the uses of bad objects

In this order, so that writers may go on: an object that is attached while the scan runs is at
worst not looked at, never missed by a reference, because a log can only refer to what is durable.

 (1) Nothing in the store is written, unless `quarantine` or `repair_from` asks for it. A
     read-only directory is enough.
 (2) `dangling-reference` was settled by opening the name after its log was read; `object-corrupt`
     by a second reading past the caches. What the medium did not answer is `unreadable`.
 (3) Every finding names the session events that are affected, found in one more pass over the
     logs that only a store with faults pays for.
 (4) Memory does not grow with objects, references and what nothing refers to: what does not fit
     is in temporary files (`scratch.py`). It grows with what is found: faults and notes.
 (5) A scan that is resumed lists and reads the logs anew, and skips the objects that are covered
     (`coverage.py`): it reports on the store as it is at its end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator

from attachstore.disk import Disk
from attachstore.errors import AttachstoreError
from attachstore.integrity.checking import Batch, Checker, CheckPool
from attachstore.integrity.checkpoint import Checkpoint
from attachstore.integrity.coverage import Coverage
from attachstore.integrity.decoding import DeepCheck
from attachstore.integrity.judging import Judge
from attachstore.integrity.listing import Lister, check_subset, in_subset
from attachstore.integrity.mending import Mender
from attachstore.integrity.object_list import ObjectList
from attachstore.integrity.pace import Pace
from attachstore.integrity.progress import Meter, Phase, Progress
from attachstore.integrity.report import Finding, Kind, ScanReport, Use
from attachstore.integrity.scratch import Scratch
from attachstore.integrity.suspects import Suspects
from attachstore.integrity.table import ObjectTable
from attachstore.integrity.walk import LogWalk
from attachstore.objects.store import ObjectStore
from attachstore.sessions.data import references_in
from attachstore.sessions.event import Event
from attachstore.sessions.logs import SessionLogs
from attachstore.sessions.names import SessionName
from attachstore.threads import CancelFlag

ProgressCallback = Callable[[Progress], None]


def scan(  # noqa: PLR0913 - settings, each with its default
    objects: ObjectStore,
    logs: SessionLogs,
    *,
    subset: tuple[int, int] | None = None,
    quarantine: bool = False,
    repair_from: ObjectStore | None = None,
    deep: DeepCheck | None = None,
    rate_bytes_s: float | None = None,
    checkpoint: Checkpoint | None = None,
    progress: ProgressCallback | None = None,
    cancel: CancelFlag | None = None,
    workers: int | None = None,
    disk: Disk | None = None,
) -> ScanReport:
    """Check all objects and all session logs; report, change nothing.

    Runs beside writers. `subset=(K, N)` checks the K-th of N equal parts of the objects and all
    logs as far as they refer to that part. `quarantine` moves corrupt objects out of the way,
    after hashing them once more under their directory's lock; `repair_from` first puts verified
    copies of another store in the place of corrupt, unreadable and missing ones. `deep` decodes
    pictures and documents again. `rate_bytes_s` bounds the bytes of objects and logs read per
    second. With a `checkpoint` an interrupted scan is gone on with. `progress` is called in this
    thread, a few times a second; `cancel` is looked at after every MiB. `workers` is the number
    of threads that read, by default one per core. Temporary files are made on `disk`.

    Costs one reading of all objects and logs, 1 MiB of memory per thread and some 10 MiB, and in
    temporary files 40 bytes per object, as many per object that nothing refers to, and some 90
    per object and claim. What cannot be read is a finding, so nothing is raised but for a wrong
    call, a lack of threads, a closed store, a temporary file that cannot be read back, or a
    checkpoint that cannot be read or begun.
    """
    check_subset(subset)
    flag = cancel or CancelFlag()
    pace = Pace(rate_bytes_s)
    coverage = Coverage(checkpoint)
    report = ScanReport(
        subset=subset, deep=deep is not None, unreferenced=ObjectList(Scratch(disk))
    )
    table = ObjectTable(disk, deep=deep is not None)
    suspects = Suspects(deep=deep is not None)

    def make_checker(stop: CancelFlag) -> Checker:
        return Checker(objects.backend, stop, pace=pace, deep=deep)

    judge = Judge(
        objects,
        suspects,
        make_checker,
        flag,
        quarantine=quarantine,
        mender=None if repair_from is None else Mender(objects, repair_from),
    )
    walk = LogWalk(logs, flag, pace)
    work = _Scan(objects, walk, coverage, judge, table, report, Meter(progress), flag)
    return work.run(lambda waiting: CheckPool(make_checker, workers=workers, waiting=waiting))


class _Scan:
    """One scan's state."""

    def __init__(
        self,
        objects: ObjectStore,
        walk: LogWalk,
        coverage: Coverage,
        judge: Judge,
        table: ObjectTable,
        report: ScanReport,
        meter: Meter,
        cancel: CancelFlag,
    ) -> None:
        self._objects = objects
        self._walk = walk
        self._coverage = coverage
        self._judge = judge
        self._suspects = judge.suspects
        self._report = report
        self._meter = meter
        self._cancel = cancel
        self._table = table
        self._listing_complete = False

    def run(self, make_pool: Callable[[Callable[[int], None]], CheckPool]) -> ScanReport:
        try:
            self._scan(make_pool)
        except BaseException:
            self._report.unreferenced.close()
            raise
        finally:
            self._table.close()
        return self._report

    def _scan(self, make_pool: Callable[[Callable[[int], None]], CheckPool]) -> None:
        self._list_objects()
        self._read_logs()
        self._read_objects(make_pool(self._while_reading))
        self._find_uses()
        self._coverage.end()
        self._report.finish(f"{self._objects.backend.location}/")
        self._report.elapsed_s = self._meter.elapsed_s
        self._meter.report()

    # -- 1 objects, by name ----------------------------------------------------------------

    def _list_objects(self) -> None:
        self._meter.enter(Phase.LISTING)
        lister = Lister(self._table, self._suspects, self._report, self._report.subset)
        with self._unreadable(self._objects.backend.location):
            for entry in self._objects.backend.entries():
                self._tick()
                lister.take(entry)
        self._listing_complete = all(it.digest is not None for it in self._report.findings)
        if not self._listing_complete:
            self._coverage.stay()
        self._meter.objects_total = len(self._table.objects)
        self._meter.bytes_total = self._table.objects.size_bytes

    # -- 2 logs ----------------------------------------------------------------------------

    def _read_logs(self) -> None:
        self._meter.enter(Phase.LOGS)
        self._report.logs_complete = False  # until the last one has been read
        with self._unreadable(self._walk.location):
            complete = True
            for name in self._walk.names():
                complete &= self._read_log(name)
            for found in self._walk.faults():
                complete = False
                self._add(found)
            self._report.logs_complete = complete
            for found in self._walk.strays():
                self._add(found)

    def _read_log(self, name: SessionName) -> bool:
        """Whether all of it could be read."""
        outcome = self._walk.outcome_of(name)
        for run in self._walk.read(name, outcome):
            self._tick()
            for event in run:
                self._take_event(event)
        self._report.events += outcome.events
        self._meter.sessions_done += 1
        if not outcome.vanished:
            self._report.sessions += 1
            self._add(outcome.finding())
        return outcome.complete

    def _take_event(self, event: Event) -> None:
        if not event.has_references:
            return
        for _, reference in references_in(event.data):
            self._report.references += 1
            if not in_subset(reference.digest, self._report.subset):
                continue
            if event.verified:
                self._table.claim(reference)
            else:
                # The line is reported as damaged, and its digest may be the damaged part: it
                # keeps an object from being called unreferenced, and accuses nobody.
                self._table.mention(reference.digest)

    # -- 3 objects, byte for byte ----------------------------------------------------------

    def _read_objects(self, pool: CheckPool) -> None:
        skipped, skipped_bytes = self._coverage.skipped(self._table)
        self._report.resumed = self._coverage.resumed(skipped)
        self._report.objects = self._meter.objects_done = skipped
        self._meter.bytes_total -= skipped_bytes
        self._meter.enter(Phase.OBJECTS)
        try:
            with contextlib.closing(pool.run(self._coverage.tasks(self._table))) as batches:
                for batch in batches:
                    self._take_batch(batch)
        finally:
            self._coverage.save(self._judge.found)
        self._report.bytes_read = pool.bytes_done
        self._coverage.recall(
            self._judge,
            self._suspects,
            listing_complete=self._listing_complete,
            logs_complete=self._report.logs_complete,
        )
        self._list_unreferenced()

    def _take_batch(self, batch: Batch) -> None:
        for checked in batch.bad:
            known = len(self._judge.found)
            self._judge.judge(checked)
            if self._judge.acts and len(self._judge.found) > known:
                self._coverage.save(self._judge.found)
        self._report.objects += batch.objects
        self._meter.objects_done += batch.objects
        self._coverage.add(batch, self._judge.found)
        self._tick()

    def _list_unreferenced(self) -> None:
        for digest, size_bytes in self._table.unreferenced():
            self._tick()
            if not self._suspects.has_fault(digest) and digest not in self._judge.gone:
                self._report.unreferenced.append(digest, size_bytes)

    def _while_reading(self, bytes_done: int) -> None:
        self._meter.bytes_done = bytes_done
        self._tick()

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
        for found in self._suspects.findings(complete=complete):
            self._add(found)

    def _find_uses_in(self, name: SessionName) -> bool:
        outcome = self._walk.outcome_of(name)
        for run in self._walk.read(name, outcome):
            self._tick()
            for event in run:
                if event.has_references:
                    self._find_uses_of(event, outcome.session)
        return outcome.error is None  # beyond damage it was read as far as lines parse, as before

    def _find_uses_of(self, event: Event, session: str) -> None:
        for pointer, reference in references_in(event.data):
            self._suspects.take_use(reference, Use(session, event.seq, pointer))

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
