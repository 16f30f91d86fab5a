"""What a conversion did, and how far it is."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from dataclasses import dataclass

from attachstore.errors import LogDamagedError

INTERVAL_S = 0.1
"""Between two reports of progress, but for the first of each step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionReport:
    """Counts are those of the logs that were read; of none if there was nothing to convert."""

    source: str
    target: str
    converted: bool
    """False: this was a dry run, or the sessions were in `target` already."""
    sessions: int
    events: int
    """That their chains prove."""
    size_bytes: int
    damaged: tuple[LogDamagedError, ...]
    """What the logs' damage is; it was carried over as it is, or stands in the way."""
    kept: str | None
    """Where the logs are now that were replaced; None: they were not."""


class ConversionStep(enum.Enum):
    """In this order. Until the last has ended the old medium is the store's."""

    CHECKING = "checking"
    COPYING = "copying"
    PROVING = "proving"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionProgress:
    """A moment of a conversion. `bytes_total` is 0 while logs are still being checked."""

    step: ConversionStep
    sessions_done: int
    bytes_done: int
    bytes_total: int


class Meter:
    """Counts what a step has done, and calls back now and then. For one thread."""

    def __init__(
        self,
        callback: Callable[[ConversionProgress], None] | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._callback = callback
        self._clock = clock
        self._next_s = clock()
        self._step = ConversionStep.CHECKING
        self._sessions = self._bytes = self._total = 0

    def enter(self, step: ConversionStep, bytes_total: int) -> None:
        self._step, self._total = step, bytes_total
        self._sessions = self._bytes = 0
        self._report()

    def add_bytes(self, count: int) -> None:
        self._bytes += count
        self._tick()

    def add_session(self) -> None:
        self._sessions += 1
        self._tick()

    def _tick(self) -> None:
        if self._callback is not None and self._clock() >= self._next_s:
            self._report()

    def _report(self) -> None:
        if self._callback is None:
            return
        self._next_s = self._clock() + INTERVAL_S
        self._callback(
            ConversionProgress(
                step=self._step,
                sessions_done=self._sessions,
                bytes_done=self._bytes,
                bytes_total=self._total,
            )
        )
