"""Rig 12: the instruments, checked against a database whose promises are documented.

Rig 3's model on SQLite (sqlite_rows.py): with `synchronous = FULL` no committed row may be lost,
with `NORMAL` some must be. A model that loses more than disks do would find faults in FULL, one
that loses less would find none in NORMAL. The real file systems of rig 5 are checked the same way
in their own rig.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from tests.rigs import sqlite_rows
from tests.rigs.adopting import adopt
from tests.rigs.crash_states import Selection
from tests.rigs.cuts import Tally, cut_power, judge_cuts
from tests.rigs.figures import Figures, Scale
from tests.rigs.replaying import Replay
from tests.rigs.rig_lost_writes import memory_directory
from tests.rigs.sandbox import Sandbox
from tests.rigs.tracing import Tracer

_CAP_CI, _CAP_PROOF = 60, 2_000


def run(scale: Scale) -> Figures:
    """FULL must be found sound, NORMAL must not; a violation is an instrument that is off."""
    started = time.monotonic()
    selection = Selection(scale.pick(_CAP_CI, _CAP_PROOF))
    with memory_directory() as place, Tracer(place, bare=True) as tracer:
        full = _cut(tracer, "FULL", place, selection)
        normal = _cut(tracer, "NORMAL", place, selection)
    violations = [f"SQLite in FULL: {it}" for it in full.violations]
    if not normal.bad_states:
        violations.append("SQLite in NORMAL loses nothing: the model is blind")
    return Figures(
        rig=12,
        name="calibration on SQLite",
        counted=full.states + normal.states,
        unit="states",
        violations=violations,
        seconds=time.monotonic() - started,
        notes=(
            f"WAL FULL: {full.bad_states} of {full.states} states lose a committed row",
            f"WAL NORMAL: {normal.bad_states} of {normal.states} do",
        ),
        details={"lost in FULL": full.bad_states, "lost in NORMAL": normal.bad_states},
    )


def _cut(tracer: Tracer, synchronous: str, place: Path, selection: Selection) -> Tally:
    disk, journal = place / synchronous / "disk", place / synchronous / "journal"
    disk.mkdir(parents=True)
    sqlite_rows.prepare(disk)
    replay = Replay(adopt(disk), disk, journal)
    trace = tracer.run("tests.rigs.sqlite_rows:commit_rows", str(disk), str(journal), synchronous)
    tally = Tally()
    after = Sandbox(place / synchronous / "after")
    states = cut_power(replay, trace.calls, selection, tally)
    judge_cuts(after, states, sqlite_rows.judge_rows, tally)
    shutil.rmtree(place / synchronous)
    return tally
