"""Ways to notice that a call is missing: each is asked about one mutant and says yes or no.

    cut SUBJECT     rig 3 on one workload
    kill SUBJECT    rig 4 on one workload
    test NODE       a test of the suite, for guards that no state on a disk shows

A mutant that hangs is noticed too: that is a time limit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.rigs.crash_states import Selection
from tests.rigs.cuts import Tally
from tests.rigs.mutation import PROBE, REACHED_VARIABLE, SITE_VARIABLE
from tests.rigs.rig_kill_then_cut import kill_one
from tests.rigs.rig_lost_writes import cut_one
from tests.rigs.tracing import Tracer

_CAP_CUT, _CAP_KILL = 40, 12
_KILLS_MAX = 24
_TEST_TIMEOUT_S = 300
_CREATION_CAP, _CREATION_KILLS_MAX = 2, 4
_PASSED, _NO_SUCH_TEST, _NONE_FOUND = 0, 4, 5
"""What pytest exits with."""


class Detectors:
    """`tracer` must be a bare one."""

    def __init__(self, tracer: Tracer, place: Path) -> None:
        self._tracer = tracer
        self._place = place

    def notices(self, detector: str, site_id: str) -> bool:
        """Whether `detector` (see the module's docstring) sees that the site is left out."""
        kind, _, subject = detector.partition(" ")
        if kind == "cut":
            return self._cut(subject, site_id)
        if kind == "kill":
            return self._kill(subject, site_id)
        assert kind == "test", detector
        return failing_test(site_id, [subject]) is not None

    def _cut(self, subject: str, site_id: str) -> bool:
        tally = Tally()
        selection = Selection(_CREATION_CAP if subject.startswith("create") else _CAP_CUT)
        cut_one(self._tracer, subject, self._place, selection, tally, mutate=site_id, stop_at=1)
        return tally.bad_states > 0

    def _kill(self, subject: str, site_id: str) -> bool:
        tally = Tally()
        creates = subject.startswith("create")
        kill_one(
            self._tracer,
            subject,
            self._place,
            Selection(_CREATION_CAP if creates else _CAP_KILL),
            tally,
            kills_max=_CREATION_KILLS_MAX if creates else _KILLS_MAX,
            mutate=site_id,
            stop_at=1,
        )
        return tally.bad_states > 0


def failing_test(site_id: str, nodes: Sequence[str]) -> str | None:
    """The first of the tests that fails with the mutant and passes without, or None.

    A module that cannot even be imported proves nothing: the mutant is none then, or the test.
    """
    left = list(nodes)
    while left:
        try:
            done = _pytest(["-x", "-rfE", *left], {SITE_VARIABLE: site_id})
        except subprocess.TimeoutExpired:
            return left[0] if len(left) == 1 else None
        if done.returncode == _NO_SUCH_TEST:
            return None
        bad = [it for it in done.stdout.splitlines() if it.startswith(("FAILED ", "ERROR "))]
        if not bad:
            is_over = done.returncode in {_PASSED, _NONE_FOUND} or len(left) > 1
            return None if is_over else left[0]  # the process died
        node = bad[0].split(" ", 1)[1].split(" - ")[0]
        if "::" not in node:
            return None
        if _passes_without(node):
            return node
        left = left[left.index(node) + 1 :] if node in left else []
    return None


def _passes_without(node: str) -> bool:
    try:
        done = _pytest([node], {SITE_VARIABLE: PROBE, REACHED_VARIABLE: os.devnull})
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == _PASSED


def tests_reaching(answer: Path, paths: Sequence[str]) -> list[tuple[str, float, list[str]]]:
    """Of each test: its name, its seconds, and the sites that it comes by."""
    if known := os.environ.get(REACHED_VARIABLE):  # a search that goes on
        answer = Path(known)
    else:
        _pytest(list(paths), {SITE_VARIABLE: PROBE, REACHED_VARIABLE: str(answer)})
    return [tuple(json.loads(line)) for line in answer.read_text().splitlines()]


def _pytest(arguments: list[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Raises TimeoutExpired."""
    command = [sys.executable, "-m", "pytest", "-p", "tests.rigs.mutation_plugin", "-q", "-n0"]
    command += ["-p", "no:cacheprovider", "--no-header", *arguments]
    environment = os.environ | variables
    environment.pop("CI", None)  # a test that is skipped here notices nothing
    timeout_s = None if variables[SITE_VARIABLE] == PROBE else _TEST_TIMEOUT_S
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
    )
