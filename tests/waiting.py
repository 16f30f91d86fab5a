"""Waiting for what another thread or process does, without a bet on how long that takes."""

from __future__ import annotations

import time
from collections.abc import Callable

GIVEN_UP_S = 60


def wait_until(happened: Callable[[], bool]) -> None:
    """Return as soon as it has; fail after a time that no machine needs."""
    deadline_s = time.monotonic() + GIVEN_UP_S
    while not happened():
        assert time.monotonic() < deadline_s, "it has not happened"
        time.sleep(0.01)
