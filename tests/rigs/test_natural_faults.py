"""Rig 9 at the scale of CI."""

from __future__ import annotations

import pytest

from tests.rigs import rig_natural_faults
from tests.rigs.figures import Scale
from tests.rigs.natural_faults import all_faults
from tests.rigs.rig_natural_faults import CASES_PER_FAULT


def test_no_natural_fault_breaks_a_promise() -> None:
    figures = rig_natural_faults.run(Scale(ci=True))
    if figures.not_run:
        pytest.skip(f"rig 9 does not run: {figures.not_run}")

    assert figures.violations == []
    for fault in all_faults():
        # A user who is no root has no flags and no groups; the notes say so.
        if not fault.needs_root:
            assert figures.details[fault.name] == CASES_PER_FAULT[0], fault.name
    assert figures.counted >= 60 or any("left out" in note for note in figures.notes)
