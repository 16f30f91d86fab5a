"""Rig 3: every state that a power cut may leave, if the disk promises only what was synced.

Each workload (cut_subjects.py) runs once under strace (tracing.py); its calls are replayed on a
model that keeps every version of every block, size and name since it was last synced
(replaying.py). At each moment at which something becomes certain, the legal combinations of
versions (crash_states.py) are made real on tmpfs and judged by the oracle, which recovers twice.

Sees: a sync that is missing, too early, or of the wrong thing; an order that relied on the disk
keeping it; torn blocks and zeros taken for records. A rename is two changes of names here, which
is weaker than any journaled file system.
Cannot see: what real file systems do beyond that (rig 5), calls that fail (rigs 1, 7), stores
through mappings or io_uring. More combinations than the cap are tried by selection.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from tests.rigs.crash_states import Selection
from tests.rigs.cut_subjects import SUBJECTS, judge
from tests.rigs.cuts import Tally, cut_power, judge_cuts
from tests.rigs.figures import Figures, Progress, Scale
from tests.rigs.recording import record
from tests.rigs.sandbox import Sandbox
from tests.rigs.tracing import Tracer

_CAP_CI, _CAP_PROOF = 2, 700
_CAP_CREATION_CI, _CAP_CREATION_PROOF = 2, 8
_TURNS = 2
"""Making a store syncs 260 times, so it has 260 moments."""


def run(scale: Scale, names: Iterable[str] = SUBJECTS) -> Figures:
    """Cut the power in each workload at every moment."""
    started = time.monotonic()
    tally = Tally()
    states: dict[str, int] = {}
    chosen, progress = scale.in_turn(names, _TURNS), Progress(scale, "workloads")
    with memory_directory() as place, Tracer(place) as tracer:
        for name in chosen:
            before = tally.states
            cut_one(tracer, name, place, _selection(scale, name), tally)
            states[name] = tally.states - before
            progress.at(len(states), len(chosen), len(tally.violations))
    return Figures(
        rig=3,
        name="writes lost at a power cut",
        counted=tally.states,
        unit="states",
        violations=tally.violations,
        seconds=time.monotonic() - started,
        notes=(f"{len(tally.trees)} distinct trees; one counts again when more had been promised",),
        details=states,
    )


def cut_one(
    tracer: Tracer,
    name: str,
    place: Path,
    selection: Selection,
    tally: Tally,
    *,
    mutate: str | None = None,
    stop_at: int | None = None,
) -> None:
    """Watch one workload and judge what power cuts in it leave."""
    recording = record(tracer, name, place, mutate=mutate)
    try:
        states = cut_power(recording.replay(), recording.calls, selection, tally)
        judge_cuts(Sandbox(place / name / "after"), states, judge, tally, stop_at=stop_at)
    finally:
        shutil.rmtree(place / name)


def _selection(scale: Scale, name: str) -> Selection:
    if name.startswith("create"):
        return Selection(scale.pick(_CAP_CREATION_CI, _CAP_CREATION_PROOF))
    return Selection(scale.pick(_CAP_CI, _CAP_PROOF))


class memory_directory:  # noqa: N801 - used like a function
    """A temporary directory on tmpfs if there is one, removed at the end."""

    def __enter__(self) -> Path:
        memory = Path("/dev/shm")
        self._path = Path(tempfile.mkdtemp(prefix="rig-", dir=memory if memory.is_dir() else None))
        return self._path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)
