"""Rig 5: real power cuts of real file systems, with their real recovery.

A store lies on a file system in an image. A process works on it and is held at the entry of its
n-th call that changes a file system; there it is stopped, and the power is cut: ext4 and XFS are
told to forget everything that is not on the disk, the journal's unwritten part with it; of btrfs,
which has no such order, the image is copied as it is. Then the image is mounted, so that the
file system replays its journal, and the oracle looks at what is there and at what was promised.

It sees what these kernels lose at a cut, which is less than what they may lose: no reordering
inside the drive (rig 6), no name that a file system happens to write early (rig 3).
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from tests.rigs import subjects
from tests.rigs.alone import reason_not_to_run, run_alone
from tests.rigs.figures import Figures, Progress, Scale
from tests.rigs.held_process import HeldProcess, unavailable
from tests.rigs.images import JOURNALED, FileSystem, copy_image, shut_down
from tests.rigs.journal import Journal
from tests.rigs.stage import Stage
from tests.rigs.subjects import Subject

NUMBER, NAME, UNIT = 5, "power cuts of real file systems", "cuts"
CUTS_PER_WORKLOAD = 8
"""In CI each workload runs on one file system, else on all."""
_CUTS_OF_KNOWN = 12
_TIMEOUT_S = 3600.0


def run(scale: Scale) -> Figures:
    """All workloads on all file systems; in CI each workload on one."""
    reason = reason_not_to_run(*(system.make[0] for system in JOURNALED)) or unavailable()
    if reason:
        return Figures(NUMBER, NAME, 0, UNIT, [], 0.0, not_run=reason)
    return run_alone(f"{__name__}:all_cuts", scale, timeout_s=_TIMEOUT_S)


def all_cuts(workspace: Path, scale: Scale) -> Figures:
    """In a process of its own."""
    started_s = time.monotonic()
    counted: Counter[str] = Counter()
    violations: list[str] = []
    notes: list[str] = []
    for system in JOURNALED[:1] if scale.ci else JOURNALED:
        wrong, measured = calibrate(workspace, system)
        violations += wrong
        notes.append(measured)
    workloads, progress = subjects.workloads(), Progress(scale, "workloads")
    for position, subject in enumerate(workloads):
        progress.at(position, len(workloads), len(violations))
        for system in JOURNALED if not scale.ci else [JOURNALED[position % len(JOURNALED)]]:
            bench = Bench(workspace, system, subject)
            for nth in spread(bench.calls, CUTS_PER_WORKLOAD):
                violations += bench.cut(nth)
                counted[system.name] += 1
    notes += [f"{name}: {cuts}" for name, cuts in counted.items()]
    seconds = time.monotonic() - started_s
    return Figures(
        NUMBER, NAME, counted.total(), UNIT, violations, seconds, tuple(notes), "", counted
    )


def calibrate(workspace: Path, system: FileSystem) -> tuple[list[str], str]:
    """See subjects.calibrate."""

    def losses(subject: Subject) -> tuple[int, int]:
        bench = Bench(workspace, system, subject)
        cuts = [bench.cut(nth) for nth in spread(bench.calls, _CUTS_OF_KNOWN)]
        return sum(map(bool, cuts)), len(cuts)

    return subjects.calibrate(system.name, subjects.losing(), losses)


def spread(total: int, wanted: int) -> list[int]:
    """About `wanted` of the calls 1 .. `total`, evenly, and 0: the cut when all is done."""
    return [*range(1, total + 1, max(1, total // max(1, wanted - 1))), 0]


class Bench(Stage):
    """Where one subject is cut off on one file system. `calls` is how many calls it makes."""

    def __init__(self, workspace: Path, system: FileSystem, subject: Subject) -> None:
        super().__init__(workspace, system, subject)
        self.calls = 0
        self.renew()
        with self.at_hand(self.image), self._writer() as writer:
            for call in writer.calls():
                writer.go_on(call)
                self.calls += 1
            assert writer.status == 0, writer.complaint

    def cut(self, nth: int) -> list[str]:
        """Cut the power at the entry of the `nth` call (0: at the end), and judge what is left."""
        self.renew()
        left = self.image
        with self.at_hand(self.image), self._writer() as writer:
            for number, call in enumerate(writer.calls(), start=1):
                if number == nth:
                    writer.stop()
                    break
                writer.go_on(call)
            else:
                assert writer.status == 0, writer.complaint
            if self.system.shuts_down:
                shut_down(self.mounted)
            else:
                left = self.image.with_name("left")
                copy_image(self.image, left)
        said = self.verdict(left)
        return [f"{self.system.name}: {self.subject.name} at call {nth}: {it}" for it in said]

    def _writer(self) -> HeldProcess:
        return HeldProcess(lambda: self.subject.run(self.root, Journal(self.open_journal())))
