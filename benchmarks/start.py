"""How long does whoever types a command, or imports the package, wait before anything happens?

Whole processes, from their start to their end, as a shell has them, with their bytecode compiled
as an installed package has it. The figures are parts of a limit in milliseconds, since what a
person waits for is no quotient: those on the clock, and those that the process had a processor
for, which are the same on a machine that does nothing else. The limit of an import is on what it
adds to what any asyncio program that uses msgspec has loaded.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Plan, Question, Row, spent

BESIDE = "import asyncio, msgspec"
CLOCKS = ("on the clock", "of CPU")


@dataclass(frozen=True, slots=True)
class Start:
    """What is waited for; with `beside`, what of it is more than that takes."""

    name: str
    arguments: tuple[str, ...]
    limit_s: float
    has_target: bool = True
    beside: bool = False


def starts(store: Path, file: Path) -> tuple[Start, ...]:
    command = (sys.executable, "-m", "attachstore")
    python = (sys.executable, "-c")
    put = (*command, "--store", str(store), "put", str(file))
    bare, whole = f"{BESIDE}, attachstore", f"{BESIDE}; from attachstore import Store"
    return (
        Start("attachstore --help", (*command, "--help"), 0.150),
        Start("attachstore put of 4 KiB", put, 0.250),
        Start("import attachstore", (*python, bare), 0.030, beside=True),
        Start("from attachstore import Store", (*python, whole), 0.030, False, beside=True),
    )


async def measure(plan: Plan) -> list[Row]:
    file = plan.directory / "notes.txt"
    compiled = plan.directory / "bytecode"
    asked = starts(plan.directory / "store", file)
    processes = [Process(start.arguments, compiled, lambda: renew(file)) for start in asked]
    beside = Process((sys.executable, "-c", BESIDE), compiled, lambda: None)
    await spent([each.run for each in (*processes, beside)], rounds=plan.rounds(40))
    return [
        row(start, clock, process.spent_s(clock), beside.spent_s(clock))
        for clock in CLOCKS
        for start, process in zip(asked, processes, strict=True)
    ]


def row(start: Start, clock: str, seconds: list[float], beside: list[float]) -> Row:
    more = f" more than `{BESIDE}`" if start.beside else ""
    limit_ms = f"{start.limit_s * 1000:.0f} ms"
    if start.beside:  # both vary by more than a small import takes
        seconds = [
            max(all_of_it - less, 1e-5) for all_of_it, less in zip(seconds, beside, strict=True)
        ]
    return Row(
        question=Question(
            text=f"{start.name}, {clock} / {limit_ms}",
            floor=f"{limit_ms}{more}",
            target=1.0 if start.has_target else None,
            ours_durable="as the command: `put` syncs bytes and name",
            floor_durable="no call at all",
            group="start",
        ),
        size=limit_ms,
        ratios=tuple(each_s / start.limit_s for each_s in seconds),
    )


def renew(file: Path) -> None:
    """Text that is nowhere else."""
    file.write_text(os.urandom(2 << 10).hex())


class Process:
    """A command, and what each of its runs took."""

    def __init__(
        self, arguments: tuple[str, ...], compiled: Path, prepare: Callable[[], None]
    ) -> None:
        self._arguments = arguments
        self._prepare = prepare
        others = {"PYTHONDONTWRITEBYTECODE"}
        self._environment = {
            name: value
            for name, value in os.environ.items()
            if name not in others and not name.startswith("ATTACHSTORE_")
        }
        self._environment["PYTHONPYCACHEPREFIX"] = str(compiled)
        self._spent_s: dict[str, list[float]] = {clock: [] for clock in CLOCKS}

    async def run(self) -> None:
        self._prepare()
        before_s = _clocks_s()
        subprocess.run(
            self._arguments, env=self._environment, check=True, stdout=subprocess.DEVNULL
        )
        for clock, start_s, end_s in zip(CLOCKS, before_s, _clocks_s(), strict=True):
            self._spent_s[clock].append(end_s - start_s)

    def spent_s(self, clock: str) -> list[float]:
        """Of each round but the first, which compiles and finds nothing in any cache."""
        return self._spent_s[clock][1:]


def _clocks_s() -> tuple[float, float]:
    """Time, and what all processes that were waited for have had of the processors."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter(), used.ru_utime + used.ru_stime
