"""Rig 11, the mutation gate: without any single sync or guard, some rig or test must turn red.

A rig that finds nothing proves little until it is seen to find. So each site (mutation.py finds
them in the code) is left out of the package, and its detector (detectors.py) is run against that
mutant. `mutants.json` remembers which detector noticed it, so that a run need not search; a site
that has no entry, and an entry whose detector no longer notices, is searched for: first power
cuts, then kill and power cut, in every workload that comes by the site, then the tests of its
module. What nobody notices is a violation, unless it is argued in ARGUED.

At the scale of a test run: what power cuts alone notice, a third of it each day in turn.

    python -m tests.rigs.rig_mutants [SITE | KIND ...]     search and write mutants.json
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.rigs.detectors import Detectors, failing_test, tests_reaching
from tests.rigs.figures import Figures, Progress, Scale
from tests.rigs.mutation import PROBE, Site, sites
from tests.rigs.rig_lost_writes import memory_directory
from tests.rigs.tracing import Tracer

KNOWN = Path(__file__).with_name("mutants.json")
_TURNS = 3

ARGUED: dict[str, str] = {}
"""Sites that nothing notices, each with the reason why it stays. Reviewed; the aim is none."""

_TESTS = (
    "tests/test_disk.py",
    "tests/test_lock.py",
    "tests/test_layout.py",
    "tests/test_confinement.py",
    "tests/test_store.py",
    "tests/test_forks_across_stores.py",
    "tests/objects",
    "tests/sessions",
    "tests/replay",
    "tests/conversion",
)
_TRIED_MAX = {"cut": 8, "kill": 4, "test": 200}
"""How many workloads or tests that come by a site are asked."""
_TEST_S_MAX = 4.0
_TESTS_S_MAX = 20.0
"""How long one of the tests, and all of them, may take without the mutant."""


def run(scale: Scale) -> Figures:
    """Leave out one site after the other; each must be noticed."""
    started = time.monotonic()
    known = remembered()
    chosen = [site for site in sites() if site.id not in ARGUED]
    if scale.ci:
        cuts = [it for it in chosen if known.get(it.id, "").startswith("cut")]
        chosen = scale.in_turn(cuts, _TURNS)
    unnoticed: list[str] = []
    by_kind: Counter[str] = Counter()
    progress = Progress(scale, "sites")
    with memory_directory() as place, Tracer(place, bare=True) as tracer:
        search = Search(tracer, place)
        for number, site in enumerate(chosen):
            progress.at(number, len(chosen), len(unnoticed))
            detector = known.get(site.id)
            if detector is None or not search.detectors.notices(detector, site.id):
                detector = None if scale.ci else search.detector_of(site)
            if detector is None:
                unnoticed.append(f"nothing notices that {site.id} is left out: {site.text}")
            else:
                by_kind[detector.partition(" ")[0]] += 1
    return Figures(
        rig=11,
        name="every sync and guard left out",
        counted=len(chosen),
        unit="sites",
        violations=unnoticed,
        seconds=time.monotonic() - started,
        notes=(
            f"noticed by power cuts: {by_kind['cut']}; by kill and power cut: {by_kind['kill']}",
            f"noticed by a test: {by_kind['test']}; argued: {len(ARGUED)}",
        ),
        details=dict(by_kind),
    )


def remembered() -> dict[str, str]:
    """Site to the detector that noticed it."""
    return json.loads(KNOWN.read_text()) if KNOWN.exists() else {}


class Search:
    """Finds a detector for a site."""

    def __init__(self, tracer: Tracer, place: Path) -> None:
        self.detectors = Detectors(tracer, place)
        self._tracer = tracer
        self._place = place
        self._reach: dict[str, dict[str, list[str]]] = {}
        self._tests: list[tuple[str, float, list[str]]] = []

    def detector_of(self, site: Site) -> str | None:
        """The first that notices. Disks show syncs, tests show guards; so these come first."""
        kinds = ("test", "cut", "kill") if _is_guard(site) else ("cut", "kill", "test")
        for kind in kinds:
            if kind == "test":
                nodes = self._tests_by(site)
                failed = failing_test(site.id, nodes) if nodes else None
                if failed is not None:
                    return f"test {failed}"
                continue
            for name in self._workloads_by(site, kind):
                if self.detectors.notices(f"{kind} {name}", site.id):
                    return f"{kind} {name}"
        return None

    def _workloads_by(self, site: Site, kind: str) -> list[str]:
        reach = self._reach or self._probe()
        names = [
            name
            for name, reached in reach.items()
            if site.id in reached[kind] or (kind == "kill" and site.id in reached["cut"])
        ]
        return names[: _TRIED_MAX[kind]]

    def _tests_by(self, site: Site) -> list[str]:
        """Those that have its module's name, then those that come by most, the quick ones first."""
        if not self._tests:
            self._tests = tests_reaching(self._place / "reached", _TESTS)
        stem = Path(site.module).stem
        reaching = [
            (stem not in node.partition("::")[0], 10 * seconds - len(ids) / 50, seconds, node)
            for node, seconds, ids in self._tests
            if site.id in ids and seconds < _TEST_S_MAX
        ]
        chosen: list[str] = []
        left_s = _TESTS_S_MAX
        for _, _, seconds, node in sorted(reaching)[: _TRIED_MAX["test"]]:
            left_s -= seconds
            if left_s > 0:
                chosen.append(node)
        return chosen

    def _probe(self) -> dict[str, dict[str, list[str]]]:
        """Which sites each workload and a second process come by; the quick ones first."""
        place, answer = self._place / "probe", self._place / "answer"
        self._tracer.run("tests.rigs.traced_work:reached", str(place), str(answer), mutate=PROBE)
        found: dict[str, dict[str, list[str]]] = json.loads(answer.read_text())
        quick = sorted(found, key=lambda it: ("sqlite" in it, "create" in it))
        self._reach = {name: found[name] for name in quick}
        shutil.rmtree(place)
        return self._reach


def _is_guard(site: Site) -> bool:
    """Not a sync that writes: dropping the cache guards against believing it."""
    return site.kind != "sync" or "cache" in site.id or "fadvise" in site.id


def main(wanted: Sequence[str]) -> None:
    """Search for the detectors of these sites, or of all that have none, and remember them."""
    found = [site for site in sites() if not wanted or {site.id, site.kind} & set(wanted)]
    with memory_directory() as place, Tracer(place, bare=True) as tracer:
        search = Search(tracer, place)
        for site in sorted(found, key=_is_guard):
            known = remembered()
            if site.id in known and site.id not in wanted:
                continue
            started = time.monotonic()
            detector = search.detector_of(site)
            print(f"{time.monotonic() - started:6.1f} s  {site.id}: {detector}", flush=True)
            if detector is not None:
                known = {it.id: known[it.id] for it in sites() if it.id in known}
                KNOWN.write_text(json.dumps(known | {site.id: detector}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
