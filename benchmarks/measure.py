"""Ratios to a floor: what every benchmark here has in common.

A benchmark compares a call of attachstore with the least that the same machine can do, its floor.
Both run in every round, in shuffled order, so that both see the same neighbours; the figure is
the round's quotient. A quotient survives a slow or busy machine, milliseconds do not. Median and
90th percentile of the rounds are shown, never a mean.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.place import best_place

Side = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is compared with what, and how durable each is when its clock stops."""

    text: str
    floor: str
    target: float
    """The quotient that the project aims for."""
    ours_durable: str
    floor_durable: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The answer: one quotient per round."""

    question: Question
    size: str
    ratios: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.ratios)

    @property
    def p90(self) -> float:
        if len(self.ratios) == 1:
            return self.ratios[0]
        return statistics.quantiles(self.ratios, n=10, method="inclusive")[-1]

    @property
    def met(self) -> bool:
        """By the median: the 90th percentile is there to show how far to trust it."""
        return self.median <= self.question.target


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Where to measure, and how long."""

    directory: Path
    quick: bool
    """Few rounds and small inputs, to see that everything runs. The figures mean nothing."""

    def choose(self, full: int, quick: int) -> int:
        return quick if self.quick else full


async def interleave(
    ours: Side, floor: Side, *, rounds: int, prepare: Callable[[], None] = lambda: None
) -> tuple[float, ...]:
    """Time both sides `rounds` times; the quotient of each round. As `spent`."""
    each = await spent([ours, floor], rounds=rounds, prepare=prepare)
    return tuple(ours_ns / floor_ns for ours_ns, floor_ns in each)


async def spent(
    sides: Sequence[Side], *, rounds: int, prepare: Callable[[], None] = lambda: None
) -> list[tuple[int, ...]]:
    """Nanoseconds of each side, round by round, after one round that does not count.

    `prepare` is called before each round, outside the clock.
    """
    found = list[tuple[int, ...]]()
    for _ in range(rounds + 1):
        prepare()
        spent_ns = [0] * len(sides)
        for index in random.sample(range(len(sides)), len(sides)):
            start_ns = time.perf_counter_ns()
            await sides[index]()
            spent_ns[index] = time.perf_counter_ns() - start_ns
        found.append(tuple(spent_ns))
    return found[1:]


def noise(size_bytes: int) -> bytes:
    """Random bytes of no type: they begin like no known file, which random ones sometimes do."""
    return b"\x01noise\x01\n" + os.urandom(size_bytes - 8)


def table(rows: list[Row]) -> str:
    """All answers, one line each, and below what each was compared with."""
    head = ("question", "size", "median", "p90", "target", "", "n")
    body = [
        (
            row.question.text,
            row.size,
            f"{row.median:.2f}",
            f"{row.p90:.2f}",
            f"<= {row.question.target:g}",
            "met" if row.met else "NOT MET",
            str(len(row.ratios)),
        )
        for row in rows
    ]
    widths = [max(len(line[column]) for line in (head, *body)) for column in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (head, *body)
    ]
    questions = list(dict.fromkeys(row.question for row in rows))
    notes = [
        f"{question.text}: ours {question.ours_durable}; "
        f"floor: {question.floor}, {question.floor_durable}"
        for question in questions
    ]
    return "\n".join([*lines, "", *notes])


def kibibytes(size_bytes: int) -> str:
    """`4 KiB`, `64 MiB`."""
    return f"{size_bytes >> 20} MiB" if size_bytes >= 1 << 20 else f"{size_bytes >> 10} KiB"


Measure = Callable[[Plan], Awaitable[list[Row]]]


def main(*measures: Measure) -> None:
    """Run benchmarks one after the other and print one table."""
    parser = argparse.ArgumentParser(description="Ratios to a floor measured in the same run.")
    parser.add_argument("--quick", action="store_true", help="see that everything runs")
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path.cwd(),
        help="where to work; its file system decides the figures unless a loop image can be made",
    )
    given = parser.parse_args()
    with best_place(given.directory) as place:
        rows = asyncio.run(measure_all(measures, place.directory, quick=given.quick))
        print(table(rows))
        print(f"\nmeasured on {place.described}; {os.cpu_count()} cores")
        if given.quick:
            print("quick mode: the figures mean nothing")


async def measure_all(measures: Iterable[Measure], directory: Path, *, quick: bool) -> list[Row]:
    """The rows of all benchmarks, each run in an empty folder of its own in `directory`."""
    rows = list[Row]()
    for measure in measures:
        with tempfile.TemporaryDirectory(dir=directory) as folder:
            print(f"{measure.__module__} ...", file=sys.stderr)
            rows += await measure(Plan(directory=Path(folder), quick=quick))
    return rows
