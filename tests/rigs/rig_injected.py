"""Rig 2: the kernel refuses a system call, or the process is killed at it.

The same points as rig 1, by another instrument: strace attaches to the process that works and
injects the error, or SIGKILL, at one system call. Nothing of the shim is involved, so what it
overlooks, a call that bypasses libc, can be seen here. It is ten times slower, and it cannot do
half a write.

The call is not made when it is made to fail, so a close is only killed at. A kill comes before
the call, which is then not made either, so that every prefix of the work is left behind once.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache

from tests.rigs.figures import Figures, Progress, Scale
from tests.rigs.forks import Server, of_landed, shared_out
from tests.rigs.rig_calls import ALIKE_MAX, SHARD
from tests.rigs.workloads import ALL_WORKLOADS, LONG_WORKLOADS

NAME = "every system call is refused"
PROCESSES = 2
"""At full scale; a test has one of the two processors that CI has."""
TRIES = 5
"""Of a run whose injection did not land, because threads took another turn."""
CI_RUNS = 70
PROOF_RUNS = 3_400

KILL = "signal=SIGKILL"
ERRORS = ("error=EIO", "error=ENOSPC", "error=EMFILE", "error=EROFS", "error=EINTR")
LASTING = "error=EIO"


@dataclass(frozen=True, slots=True)
class Injection:
    """One run: what is injected at which call of which workload."""

    workload: str
    call: str
    number: int
    """Of this call in its thread."""
    path: str
    inject: str
    persists: bool
    keep_going: bool

    def __str__(self) -> str:
        lasting = " from then on" if self.persists else ""
        going = ", caller goes on" if self.keep_going else ""
        what = f"{self.inject}{lasting} at {self.call} {self.number}, {self.path}"
        return f"{self.workload}: {what}{going}"


class Traced:
    """A process that strace is attached to (strace_server.py)."""

    def __init__(self) -> None:
        self._server = Server("tests.rigs.strace_server")
        self.close = self._server.close

    def points(self, workload: str) -> list[tuple[str, int, str]]:
        """Where something can be injected; undisturbed, the workload must satisfy the oracle."""
        return self._server.undisturbed(workload)["points"]

    def run(self, job: Injection) -> list[str] | None:
        """The violations; None if the injection did not land."""
        reply = self._server.until_landed(
            TRIES,
            workload=job.workload,
            call=job.call,
            number=job.number,
            inject=job.inject,
            persists=job.persists,
            keep_going=job.keep_going,
        )
        if reply is None:
            return None
        return [f"{job}: {violation}" for violation in reply["violations"]]


@cache
def reason_not_to_run() -> str:
    """Why this rig does not run on this machine, in one line; "" if it does."""
    if shutil.which("strace") is None:
        return "needs strace: apt-get install -y strace"
    tried = subprocess.run(
        ["strace", "-o", "/dev/null", "-e", "inject=close:error=EIO:when=9999", "true"],
        check=False,
        capture_output=True,
        text=True,
    )
    if tried.returncode != 0:
        return f"strace may not trace here: {(tried.stderr.splitlines() or ['?'])[-1]}"
    return ""


def run(scale: Scale, workloads: Sequence[str] = tuple(ALL_WORKLOADS)) -> Figures:
    """A sample of all injections in which every system call meets each of them."""
    reason = reason_not_to_run()
    if reason:
        return Figures(2, NAME, 0, "runs", [], 0.0, not_run=reason)
    start = time.monotonic()
    with closing(Traced()) as traced:
        points = {name: traced.points(name) for name in workloads}
    many = scale.pick(CI_RUNS, PROOF_RUNS) * len(points) // len(ALL_WORKLOADS)
    jobs = sample(list(all_injections(points)), many)
    progress = Progress(scale, "runs")
    landed, violations = of_landed(shared_out(jobs, Traced, scale.pick(1, PROCESSES), progress))
    return Figures(
        rig=2,
        name=NAME,
        counted=landed,
        unit="runs",
        violations=violations,
        seconds=time.monotonic() - start,
        notes=(
            f"{sum(map(len, points.values()))} points in {len(points)} workloads",
            f"{len({job.call for job in jobs})} system calls",
            f"{len(jobs) - landed} did not land, because threads took other turns: not counted",
        ),
        details=dict(Counter(job.inject for job in jobs)),
    )


def all_injections(points: dict[str, list[tuple[str, int, str]]]) -> Iterator[Injection]:
    for workload, listed in points.items():
        kinds: Counter[str] = Counter()
        for call, number, path in listed:
            kind = f"{call} {SHARD.sub('#', path)}"
            kinds[kind] += 1
            if workload in LONG_WORKLOADS and kinds[kind] > ALIKE_MAX:
                continue
            yield Injection(workload, call, number, path, KILL, persists=False, keep_going=False)
            if call == "close":
                continue  # strace would not make the call, and Linux always closes
            for inject in ERRORS:
                yield Injection(
                    workload, call, number, path, inject, persists=False, keep_going=True
                )
            yield Injection(workload, call, number, path, LASTING, persists=True, keep_going=True)


def sample(jobs: Sequence[Injection], many: int) -> list[Injection]:
    """The same in each run: one for each system call and injection first, then any."""
    shuffled = list(jobs)
    random.Random(0).shuffle(shuffled)
    first: dict[tuple[str, str, bool], Injection] = {}
    for job in shuffled:
        first.setdefault((job.call, job.inject, job.persists), job)
    rest = [job for job in shuffled if first[job.call, job.inject, job.persists] is not job]
    return [*first.values(), *rest[: max(0, many - len(first))]]
