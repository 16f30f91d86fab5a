"""Rigs 3, 4 and 12 at the scale of a test run, and that they see what they are for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rigs import rig_calibration, rig_kill_then_cut, rig_lost_writes
from tests.rigs.crash_states import Selection
from tests.rigs.cuts import Tally
from tests.rigs.figures import Scale
from tests.rigs.tracing import Tracer

pytestmark = [pytest.mark.program("strace"), pytest.mark.xdist_group("rigs-lost-writes")]

CI = Scale(ci=True)


def test_no_power_cut_loses_what_was_promised() -> None:
    figures = rig_lost_writes.run(CI)
    assert figures.violations == []
    assert figures.counted >= 350


def test_no_power_cut_after_a_killed_process_loses_what_was_promised() -> None:
    figures = rig_kill_then_cut.run(CI)
    assert figures.violations == []
    assert figures.counted >= 350


def test_the_model_believes_in_sqlite_as_far_as_it_may_be_believed() -> None:
    figures = rig_calibration.run(CI)
    assert figures.violations == []
    assert figures.details["lost in NORMAL"] > 0


@pytest.mark.parametrize(
    ("site", "subject"),
    [
        ("objects/publication.py Publication.publish sync#1", "put-small"),
        ("objects/publication.py Publication.publish sync_directory#1", "put-small"),
        ("sessions/log_file.py LogFile.append sync_data#1", "append-batch"),
    ],
)
def test_a_missing_sync_is_seen(site: str, subject: str, tmp_path: Path) -> None:
    """Else finding nothing would mean nothing. All others: rig_mutants.py."""
    tally = Tally()
    with Tracer(tmp_path, bare=True) as tracer:
        rig_lost_writes.cut_one(
            tracer, subject, tmp_path, Selection(24), tally, mutate=site, stop_at=1
        )
    assert tally.bad_states == 1


def test_a_duplicate_that_is_only_visible_is_seen(tmp_path: Path) -> None:
    """No cut in one process shows it: it takes a killed one that left the object unsynced."""
    tally = Tally()
    with Tracer(tmp_path, bare=True) as tracer:
        rig_kill_then_cut.kill_one(
            tracer,
            "put-small",
            tmp_path,
            Selection(24),
            tally,
            kills_max=100,
            mutate="objects/store.py ObjectStore._place confirm#1",
            stop_at=1,
        )
    assert tally.bad_states == 1
