"""Rig 2 at the scale of CI."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.rigs import rig_injected
from tests.rigs.figures import Scale
from tests.rigs.rig_injected import ERRORS, KILL, Injection, Traced
from tests.rigs.workloads import ALL_WORKLOADS

PARTS = 4

pytestmark = pytest.mark.skipif(
    bool(rig_injected.reason_not_to_run()), reason=rig_injected.reason_not_to_run()
)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_refused_system_call_breaks_a_promise(part: int) -> None:
    """In parts, so that two processors share them."""
    figures = rig_injected.run(Scale(ci=True), tuple(ALL_WORKLOADS)[part::PARTS])

    assert figures.violations == []
    assert figures.counted >= (rig_injected.CI_RUNS // PARTS - PARTS) * 0.98
    assert figures.details.keys() == {KILL, *ERRORS}


def test_an_injection_that_does_not_land_is_not_counted() -> None:
    """The instrument must not pass because it did nothing."""
    job = Injection("put-small", "fsync", 999, "", "error=EIO", persists=False, keep_going=True)
    with closing(Traced()) as traced:
        assert traced.run(job) is None


def test_a_system_call_that_lies_is_seen() -> None:
    """A link that is not made and says it was: the instrument tells what was lost by it."""
    job = Injection("put-small", "linkat", 1, "", "retval=0", persists=False, keep_going=True)
    with closing(Traced()) as traced:
        violations = traced.run(job)

    assert violations is not None
    assert any("missing object" in violation for violation in violations)
