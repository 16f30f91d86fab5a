"""Subject: whatever a rig on real file systems sets to work, and whoever judges what is left.

The workloads are the subjects that matter. The others calibrate the instrument: SQLite with
`synchronous = FULL`, which promises what we promise, SQLite with NORMAL, which says that it may
lose its last commits, and a workload in a process whose syncs do nothing, or which tries again
when one fails. A rig that accuses the first, or sees nothing of the others, measures nothing.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tests.rigs.journal import Journal, Record
from tests.rigs.oracle import judge
from tests.rigs.workloads import WORKLOADS, Workload

COMMITS = 4


@dataclass(frozen=True)
class Subject:
    """Works on a directory `root` that its `prepare` makes; its parent is its own, too."""

    name: str
    prepare: Callable[[Path], list[Record]]
    run: Callable[[Path, Journal], None]
    judge: Callable[[Path, list[Record]], list[str]]


def workloads() -> list[Subject]:
    """Every workload, judged by the oracle."""
    import_libraries()
    return [of_workload(workload) for workload in WORKLOADS.values()]


def import_libraries() -> None:
    """Once in the rig, and not in each process that it forks."""
    for library in ("PIL.Image", "magic", "sqlite3", "attachstore.sessions.sqlite"):
        importlib.import_module(library)


def of_workload(workload: Workload) -> Subject:
    return Subject(workload.name, workload.prepare, workload.run, judge)


def put_and_log() -> Subject:
    """The workload that everything is for."""
    return of_workload(WORKLOADS["put-and-log"])


def unsynced(subject: Subject) -> Subject:
    """The same in a process that forgets to sync."""

    def nothing(descriptor: int) -> None:
        """Sync nothing."""

    return _with_syncs(f"{subject.name} unsynced", subject, nothing, nothing)


def insistent(subject: Subject) -> Subject:
    """The same in a process that syncs once more when a sync fails, as one is tempted to."""
    fsync, fdatasync = os.fsync, os.fdatasync

    def again(sync: Callable[[int], None], descriptor: int) -> None:
        try:
            sync(descriptor)
        except OSError:
            sync(descriptor)

    name = f"{subject.name} insistent"
    return _with_syncs(name, subject, partial(again, fsync), partial(again, fdatasync))


def _with_syncs(
    name: str, subject: Subject, fsync: Callable[[int], None], fdatasync: Callable[[int], None]
) -> Subject:
    def run(root: Path, journal: Journal) -> None:
        os.fsync, os.fdatasync = fsync, fdatasync  # the rig's child ends with `run`
        subject.run(root, journal)

    return Subject(name, subject.prepare, run, subject.judge)


def calibrate(
    place: str, known: Sequence[tuple[Subject, bool]], losses: Callable[[Subject], tuple[int, int]]
) -> tuple[list[str], str]:
    """What is wrong with the instrument, and what it measured.

    `known` says of each subject whether it loses anything, `losses` how often it was seen to,
    and of how many times.
    """
    wrong: list[str] = []
    measured: list[str] = []
    for subject, loses in known:
        bad, total = losses(subject)
        measured.append(f"{subject.name} {bad} of {total}")
        if bool(bad) != loses:
            wrong.append(f"{place}: {subject.name} loses in {bad} of {total}: the rig is off")
    return wrong, f"calibrated on {place}, losses: {', '.join(measured)}"


def losing() -> list[tuple[Subject, bool]]:
    """What is known to lose at a power cut, and what is known not to."""
    return [
        (sqlite_commits("FULL"), False),
        (sqlite_commits("NORMAL"), True),
        (unsynced(put_and_log()), True),
    ]


def sqlite_commits(synchronous: Literal["FULL", "NORMAL"]) -> Subject:
    """Commits of one row each in WAL mode, then a checkpoint and one more."""

    def prepare(root: Path) -> list[Record]:
        root.mkdir(parents=True)
        with contextlib.closing(_database(root, synchronous)) as database:
            database.execute("CREATE TABLE kept (number INTEGER PRIMARY KEY, data BLOB)")
        return []

    def run(root: Path, journal: Journal) -> None:
        with contextlib.closing(_database(root, synchronous)) as database:
            for number in range(COMMITS):
                database.execute("INSERT INTO kept VALUES (?, ?)", (number, bytes(3000)))
                journal.acknowledge("commit", number=number)
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            database.execute("INSERT INTO kept VALUES (?, ?)", (COMMITS, bytes(3000)))
            journal.acknowledge("commit", number=COMMITS)

    return Subject(f"SQLite {synchronous}", prepare, run, _judge_commits)


def _database(root: Path, synchronous: str) -> sqlite3.Connection:
    database = sqlite3.connect(root / "kept.db", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(f"PRAGMA synchronous = {synchronous}")
    return database


def _judge_commits(root: Path, records: list[Record]) -> list[str]:
    promised = [it.facts["number"] for it in records if it.kind == "commit"]
    try:
        with contextlib.closing(_database(root, "FULL")) as database:
            (verdict,) = database.execute("PRAGMA integrity_check").fetchone()
            kept = [number for (number,) in database.execute("SELECT number FROM kept")]
    except sqlite3.Error as error:
        return [f"the database cannot be read: {error}"]
    found: list[Any] = [] if verdict == "ok" else [f"integrity_check: {verdict}"]
    return [*found, *(f"commit {number} is lost" for number in promised if number not in kept)]
