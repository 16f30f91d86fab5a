"""A short run of the fuzzer; `make fuzz` makes long ones."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from attachstore.admission import AdmissionPolicy
from tests.fuzz import admission
from tests.fuzz.admission import POLICIES, BrokenPromiseError, Fuzzer, attempt, seeds

INPUTS = 4000


@pytest.mark.parametrize("policy", POLICIES, ids=["default", "any", "small"])
def test_the_seeds_themselves_hold_every_promise(policy: AdmissionPolicy) -> None:
    outcomes = {attempt(data, policy, None) for data in seeds()}

    assert len(outcomes) > 20, "the corpus reaches many different ends"


@pytest.mark.parametrize("seed", [1, 2])
def test_mutated_files_are_admitted_or_refused_and_nothing_else(seed: int) -> None:
    fuzzer = Fuzzer(random.Random(seed))

    for _ in range(INPUTS):
        fuzzer.step()

    assert len(fuzzer.outcomes) > 100


def test_the_fuzzer_notices_what_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fuzzer that never fails proves nothing: break admission and see it."""

    def broken(*_: object, **__: object) -> object:
        raise IndexError

    monkeypatch.setattr(admission, "admit", broken)
    with pytest.raises(IndexError):
        attempt(b"x", POLICIES[0], None)


def test_the_fuzzer_notices_a_probe_that_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_data: bytes, _media_type: str) -> None:
        return None

    monkeypatch.setattr(admission, "probe", absent)

    with pytest.raises(BrokenPromiseError, match="disagrees"):
        attempt((admission.HERE / "corpus" / "png-1-1-1").read_bytes(), POLICIES[1], None)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_run_in_processes_reports_what_it_tried(tmp_path: Path) -> None:
    tried, findings = admission.run(tmp_path / "findings", seconds=1.5, workers=2, seed=5)

    assert tried > 0
    assert findings == 0
