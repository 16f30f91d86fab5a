"""Power cuts around a piece of work: every state after every call, and the gate that proves it.

The gate: the same work with one sync left out must break a promise, for every sync, so that each
is shown to be needed and the instrument to see it.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attachstore.disk import Disk
from tests.faults import SYNCS, InterceptedDisk, PowerLossDisk

Acknowledge = Callable[[Any], None]


@dataclass(frozen=True)
class Work:
    """`prepare` is durable when `run` begins; `check` looks at what a cut has left."""

    prepare: Callable[[Path], None]
    run: Callable[[Path, Disk, Acknowledge], None]
    check: Callable[[Path, list[Any]], None]


def check_every_cut(work: Work, world: Path, into: Path, *, limit: int = 40, step: int = 1) -> None:
    """Run the work and look at what a cut after each call may leave, at most `limit` states of
    each moment, of every `step`-th moment."""
    work.prepare(world)
    disk = PowerLossDisk(world)
    work.run(world, disk, disk.acknowledge)
    states = 0
    for state, acknowledged in disk.crash_moments(into, limit=limit, step=step):
        work.check(state, acknowledged)
        states += 1
    assert states > 1


def check_every_sync_is_needed(
    work: Work, world: Path, into: Path, *, limit: int = 40, syncs_max: int | None = None
) -> None:
    """Leave one out, and some state at some moment must break a promise.

    `syncs_max` is for work that does the same over and over.
    """
    for leave_out in itertools.count(1):
        for path in world.iterdir():
            shutil.rmtree(path)
        work.prepare(world)
        power = PowerLossDisk(world)
        disk = ForgetfulDisk(power, leave_out)
        work.run(world, disk, power.acknowledge)
        if disk.left_out is None:
            assert leave_out > 1
            return
        assert _breaks(work, power, into, limit), f"nobody misses {disk.left_out}"
        if leave_out == syncs_max:
            return


def _breaks(work: Work, power: PowerLossDisk, into: Path, limit: int) -> bool:
    try:
        # First what is left at the end; a later sync may make up for one that was left out, so
        # then every moment.
        for state in power.crash_states(into, limit=60):
            work.check(state, power.acknowledged)
        for state, acknowledged in power.crash_moments(into, limit=limit):
            work.check(state, acknowledged)
    except Exception:  # noqa: BLE001 - whatever shows it
        return True
    return False


class ForgetfulDisk(InterceptedDisk):
    """Leaves out the n-th sync that has something to do."""

    def __init__(self, disk: PowerLossDisk, leave_out: int) -> None:
        super().__init__(disk)
        self._has_pending = disk.has_pending
        self._leave_out = leave_out
        self._syncs = 0
        self.left_out: str | None = None

    def intercept(self, method: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        if method in SYNCS and self._has_pending(arguments[0]):
            self._syncs += 1
            if self._syncs == self._leave_out:
                self.left_out = f"{method} {arguments[0]}"
                return None
        return call()
