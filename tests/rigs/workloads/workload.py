"""Workload: a store to begin with, and the work on it that a rig watches."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from attachstore.disk import Disk
from tests.rigs.journal import Journal, Record
from tests.rigs.workloads.contents import USED_SHARDS
from tests.rigs.workloads.scene import Halt, Scene

Part = Callable[[Scene], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Workload:
    """Its contents, and so its calls to the file system, are the same in each run."""

    name: str
    start: Part
    """Makes the store, and what else the work finds there."""
    part: Part
    """The work: at least two operations, so that there is something to go on with."""

    def prepare(self, root: Path) -> list[Record]:
        """Make the store at `root`, which must not exist (a workload may make its own then);
        what the records say is durable.

        Give them to the oracle in front of those of `run`. Of the store's 256 shards only those
        are left that a workload uses: states are many, and the others have nothing to show.
        """
        journal = Journal()
        scene = Scene(root, journal)
        scene.beside.mkdir(exist_ok=True)
        asyncio.run(_finished(self.start(scene)))
        wrong = [record for record in journal.records if record.step == "failed"]
        assert not wrong, f"{self.name} cannot be prepared: {wrong}"
        for shard in (root / "objects" / "blake3").glob("*"):
            if shard.name not in USED_SHARDS:
                shard.rmdir()
        return journal.records

    async def work(self, root: Path, journal: Journal, disk: Disk | None = None) -> None:
        """The work as a coroutine. Raises only what a rig injects that is no Exception."""
        try:
            await self.part(Scene(root, journal, disk))
        except Halt:
            return

    def run(self, root: Path, journal: Journal, disk: Disk | None = None) -> None:
        """The work, from start to end; then look for what it left in this process."""
        asyncio.run(self.work(root, journal, disk))
        for what in leaks(root.parent):
            journal.seen("leak", what=what)


def leaks(place: Path) -> list[str]:
    """Descriptors below `place` and threads of the package that this process still has."""
    found: list[str] = []
    for entry in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{entry}")
        except FileNotFoundError:  # the listing's own
            continue
        if target.startswith(f"{place}/"):
            found.append(f"descriptor of {Path(target).relative_to(place)}")
    # One that found no memory as it began is listed for ever, and dead.
    threads = [it.name for it in threading.enumerate() if it.is_alive()]
    found += [f"thread {name}" for name in threads if "attachstore" in name]
    return found


async def _finished(work: Awaitable[None]) -> None:
    await work
