"""Rig 7: a real device that fails to write, under each sync of each workload.

The store's disk is a daemon that can be told to answer writes with EIO (block_daemon.py). A
process works on the store and is held at each sync; at one of them the disk falls ill, the sync
is made on the process's own open file, and its answer is handed to the process. The caller goes
on after the error, as callers do. In the end the power is cut: the disk is copied as it is,
mounted elsewhere, and judged, and the oracle is told which sync failed.

What makes this different from an injected EIO (rigs 1 and 2) is the kernel: it has dropped what
it could not write, shows it nevertheless to whoever reads, and answers the next sync with OK. So
whoever tries again, or lets another vouch for what he could not sync, loses here and only here.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import random
import re
import signal
import stat
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.rigs import subjects
from tests.rigs.alone import reason_not_to_run, run_alone
from tests.rigs.block_daemon import DEVICES, PROGRAM, BlockDaemon
from tests.rigs.figures import Figures, Progress, Scale
from tests.rigs.held_process import SYNCS, Call, HeldProcess, unavailable
from tests.rigs.images import (
    BTRFS,
    EXT4,
    EXT4_NO_JOURNAL,
    XFS,
    FileSystem,
    copy_image,
    mount,
    start_writeout,
    sync,
)
from tests.rigs.journal import Journal
from tests.rigs.stage import Stage
from tests.rigs.subjects import Subject

NUMBER, NAME, UNIT = 7, "a device that fails to write", "cases"
SYSTEMS = (EXT4, EXT4_NO_JOURNAL, XFS, BTRFS)
TARGETS = ("object", "log", "directory")
ONCE, SINCE, BACKGROUND, SYNCFS = "sync", "sync and all after it", "write-back", "syncfs"
WAYS = (ONCE, SINCE, BACKGROUND, SYNCFS)
"""What fails: one sync; that and everything later; the kernel's own writing, or somebody else's
`syncfs`, before the sync, when the device is well again."""
CASES_PER_SYSTEM = (11, 100)
_WRITE_BACK_S = 0.05
_TIMEOUT_S = 3600.0


_MISNAMED = re.compile(r"has an incorrect filetype|ref count is \d+, should be \d+")
_REFUSED = re.compile(
    r"opened( again)?: s-\d+ cannot be opened: StoreLayoutError\(.*"
    r"(it is not a directory \(\S+/sessions/s-\d+\)"
    r"|the file has \d+ names, and all of them would be written \(\S+/sessions\.db-wal\))"
    r"|left in staging: spool-[0-9a-f]{32}$"
)
"""A limit of file systems without a journal (see `is_only_misnamed`)."""


@dataclass(frozen=True)
class Sync:
    """One sync of a workload, when nothing fails."""

    subject: Subject
    number: int
    """Among the syncs of the workload, from 1."""
    target: str


@dataclass(frozen=True)
class Case:
    sync: Sync
    way: str

    def __str__(self) -> str:
        sync = self.sync
        return f"{sync.subject.name}: {self.way}, at sync {sync.number} ({sync.target})"


def run(scale: Scale) -> Figures:
    """On each file system as many cases as `CASES_PER_SYSTEM` says, of every kind."""
    programs = (PROGRAM, "e2fsck", *(system.make[0] for system in SYSTEMS))
    reason = reason_not_to_run(*programs, devices=DEVICES) or unavailable()
    if reason:
        return Figures(NUMBER, NAME, 0, UNIT, [], 0.0, not_run=reason)
    return run_alone(f"{__name__}:all_cases", scale, timeout_s=_TIMEOUT_S)


def all_cases(workspace: Path, scale: Scale) -> Figures:
    """In a process of its own."""
    started_s = time.monotonic()
    counted: Counter[str] = Counter()
    violations: list[str] = []
    notes: list[str] = []
    # btrfs refuses everything after an error, so whoever insists is told and loses nothing.
    for system in SYSTEMS[:1] if scale.ci else SYSTEMS[:-1]:
        wrong, measured = calibrate(workspace, system)
        violations += wrong
        notes.append(measured)
    progress = Progress(scale, "file systems")
    for position, system in enumerate(SYSTEMS):
        progress.at(position, len(SYSTEMS), len(violations))
        chance = random.Random(position)
        wanted = scale.pick(*CASES_PER_SYSTEM)
        names = subjects.workloads()
        some = names if not scale.ci else chance.sample(names, 6)
        syncs = [it for subject in some for it in Ward(workspace, system, subject).syncs()]
        for case in _cases(syncs, chance):
            if wanted == 0:
                break
            ward = Ward(workspace, system, case.sync.subject)
            landed, said = ward.suffer(case)
            if said and is_only_misnamed(ward.mending, said):
                counted[f"{system.name}, refused: a name leads elsewhere"] += 1
            elif is_only_a_lost_mapping(system, case.sync.subject.name, said):
                counted[f"{system.name}, killed: SQLite's shared index could not be touched"] += 1
            else:
                violations += [f"{system.name}: {case}: {line}" for line in said]
            if landed:
                wanted -= 1
                counted[f"{case.sync.target}, {case.way}"] += 1
                counted[system.name] += 1
    notes += [f"{what}: {cases}" for what, cases in counted.items()]
    total = sum(counted[system.name] for system in SYSTEMS)
    seconds = time.monotonic() - started_s
    return Figures(NUMBER, NAME, total, UNIT, violations, seconds, tuple(notes), "", counted)


def is_only_misnamed(mending: str, said: Sequence[str]) -> bool:
    """Whether all that is wrong is a name which leads to something else since the power cut.

    A name is taken away and its inode used again; only the inode reaches the disk. A file system
    without a journal has two names for it then, and `e2fsck` (which said `mending`) lets both
    stay. The store refuses what it cannot be sure of; nothing is lost, nothing is served.
    """
    return bool(_MISNAMED.search(mending)) and all(_REFUSED.match(line) for line in said)


def is_only_a_lost_mapping(system: FileSystem, subject: str, said: Sequence[str]) -> bool:
    """Whether the process was killed by SIGBUS, and nothing is wrong with what it left.

    btrfs refuses everything after an error at once, and nothing can be written to a mapping any
    more; SQLite maps `sessions.db-shm`, and attachstore nothing.
    """
    has_database = subject.endswith("sqlite") or subject.startswith("convert")
    return system is BTRFS and has_database and list(said) == [_killed_by(signal.SIGBUS)]


def _killed_by(number: int) -> str:
    return f"the process was killed by {signal.Signals(number).name}"


def calibrate(workspace: Path, system: FileSystem) -> tuple[list[str], str]:
    """See subjects.calibrate; here whoever syncs again after a failure is known to lose."""

    def losses(subject: Subject) -> tuple[int, int]:
        ward = Ward(workspace, system, subject)
        cases = [ward.suffer(Case(it, ONCE)) for it in ward.syncs() if it.target != "directory"]
        return sum(landed and bool(said) for landed, said in cases), len(cases)

    known = [(subjects.insistent(subjects.put_and_log()), True)]
    return subjects.calibrate(system.name, known, losses)


def _cases(syncs: Sequence[Sync], chance: random.Random) -> Iterator[Case]:
    """One of each kind in turn, so that a few show all. Nothing but a file has data to write."""
    kinds = [
        [Case(it, way) for it in syncs if it.target == target]
        for target, way in itertools.product(TARGETS, WAYS)
        if target != "directory" or way in {ONCE, SINCE}
    ]
    for kind in kinds:
        chance.shuffle(kind)
    for round_ in itertools.zip_longest(*kinds):
        yield from (case for case in round_ if case is not None)


class Ward(Stage):
    """One subject on one file system, on a disk that can fall ill."""

    def __init__(self, workspace: Path, system: FileSystem, subject: Subject) -> None:
        super().__init__(workspace, system, subject)
        self._workspace = workspace

    def syncs(self) -> list[Sync]:
        found: list[Sync] = []
        self.renew()
        with self.at_hand(self.image), self._writer() as writer:
            for call in writer.calls():
                if call.name in SYNCS:
                    target, _ = self._target(writer, call)
                    found.append(Sync(self.subject, len(found) + 1, target))
                writer.go_on(call)
            assert writer.status == 0, writer.complaint
        return found

    def suffer(self, case: Case) -> tuple[bool, list[str]]:
        """Whether the sync failed, and what is wrong with the store after a power cut."""
        self.renew()
        left = self.image.with_name("left")
        landed = False
        with BlockDaemon(self._workspace, self.image) as disk:
            mount(self.system, disk.served, self.mounted)
            with self._taken_away_roughly(disk), self._writer() as writer:
                syncs = 0
                for call in writer.calls():
                    syncs += call.name in SYNCS
                    if call.name in SYNCS and syncs == case.sync.number:
                        landed = self._fail(writer, call, case.way, disk)
                    else:
                        writer.go_on(call)
                copy_image(self.image, left)
                crashed = _how_it_ended(writer)
        return landed, [*crashed, *self.verdict(left)]

    @contextlib.contextmanager
    def _taken_away_roughly(self, disk: BlockDaemon) -> Generator[None]:
        """What a file system that met an error cannot write any more does not matter."""
        try:
            with self.taken_away_after():
                yield
                disk.well()
        finally:
            disk.well()

    def _fail(self, writer: HeldProcess, call: Call, way: str, disk: BlockDaemon) -> bool:
        """Whether the sync failed."""
        _, path = self._target(writer, call)
        descriptor = writer.borrow(call.arguments[0])
        try:
            disk.sick(errno.EIO)
            if way == BACKGROUND:
                start_writeout(descriptor)
                time.sleep(_WRITE_BACK_S)
            elif way == SYNCFS:
                with contextlib.suppress(OSError):
                    sync(self.mounted)
            if way in {BACKGROUND, SYNCFS}:
                disk.well()
            error = _synced(call, descriptor)
            if way != SINCE:
                disk.well()
        finally:
            os.close(descriptor)
        if error:
            journal = Journal(self.open_journal())
            journal.seen("fault", call=call.name, path=path, error=errno.errorcode[error])
        writer.answer(call, error)
        return error != 0

    def _target(self, writer: HeldProcess, call: Call) -> tuple[str, str]:
        """What kind of thing is synced, and its path below the store."""
        descriptor = call.arguments[0]
        path = Path(os.readlink(f"/proc/{writer.pid}/fd/{descriptor}"))
        below = str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)
        if stat.S_ISDIR(os.stat(f"/proc/{writer.pid}/fd/{descriptor}").st_mode):
            return "directory", below
        return ("log" if below.startswith("sessions") else "object"), below

    def _writer(self) -> HeldProcess:
        def work() -> None:
            self.subject.run(self.root, Journal(self.open_journal(), keep_going=True))

        return HeldProcess(work)


def _how_it_ended(writer: HeldProcess) -> list[str]:
    """What is wrong with that."""
    status = writer.status or 0
    if status < 0:
        return [_killed_by(-status)]
    return [writer.complaint] if status else []


def _synced(call: Call, descriptor: int) -> int:
    """Do the call on our own copy of the descriptor: 0, or the errno."""
    try:
        (os.fsync if call.name == "fsync" else os.fdatasync)(descriptor)
    except OSError as error:
        return error.errno or errno.EIO
    return 0
