"""Rig 8: the interpreter's own faults, at every point where they can happen.

KeyboardInterrupt before a bytecode of the package, MemoryError from an allocation of one of its
blocking jobs, cancellation of the task where it waits (interpreter/). Each point is one run of a
workload in a forked child, judged by the oracle; the caller stops or goes on with the next thing.

Sees: clean-up that an exception jumps over, promises given too early, a close that is cut short.
Does not see: interrupts in threads, which Python does not deliver there; asyncio without memory,
which loses those who wait; libraries that take memory from malloc. What a descriptor that stays
open until the process ends does to its caller is counted, not judged (interpreter/server.py).
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from tests.rigs.figures import Figures, Progress, Scale
from tests.rigs.forks import Server, shared_out
from tests.rigs.interpreter.allocations import failing_allocations
from tests.rigs.interpreter.awaits import HOWS
from tests.rigs.workloads import WORKLOADS

NAME = "interrupted, starved, cancelled at every point"
PROCESSES = 2
Where = tuple[tuple[str, Any], ...]
TRIES = 3
MISSED_SHARE_MAX = 0.05

# How many of each kind; interrupts first of all reach every bytecode that is executed at all.
_POINTS = {"interrupt": (60, 9_000), "allocation": (60, 4_900), "cancel": (60, 2_000)}


@dataclass(frozen=True, slots=True)
class Point:
    """One run: what happens where. `where` is what the server is asked for."""

    workload: str
    kind: str
    where: Where
    new: bool = False
    """Whether no other point before it is at the same bytecode."""

    def __str__(self) -> str:
        shown = ", ".join(f"{name} {value}" for name, value in self.where)
        return f"{self.workload}: {self.kind} at {shown}"


@dataclass(frozen=True, slots=True)
class Outcome:
    violations: list[str]
    left: int = 0
    crashed: bool = False
    reached: bool = True


class Interpreter:
    """A process that runs points (interpreter/server.py)."""

    def __init__(self) -> None:
        self._server = Server("tests.rigs.interpreter.server")
        self.close = self._server.close

    def count(self, workload: str, kind: str) -> Any:
        return self._server.ask(count=workload, kind=kind)["points"]

    def run(self, job: Point) -> Outcome:
        reply = self._server.until_landed(
            TRIES, workload=job.workload, kind=job.kind, **dict(job.where)
        )
        if reply is None:
            return Outcome([], reached=False)
        violations = [f"{job}: {violation}" for violation in reply["violations"]]
        return Outcome(violations, reply["left"], reply["crashed"])


def points_of(interpreter: Interpreter, kind: str, workloads: Iterable[str]) -> list[Point]:
    """All of a kind, of all workloads."""
    listed = {"interrupt": _bytecodes, "allocation": _allocations, "cancel": _waits}[kind]
    seen: set[object] = set()
    found: list[Point] = []
    for workload in workloads:
        for place, where in listed(interpreter.count(workload, kind)):
            found.append(Point(workload, kind, where, new=place is not None and place not in seen))
            seen.add(place)
    return found


def _bytecodes(counted: list[tuple[str, int, int]]) -> Iterator[tuple[object, Where]]:
    """The first and the last execution of each, and one between."""
    for code, offset, executions in counted:
        for nth in sorted({1, (executions + 1) // 2, executions}):
            yield (code, offset), (("code", code), ("offset", offset), ("nth", nth))


def _allocations(counted: list[int]) -> Iterator[tuple[object, Where]]:
    for job, allocations in enumerate(counted, start=1):
        for nth in range(1, allocations + 1):
            yield None, (("job", job), ("nth", nth), ("keep_going", nth % 2 == 0))


def _waits(counted: int) -> Iterator[tuple[object, Where]]:
    for nth, how, going in itertools.product(range(1, counted + 1), HOWS, (False, True)):
        yield None, (("nth", nth), ("how", how), ("keep_going", going))


def sample(points: Sequence[Point], many: int) -> list[Point]:
    """The same in each run; bytecodes that no other point reaches come first."""
    shuffled = list(points)
    random.Random(0).shuffle(shuffled)
    shuffled.sort(key=lambda point: not point.new)
    return sorted(shuffled[:many], key=lambda point: point.workload)


def run(scale: Scale, workloads: Sequence[str] = tuple(WORKLOADS)) -> Figures:
    if failing_allocations() is None:
        return Figures(8, NAME, 0, "points", [], 0.0, not_run="needs a CPython with _testcapi")
    start = time.monotonic()
    if scale.ci:
        workloads = workloads[::3]  # counting alone takes a second for each
    chosen: list[Point] = []
    notes: list[str] = []
    with closing(Interpreter()) as interpreter:
        for kind, (ci, proof) in _POINTS.items():
            points = points_of(interpreter, kind, workloads)
            tried = sample(points, scale.pick(ci, proof))
            chosen += tried
            notes.append(f"{kind}: {len(tried)} of {len(points)}")
    progress = Progress(scale, "points")
    outcomes = shared_out(chosen, Interpreter, PROCESSES, progress)
    left = sum(outcome.left > 0 for outcome in outcomes)
    missed = sum(not outcome.reached for outcome in outcomes)
    violations = [it for outcome in outcomes for it in outcome.violations]
    if missed > MISSED_SHARE_MAX * len(chosen):
        violations.append(f"{missed} of {len(chosen)} points were not reached")
    notes.append(f"after {left} of them a descriptor stayed open until the process ended")
    if crashes := sum(outcome.crashed for outcome in outcomes):
        notes.append(f"in {crashes} of them the interpreter crashed for want of memory")
    return Figures(
        rig=8,
        name=NAME,
        counted=len(chosen) - missed,
        unit="points",
        violations=violations,
        seconds=time.monotonic() - start,
        notes=tuple(notes),
        details=dict(Counter(point.kind for point in chosen)),
    )
