"""Runs benchmarks one after the other, in time, whatever becomes of each, and keeps the outcome."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import datetime as dt
import os
import platform
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import (
    against_peers,
    append,
    commit,
    concurrent,
    decoders,
    duplicate,
    events,
    growth,
    large,
    listing,
    many_small,
    read,
    replay,
    scan,
    start,
    steps,
    steps_large,
    steps_scan,
    suffix,
    write_behind,
)
from benchmarks.measure import SECONDS_EACH, Measure, Plan, Row, table
from benchmarks.peers.catalog import versions
from benchmarks.place import Place, best_place
from benchmarks.report import page, results
from benchmarks.report.results import Outcome

ALL: tuple[Measure, ...] = (
    commit.measure,
    steps.measure,
    steps_large.measure,
    steps_scan.measure,
    large.measure,
    duplicate.measure,
    read.measure,
    append.measure,
    write_behind.measure,
    events.measure,
    replay.measure,
    scan.measure,
    concurrent.measure,
    against_peers.measure,
    many_small.measure,
    growth.measure,
    suffix.measure,
    listing.measure,
    start.measure,
    decoders.measure,
)
ON_XFS: tuple[Measure, ...] = (commit.measure, append.measure)
"""Again on a second file system, to see whether the first is special."""
WORK = Path(__file__).parents[1] / ".benchmarks"
"""On the disk of the checkout, and ignored by git."""
COMPARISONS = 150
"""What the time is divided by: about half of it is spent on comparisons, half on filling stores."""


@dataclass(frozen=True, slots=True)
class Job:
    """A benchmark, on one kind of file system."""

    measure: Measure
    file_system: str = "ext4"

    @property
    def name(self) -> str:
        return self.measure.__module__.rpartition(".")[2]

    @property
    def shown(self) -> str:
        return self.name if self.file_system == "ext4" else f"{self.name} on {self.file_system}"

    def marked(self, row: Row) -> Row:
        """Kept apart on the page, unless it is on the file system that all others are on."""
        if self.file_system == "ext4":
            return row
        question = dataclasses.replace(row.question, group=self.file_system)
        return dataclasses.replace(row, question=question)


JOBS = (*(Job(measure) for measure in ALL), *(Job(measure, "xfs") for measure in ON_XFS))


def main() -> None:
    given = _arguments()
    signal.signal(signal.SIGTERM, _stop)  # else the image would stay mounted
    if given.page:
        page.write(results.load())
        return
    chosen = [job for job in JOBS if given.only in (None, job.name)]
    if given.quick:
        chosen = [job for job in chosen if job.file_system == "ext4"]
    kept = results.Results() if given.only is None else results.load()
    kept.minutes = given.minutes if given.only is None else min(kept.minutes, given.minutes)
    kept.versions = versions()
    end_s = time.monotonic() + given.minutes * 60
    given.directory.mkdir(exist_ok=True)
    rows: list[Row] = []
    for file_system in dict.fromkeys(job.file_system for job in chosen):
        with best_place(given.directory, file_system) as place:
            for job in [job for job in chosen if job.file_system == file_system]:
                outcome, found = run_job(job, place, given, end_s)
                rows += found
                kept.outcomes[outcome.benchmark] = outcome
                if not given.quick:
                    results.save(kept)  # what is interrupted keeps what it has
                    page.write(kept)
            print(f"measured on {place.described}", file=sys.stderr)
    print(table(rows))
    print("quick mode: the figures mean nothing" if given.quick else page.PAGE)


def _stop(number: int, _: object) -> None:
    sys.exit(128 + number)


def _arguments() -> Any:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="see that everything runs; no page")
    parser.add_argument("--only", choices=sorted({job.name for job in JOBS}), help="this one")
    parser.add_argument("--minutes", type=float, default=20, help="about what all may take (20)")
    parser.add_argument("--million", action="store_true", help="also a store of 1 000 000 objects")
    parser.add_argument("--page", action="store_true", help="only write the page again")
    parser.add_argument(
        "--directory",
        type=Path,
        default=WORK,
        help="where to work; its file system decides the figures unless a loop image can be made",
    )
    return parser.parse_args()


def run_job(job: Job, place: Place, given: Any, end_s: float) -> tuple[Outcome, list[Row]]:
    print(f"{job.shown} ...", file=sys.stderr, flush=True)
    start_s, before, rows, failure = time.monotonic(), _load(), list[Row](), ""
    if start_s > end_s:
        failure = f"no time was left of {given.minutes:g} minutes"
    else:
        seconds_each = given.minutes * 60 / COMPARISONS
        try:
            rows = run_one(
                job.measure,
                place.directory,
                quick=given.quick,
                seconds_each=seconds_each,
                million=given.million,
            )
            rows = [job.marked(row) for row in rows]
        except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
            traceback.print_exc()
            failure = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    outcome = Outcome(
        benchmark=job.shown,
        when=f"{dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M} UTC",
        place=place.described,
        machine=_machine(),
        busy=f"{before}, {_load()}",
        seconds=round(time.monotonic() - start_s, 1),
        answers=results.answers(rows),
        failure=failure.replace(str(place.directory), "..."),
    )
    return outcome, rows


def run_one(
    measure: Measure,
    directory: Path,
    *,
    quick: bool,
    seconds_each: float = SECONDS_EACH,
    million: bool = False,
) -> list[Row]:
    """The rows of one benchmark, run in an empty folder of its own in `directory`."""
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        plan = Plan(directory=Path(folder), quick=quick, seconds_each=seconds_each, million=million)

        async def rows() -> list[Row]:
            return await measure(plan)

        return asyncio.run(rows())


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "0"


def _machine() -> str:
    system = f"{platform.system()} {platform.release()}"
    return f"{system}, Python {platform.python_version()}, {os.cpu_count()} processors"
