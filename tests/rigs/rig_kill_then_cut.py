"""Rig 4: a process is killed at any call, a second one works, then the power goes.

What a killed process wrote is still in the page cache, and the second one cannot tell it from
what is on the disk. So for each point at which the first may die, the files as they are then
visible are made real, a second process works on them under strace (second_process.py), and both
traces together are replayed on one model: what the first left unsynced stays so until somebody
syncs it. The power is cut at every moment of the second.

Sees: whatever is taken as durable because it is visible (a duplicate, a reopened log, a fork, a
leftover). No other rig sees these.
Cannot see: a first process that still lives (concurrency is rig 13's and the model check's).
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from tests.rigs.crash_states import Selection, visible_tree
from tests.rigs.cut_subjects import SUBJECTS, judge
from tests.rigs.cuts import Tally, cut_power, judge_cuts
from tests.rigs.figures import Figures, Progress, Scale
from tests.rigs.recording import Recording, check_model, record
from tests.rigs.replaying import Replay
from tests.rigs.rig_lost_writes import memory_directory
from tests.rigs.sandbox import Sandbox
from tests.rigs.tracing import Call, Tracer

_CAP_CI, _CAP_PROOF = 1, 11
_KILLS_CI, _KILLS_PROOF = 1, 12
_TURNS = 2
"""Of each workload."""


def run(scale: Scale, names: Iterable[str] = SUBJECTS) -> Figures:
    """Kill each workload at its calls, go on, and cut the power at every moment."""
    started = time.monotonic()
    tally = Tally()
    kills: dict[str, int] = {}
    chosen, progress = scale.in_turn(names, _TURNS), Progress(scale, "workloads")
    with memory_directory() as place, Tracer(place) as tracer:
        for name in chosen:
            kills[name] = kill_one(
                tracer,
                name,
                place,
                Selection(scale.pick(_CAP_CI, _CAP_PROOF)),
                tally,
                kills_max=scale.pick(_KILLS_CI, _KILLS_PROOF),
            )
            progress.at(len(kills), len(chosen), len(tally.violations))
    return Figures(
        rig=4,
        name="kill, go on, power cut",
        counted=tally.states,
        unit="states",
        violations=tally.violations,
        seconds=time.monotonic() - started,
        notes=(
            f"{sum(kills.values())} kills, each leaving other files or promises than the others",
        ),
        details=kills,
    )


def kill_one(
    tracer: Tracer,
    name: str,
    place: Path,
    selection: Selection,
    tally: Tally,
    *,
    kills_max: int,
    mutate: str | None = None,
    stop_at: int | None = None,
) -> int:
    """Judge one workload; returns how many kills were tried. `mutate` is for both processes."""
    recording = record(tracer, name, place, mutate=mutate)
    try:
        second, after = Sandbox(place / name / "second"), Sandbox(place / name / "after")
        kills = _spread(_kills(recording), kills_max)
        for number, kill in enumerate(kills):
            journal = place / name / f"journal-{number}"
            replay, calls = _go_on(tracer, recording, kill, second, journal, mutate)
            states = cut_power(replay, calls, selection, tally)
            judge_cuts(after, states, judge, tally, stop_at=stop_at)
            if stop_at is not None and tally.bad_states >= stop_at:
                break
        return len(kills)
    finally:
        shutil.rmtree(place / name)


def _kills(recording: Recording) -> list[int]:
    """After how many calls a kill leaves files or promises that no earlier one left.

    Of kills that leave the same, the first has the least synced: whatever may be found after
    the others may be found after it.
    """
    replay = recording.replay()
    seen = {_left(replay)}
    kills = [0]
    for number, call in enumerate(recording.calls, start=1):
        if replay.apply(call) and (left := _left(replay)) not in seen:
            seen.add(left)
            kills.append(number)
    return kills


def _left(replay: Replay) -> tuple[int, int]:
    return hash(frozenset(visible_tree(replay.model).items())), len(replay.records)


def _spread(kills: list[int], kills_max: int) -> list[int]:
    """So many of them, evenly, from the middle on if it is only one."""
    step = max(1.0, len(kills) / kills_max)
    return [kills[int((number + 0.5) * step)] for number in range(min(kills_max, len(kills)))]


def _go_on(
    tracer: Tracer,
    recording: Recording,
    kill: int,
    sandbox: Sandbox,
    journal: Path,
    mutate: str | None,
) -> tuple[Replay, list[Call]]:
    """Let a second process work on what the first has left; a replay that stands at the kill."""
    first = recording.replay()
    first.apply_all(recording.calls[:kill])
    disk = sandbox.become(visible_tree(first.model))
    journal.write_bytes(b"".join(record.line() for record in first.records))
    trace = tracer.run(
        "tests.rigs.traced_work:go_on", str(disk / "store"), str(journal), mutate=mutate
    )
    second = Replay(first.model, disk, journal)
    second.records, second.renames = first.records, first.renames
    check = Replay(first.model.copy(), disk, journal)
    check.apply_all(trace.calls)
    check_model(check, disk)
    return second, trace.calls
