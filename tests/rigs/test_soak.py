"""Rig 13 at the scale of a test run: 30 s of eight processes and a kill every 100 ms."""

from __future__ import annotations

from pathlib import Path

from tests.rigs.figures import Scale
from tests.rigs.rig_soak import run


def test_nothing_is_lost_by_processes_that_are_killed_at_random(tmp_path: Path) -> None:
    found = run(Scale(ci=True), tmp_path)

    assert found.violations == []
    assert found.counted >= 100, "too few kills to say anything"
    done = found.details
    assert all(done[kind] > 20 for kind in ("object", "events", "fork", "deleted", "sealed")), done
