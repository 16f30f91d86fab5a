"""Rig 9: full disks, limits, read-only and immutable places, as the real kernel makes them.

The workloads run into each fault (natural_faults.py), in several degrees, on a tmpfs of their
own; the caller goes on after the error. Then the fault is over, and the oracle judges what is
there. The first error must be told as what it is. A degree in which nothing fails is no case.

Needs no root where a user may have namespaces of his own; only flags on files (`chattr`) and
groups of processes with a memory limit do, and are left out without it.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.rigs import subjects
from tests.rigs.alone import reason_without_root, run_alone
from tests.rigs.figures import Figures, Scale
from tests.rigs.held_process import HeldProcess, unavailable
from tests.rigs.images import mount_tmpfs, unmount
from tests.rigs.journal import Journal, Record
from tests.rigs.natural_faults import NaturalFault, all_faults
from tests.rigs.oracle import judge
from tests.rigs.workloads import WORKLOADS, Workload
from tests.rigs.workloads.workload import leaks

NUMBER, NAME, UNIT = 9, "natural faults", "cases"
CASES_PER_FAULT = (5, 40)
"""In CI, and else; of some faults there are fewer."""
_PLACE_BYTES = 64 << 20
_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ
_TIMEOUT_S = 3600.0


def run(scale: Scale) -> Figures:
    """So many cases of each fault, over all workloads and degrees."""
    reason = reason_without_root() or unavailable()
    if reason:
        return Figures(NUMBER, NAME, 0, UNIT, [], 0.0, not_run=reason)
    return run_alone(f"{__name__}:all_cases", scale, timeout_s=_TIMEOUT_S)


@dataclass(frozen=True)
class Prepared:
    """A workload, and the store that it starts from."""

    workload: Workload
    directory: Path
    records: list[Record]


def all_cases(workspace: Path, scale: Scale) -> Figures:
    """In a process of its own."""
    started_s = time.monotonic()
    counted: Counter[str] = Counter()
    violations: list[str] = []
    notes: list[str] = []
    subjects.import_libraries()
    prepared = [_prepared(workspace, workload) for workload in WORKLOADS.values()]
    for position, fault in enumerate(all_faults()):
        if reason := fault.reason_not_to_run():
            notes.append(f"{fault.name} left out: {reason}")
            continue
        cases = [(it, degree) for it in prepared for degree in fault.degrees]
        random.Random(position).shuffle(cases)
        for start, degree in cases:
            if counted[fault.name] == scale.pick(*CASES_PER_FAULT):
                break
            landed, said = suffer(workspace, start, fault, degree)
            counted[fault.name] += landed
            violations += said
    notes += [f"{name}: {cases}" for name, cases in counted.items()]
    seconds = time.monotonic() - started_s
    return Figures(
        NUMBER, NAME, counted.total(), UNIT, violations, seconds, tuple(notes), "", counted
    )


def suffer(
    workspace: Path, start: Prepared, fault: NaturalFault, degree: int
) -> tuple[bool, list[str]]:
    """Whether anything failed, and what is wrong with the store when all is well again."""
    mounted = workspace / "mounted"
    mounted.mkdir(exist_ok=True)
    mount_tmpfs(mounted, f"size={_PLACE_BYTES}")
    try:
        shutil.copytree(start.directory, mounted / "place")
        with fault.around(mounted, degree):
            status, complaint, records = _worked(mounted, start.workload, fault, degree)
        killed = fault.may_kill and status == -9
        failed = [it.facts["error_code"] for it in records if it.step == "failed"]
        said = judge(mounted / "place" / "store", [*start.records, *records])
        if failed and failed[0] not in fault.told_as:
            said.append(f"told as {failed[0]}")
        if status != 0 and not killed:
            said.append(complaint)
    finally:
        unmount(mounted)
    case = f"{start.workload.name}, {fault.name} ({degree})"
    return killed or bool(failed), [f"{case}: {line}" for line in said]


def _worked(
    mounted: Path, workload: Workload, fault: NaturalFault, degree: int
) -> tuple[int | None, str, Sequence[Record]]:
    """The workload's status, what it said when it raised, and its journal.

    The journal goes through a pipe: the limits are for all files, and not meant for it.
    """
    reading, writing = os.pipe()
    fcntl.fcntl(writing, _SET_PIPE_SIZE, 1 << 20)

    async def limited(journal: Journal) -> None:
        fault.inside(degree)  # not before the event loop has its own descriptors and memory
        await workload.work(mounted / "place" / "store", journal)

    def work() -> None:
        journal = Journal(writing, keep_going=True)
        asyncio.run(limited(journal))
        for what in leaks(mounted):
            journal.seen("leak", what=what)

    with HeldProcess(work) as writer:
        os.close(writing)
        for number, call in enumerate(writer.calls(), start=1):
            fault.before_call(writer.pid, mounted, number, degree)
            writer.go_on(call)
        with os.fdopen(reading, "rb") as pipe:
            lines = pipe.read().split(b"\n")[:-1]
        return writer.status, writer.complaint, [Record.parse(line) for line in lines]


def _prepared(workspace: Path, workload: Workload) -> Prepared:
    directory = workspace / "prepared" / workload.name
    directory.mkdir(parents=True)
    return Prepared(workload, directory, workload.prepare(directory / "store"))
