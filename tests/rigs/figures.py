"""What a rig reports, and how much of it is asked for."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

T = TypeVar("T")

SOAK_S = 300
"""How long `make proof` soaks; the page shows a longer one."""


@dataclass(frozen=True, slots=True)
class Scale:
    """`ci`: a sample that fits into a test run. Else the whole, as `make proof` runs it."""

    ci: bool
    soak_s: int = SOAK_S
    """How long the soak lasts at full scale."""

    def pick(self, ci: int, proof: int) -> int:
        """The number for this scale."""
        return ci if self.ci else proof

    def in_turn(self, items: Iterable[T], parts: int) -> list[T]:
        """All; in a test run one of so many parts of them, in turn by the day."""
        day = datetime.now(UTC).timetuple().tm_yday
        return [it for number, it in enumerate(items) if not self.ci or not (number + day) % parts]


@dataclass(frozen=True, slots=True)
class Figures:
    """What one run of one rig came to."""

    rig: int
    """Its number in docs/reliability.md."""
    name: str
    counted: int
    """How many `unit` were tried."""
    unit: str
    """"runs", "states", "cuts", ..."""
    violations: list[str]
    seconds: float
    """On the clock, not of the processor."""
    notes: tuple[str, ...] = ()
    """Further figures, one short sentence each, for the table's last column."""
    not_run: str = ""
    """Why the rig does not run on this machine, in one line; then nothing was counted."""
    details: dict[str, int] = field(default_factory=dict[str, int])
    """Counts by workload, by fault, ...; not shown in the table."""


class Progress:
    """Prints at most every half minute how far a rig at full scale is; a sample prints nothing."""

    EVERY_S = 30.0

    def __init__(self, scale: Scale, unit: str) -> None:
        self._unit = unit
        self._started_s = time.monotonic()
        self._next_s = float("inf") if scale.ci else self._started_s + self.EVERY_S

    def at(self, done: int, total: int, found: int = 0) -> None:
        """`done` of `total` units are tried, with so many violations so far."""
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + self.EVERY_S
            taken = f"{done:,} of {total:,} {self._unit} after {now_s - self._started_s:,.0f} s"
            print(f"        {taken}, {found} violations", flush=True)
