"""Rig 1: every call to the file system fails, in every way, in every workload.

A shim (shim/shim.c) stands between the process and libc and numbers the calls below the store's
directory. For each number and each fault the workload runs once in a forked child, and the
oracle judges what is left. Some faults come once, some persist; and the caller either stops at
the first error or goes on with its next operation.

Sees: a wrong order of steps, errors that are swallowed or go unnoticed, short writes, retries of
what may not be retried, leftovers, leaks. Does not see what only a power cut loses: every write
that was made is still there. What does not go through libc's calls is not seen either
(test_calls.py counts it).
"""

from __future__ import annotations

import errno
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from tests.rigs.figures import Figures, Progress, Scale
from tests.rigs.forks import Server, of_landed, shared_out
from tests.rigs.shim import preload
from tests.rigs.workloads import ALL_WORKLOADS, LONG_WORKLOADS

PROCESSES = 2
"""At full scale; a test has one of the two processors that CI has."""
TRIES = 3
"""Of a run whose fault did not land, because threads took another turn."""
CI_RUNS = 110
PROOF_RUNS = 21_500
"""Of all workloads. Some 100,000 are possible, which takes hours."""
ALIKE_MAX = 4
"""Calls that differ in the shard only, of workloads that do something to each shard."""
SHARD = re.compile(r"(?<=blake3/)[0-9a-f]{2}\b")

_ANY, _WRITES, _READS = frozenset[str](), frozenset({"write"}), frozenset({"read"})
_KILLS = frozenset({preload.KILL_BEFORE, preload.KILL_AFTER, preload.TORN_KILL})


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at a call; `calls` are those it makes sense for (all if empty)."""

    name: str
    kind: int
    error: int = 0
    persists: int = 0
    calls: frozenset[str] = _ANY

    @property
    def kills(self) -> bool:
        return self.kind in _KILLS


ALL = preload.READS | preload.CHANGES | preload.OPENS | preload.SYNCS
FAULTS = (
    Fault("kill before", preload.KILL_BEFORE),
    Fault("kill after", preload.KILL_AFTER),
    Fault("torn write, kill", preload.TORN_KILL, calls=_WRITES),
    Fault("short write", preload.SHORT, calls=_WRITES),
    Fault("short read", preload.SHORT, calls=_READS),
    Fault("half written, ENOSPC", preload.HALF_FAIL, errno.ENOSPC, calls=_WRITES),
    Fault("EIO", preload.FAIL, errno.EIO),
    Fault("ENOSPC", preload.FAIL, errno.ENOSPC),
    Fault("EMFILE", preload.FAIL, errno.EMFILE),
    Fault("EROFS", preload.FAIL, errno.EROFS),
    Fault("EINTR", preload.FAIL, errno.EINTR),
    Fault("done, reported EIO", preload.DONE_FAIL, errno.EIO),
    Fault("EIO from then on", preload.FAIL, errno.EIO, persists=ALL),
    Fault("ENOSPC from then on", preload.FAIL, errno.ENOSPC, persists=preload.CHANGES),
    Fault("EROFS from then on", preload.FAIL, errno.EROFS, persists=preload.CHANGES),
    Fault("EMFILE from then on", preload.FAIL, errno.EMFILE, persists=preload.OPENS),
)


@dataclass(frozen=True, slots=True)
class Job:
    """One run."""

    workload: str
    at: int
    call: str
    """Its name and path, as they were when nothing failed."""
    fault: Fault
    keep_going: bool

    @property
    def operation(self) -> str:
        return self.call.partition(" ")[0]

    def __str__(self) -> str:
        going = ", caller goes on" if self.keep_going else ""
        return f"{self.workload}: {self.fault.name} at call {self.at}, {self.call}{going}"


class Shimmed:
    """A process with the shim in it (shim/server.py)."""

    def __init__(self) -> None:
        self._server = Server("tests.rigs.shim.server", LD_PRELOAD=str(preload.build()))
        self.close = self._server.close

    def calls(self, workload: str) -> list[str]:
        """The calls of a workload that nothing disturbs; it must satisfy the oracle."""
        return self._server.undisturbed(workload)["calls"]

    def run(self, job: Job) -> list[str] | None:
        """The violations; None if the fault did not land."""
        fault = job.fault
        reply = self._server.until_landed(
            TRIES,
            workload=job.workload,
            at=job.at,
            kind=fault.kind,
            error=fault.error,
            persists=fault.persists,
            keep_going=job.keep_going,
        )
        if reply is None:
            return None
        return [f"{job}: {violation}" for violation in reply["violations"]]


def reason_not_to_run() -> str:
    """Why this rig does not run on this machine, in one line; "" if it does."""
    if sys.platform != "linux":
        return "needs Linux"
    if preload.compiler() is None:
        return "needs a C compiler: apt-get install -y gcc libc6-dev"
    return ""


def run(scale: Scale, workloads: Sequence[str] = tuple(ALL_WORKLOADS)) -> Figures:
    """A sample of the jobs in which every pair of call and fault occurs."""
    reason = reason_not_to_run()
    if reason:
        return Figures(1, NAME, 0, "runs", [], 0.0, not_run=reason)
    start = time.monotonic()
    with closing(Shimmed()) as shimmed:
        calls = {name: shimmed.calls(name) for name in workloads}
    possible = list(all_jobs(calls))
    many = scale.pick(CI_RUNS, PROOF_RUNS) * len(calls) // len(ALL_WORKLOADS)
    jobs = sample(possible, many)
    progress = Progress(scale, "runs")
    landed, violations = of_landed(shared_out(jobs, Shimmed, scale.pick(1, PROCESSES), progress))
    return Figures(
        rig=1,
        name=NAME,
        counted=landed,
        unit="runs",
        violations=violations,
        seconds=time.monotonic() - start,
        notes=(
            f"{sum(map(len, calls.values())):,} calls in {len(calls)} workloads",
            f"{len(jobs):,} of {len(possible):,} runs that are possible",
            f"{len(FAULTS)} faults, of which {sum(it.persists > 0 for it in FAULTS)} persist",
            f"in {sum(job.keep_going for job in jobs)} runs the caller went on after the error",
            f"{len(jobs) - landed} did not land, because threads took other turns: not counted",
        ),
        details=dict(Counter(job.fault.name for job in jobs)),
    )


NAME = "every call fails"


def all_jobs(calls: dict[str, list[str]]) -> Iterator[Job]:
    for workload, listed in calls.items():
        kinds: Counter[str] = Counter()
        for at, call in enumerate(listed, start=1):
            kind = SHARD.sub("#", call)
            kinds[kind] += 1
            if workload in LONG_WORKLOADS and kinds[kind] > ALIKE_MAX:
                continue
            for fault in FAULTS:
                if not fault.calls or call.partition(" ")[0] in fault.calls:
                    yield Job(workload, at, call, fault, keep_going=not fault.kills)
                    if fault.name == "EIO":
                        yield Job(workload, at, call, fault, keep_going=False)


def sample(jobs: Sequence[Job], many: int) -> list[Job]:
    """The same in each run: one for each workload, operation and fault first, then any."""
    shuffled = list(jobs)
    random.Random(0).shuffle(shuffled)
    first: dict[tuple[str, str], Job] = {}
    for job in shuffled:
        first.setdefault((job.operation, job.fault.name), job)
    chosen = list(first.values())
    rest = [job for job in shuffled if first[job.operation, job.fault.name] is not job]
    return chosen + rest[: max(0, many - len(chosen))]
