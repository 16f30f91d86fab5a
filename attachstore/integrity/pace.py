"""Pace: a scan that leaves the disk to others.

One limit for all threads that read. Each pays for what it has read before it reads on, so no
more than one block per thread is ever read ahead of the rate, and nothing is saved up while a
scan waits for something else.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

SLICE_S = 0.1
"""Longest sleep before somebody who gave up is noticed."""


class Pace:
    """At most `rate_bytes_s` bytes per second; None: as fast as it goes. For any thread."""

    def __init__(
        self,
        rate_bytes_s: float | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Raises ValueError for a rate that is not a number above 0."""
        if rate_bytes_s is not None and not (math.isfinite(rate_bytes_s) and rate_bytes_s > 0):
            message = f"a rate is a number of bytes per second above 0: {rate_bytes_s!r}"
            raise ValueError(message)
        self._rate_bytes_s = rate_bytes_s
        self._clock = clock
        self._sleep = sleep
        self._guard = threading.Lock()
        self._paid_until_s = 0.0

    def spend(self, size_bytes: int, check: Callable[[], object]) -> None:
        """Wait until that many bytes more are within the rate; `check` may raise meanwhile."""
        if self._rate_bytes_s is None:
            return
        with self._guard:
            start_s = max(self._clock(), self._paid_until_s)
            end_s = self._paid_until_s = start_s + size_bytes / self._rate_bytes_s
        while (left_s := end_s - self._clock()) > 0:
            check()
            self._sleep(min(left_s, SLICE_S))


UNPACED = Pace()
