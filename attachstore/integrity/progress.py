"""Progress of a scan: how far, how fast, how long to go; reported a few times a second at most."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from dataclasses import dataclass

INTERVAL_S = 0.1


class Phase(enum.Enum):
    """What a scan is doing, in this order."""

    LISTING = "listing"
    LOGS = "logs"
    OBJECTS = "objects"
    USES = "uses"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A moment of a scan. Totals are 0 while the objects are still being listed."""

    phase: Phase
    sessions_done: int
    objects_done: int
    objects_total: int
    bytes_done: int
    bytes_total: int
    elapsed_s: float
    """Since the scan began."""
    rate_bytes_s: float
    """Bytes of objects read per second, since reading objects began; 0 before."""

    @property
    def eta_s(self) -> float | None:
        """Seconds until all objects are read, or None while nobody can tell."""
        if self.phase is not Phase.OBJECTS or self.rate_bytes_s <= 0:
            return None
        return max(0, self.bytes_total - self.bytes_done) / self.rate_bytes_s


class Meter:
    """Counts, and calls back at most every INTERVAL_S and at every change of phase.

    Used by the scanning thread alone, so the callback is never called by two threads at once.
    """

    def __init__(
        self,
        callback: Callable[[Progress], None] | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._callback = callback
        self._clock = clock
        self._start_s = self._phase_start_s = clock()
        self._next_s = self._start_s
        self.phase = Phase.LISTING
        self.sessions_done = 0
        self.objects_done = 0
        self.objects_total = 0
        self.bytes_done = 0
        self.bytes_total = 0

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._start_s

    def enter(self, phase: Phase) -> None:
        """Begin a phase, and say so at once."""
        self.phase = phase
        self._phase_start_s = self._clock()
        self.report()

    def tick(self) -> None:
        """Report, unless that was done a moment ago."""
        if self._callback is not None and self._clock() >= self._next_s:
            self.report()

    def report(self) -> None:
        """Report now."""
        if self._callback is None:
            return
        now_s = self._clock()
        self._next_s = now_s + INTERVAL_S
        reading_s = now_s - self._phase_start_s if self.phase is Phase.OBJECTS else 0.0
        self._callback(
            Progress(
                phase=self.phase,
                sessions_done=self.sessions_done,
                objects_done=self.objects_done,
                objects_total=self.objects_total,
                bytes_done=self.bytes_done,
                bytes_total=self.bytes_total,
                elapsed_s=now_s - self._start_s,
                rate_bytes_s=self.bytes_done / reading_s if reading_s > 0 else 0.0,
            )
        )
