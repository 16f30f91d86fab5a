"""Rig 10: what may lie in a store, and what may be done with it, chosen by machines.

Every single bit of small files is flipped (bit_flips.py); readers of bytes that others may have
written are fuzzed, led by coverage (tests/fuzz/guided.py); hypothesis puts together what is done
to a store on a disk that fails (store_machine.py).

Sees: damage that is served, errors that are not the package's, an order of operations nobody
thought of. Does not see several flipped bits that make up a right checksum (BLAKE3 does not let
them), nor what takes more steps than an example has.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.fuzz.guided import TARGETS, Guided
from tests.rigs.bit_flips import Flips, flip_all
from tests.rigs.figures import Figures, Progress, Scale
from tests.rigs.oracle import quiet
from tests.rigs.store_machine import StoreMachine

NAME = "flipped bits, fuzzed readers, stateful examples"


@quiet()
def run(scale: Scale) -> Figures:
    start = time.monotonic()
    parts, progress = 2 + len(TARGETS), Progress(scale, "parts")
    flips = _flip(scale)
    progress.at(1, parts, len(flips.violations))
    examples, inputs = scale.pick(40, 2_000), scale.pick(500, 20_000)
    violations = [*flips.violations, *_examples(examples)]
    reached: list[str] = []
    for part, name in enumerate(TARGETS, start=2):
        progress.at(part, parts, len(violations))
        search = Guided(name)
        try:
            for _ in range(inputs):
                search.step()
        except Exception as error:  # noqa: BLE001 - whatever escapes is what we look for
            violations.append(f"{name}: {error!r} {getattr(error, '__notes__', '')}")
        reached.append(f"{name} {len(search.reached)} lines in {search.tried} inputs")
    told = sum(many for name, many in flips.counted.items() if ": detected" in name)
    scanned = sum(many for name, many in flips.counted.items() if name.endswith("by a scan"))
    bits = flips.counted.total()
    return Figures(
        rig=10,
        name=NAME,
        counted=examples,
        unit="examples",
        violations=violations,
        seconds=time.monotonic() - start,
        notes=(
            f"{bits} bits flipped, {told} detected, {bits - told} proven harmless",
            f"{scanned} of the detected bits, all in a database, are told by a scan alone",
            f"fuzzed: {', '.join(reached)}",
        ),
        details=dict(flips.counted),
    )


def _flip(scale: Scale) -> Flips:
    """All bits; of a database, which is mostly free pages, a sample at CI scale."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        return flip_all(Path(folder, "flips"), step=1, database_step=scale.pick(101, 1))


def _examples(many: int) -> list[str]:
    """The same in each run."""
    chosen = settings(
        max_examples=many,
        stateful_step_count=25,
        deadline=None,
        database=None,
        derandomize=True,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    try:
        run_state_machine_as_test(StoreMachine, settings=chosen)  # pyright: ignore[reportUnknownMemberType] - untyped there
    except AssertionError as error:
        return [f"example: {error} {getattr(error, '__notes__', '')}"]
    return []
