"""Ratios to a floor: what every benchmark here has in common.

A benchmark compares a call of attachstore with the least that the same machine can do, its floor.
Both run in every round, in shuffled order, so that both see the same neighbours; the figure is
the round's quotient. A quotient survives a slow or busy machine, milliseconds do not. Median and
90th percentile of the rounds are shown, never a mean.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

Side = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is compared with what, and how durable each is when its clock stops."""

    text: str
    floor: str
    target: float | None
    """The quotient that the project aims for. None: it is there to explain others."""
    ours_durable: str
    floor_durable: str
    group: str = ""
    """The heading under which the page shows it: the title of a target, or a table of its own."""


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
        return self.question.target is None or self.median <= self.question.target


@dataclass(frozen=True, slots=True)
class Rounds:
    """How often a comparison is made: `most` times, fewer when `seconds` are over, at least 3."""

    most: int
    seconds: float = 3600.0


ROUNDS_MIN = 3
SECONDS_EACH = 7.5
"""For one comparison in a whole run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Where to measure, and how long."""

    directory: Path
    quick: bool
    """Few rounds and small inputs, to see that everything runs. The figures mean nothing."""
    seconds_each: float = SECONDS_EACH
    """What one comparison may take, so that all of them end in time."""
    million: bool = False
    """Also what takes a store of a million objects."""

    def rounds(self, most: int) -> Rounds:
        return Rounds(2 if self.quick else most, self.seconds_each)

    @property
    def reduced(self) -> bool:
        """There is less time than a whole run has: what only size makes long is made smaller."""
        return self.seconds_each < SECONDS_EACH

    def choose(self, full: int, quick: int) -> int:
        return quick if self.quick else full


async def interleave(
    ours: Side, floor: Side, *, rounds: Rounds, prepare: Callable[[], None] = lambda: None
) -> tuple[float, ...]:
    """Time both sides; the quotient of each round. As `spent`."""
    each = await spent([ours, floor], rounds=rounds, prepare=prepare)
    return tuple(ours_ns / floor_ns for ours_ns, floor_ns in each)


async def spent(
    sides: Sequence[Side], *, rounds: Rounds, prepare: Callable[[], None] = lambda: None
) -> list[tuple[int, ...]]:
    """Nanoseconds of each side, round by round, after one round that does not count.

    `prepare` is called before each round, outside the clock.
    """
    found = list[tuple[int, ...]]()
    end_s = time.monotonic() + rounds.seconds
    while len(found) <= rounds.most:
        if len(found) > ROUNDS_MIN and time.monotonic() > end_s:
            break
        prepare()
        spent_ns = [0] * len(sides)
        for index in random.sample(range(len(sides)), len(sides)):
            start_ns = time.perf_counter_ns()
            await sides[index]()
            spent_ns[index] = time.perf_counter_ns() - start_ns
        found.append(tuple(spent_ns))
    return found[1:]


NOISE_FRONT = b"\x01noise\x01\n"


def noise(size_bytes: int) -> bytes:
    """Random bytes of no type: they begin like no known file, which random ones sometimes do."""
    return NOISE_FRONT + os.urandom(size_bytes - len(NOISE_FRONT))


def text(size_bytes: int) -> bytes:
    """Text that is nowhere else: what most attachments of an agent are."""
    return os.urandom((size_bytes + 1) // 2).hex().encode()[:size_bytes]


class Supply:
    """New text for each of up to `count` calls in a round, made by `refill` outside the clock."""

    def __init__(self, size_bytes: int, count: int) -> None:
        self._base = text(size_bytes)
        self._count = count
        self._left: list[bytes] = []

    def refill(self) -> None:
        """For `prepare`. Contents differ in their first 64 bytes: making all is slow."""
        front_bytes = min(64, len(self._base))
        rest = self._base[front_bytes:]
        self._left = [text(front_bytes) + rest for _ in range(self._count)]

    def __call__(self) -> bytes:
        return self._left.pop()


def table(rows: Sequence[Row]) -> str:
    """All answers, one line each, and below what each was compared with."""
    head = ("question", "size", "median", "p90", "target", "", "n")
    body = [
        (
            row.question.text,
            row.size,
            f"{row.median:.2f}",
            f"{row.p90:.2f}",
            "" if row.question.target is None else f"<= {row.question.target:g}",
            "" if row.question.target is None else "met" if row.met else "NOT MET",
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
