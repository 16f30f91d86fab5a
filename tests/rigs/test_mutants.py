"""Rig 11 at the scale of a test run, and that sites are found and left out as they should be."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.rigs import rig_mutants
from tests.rigs.cut_subjects import SUBJECTS
from tests.rigs.figures import Scale
from tests.rigs.mutation import PACKAGE, _Sites, sites

CODE = """
class File:
    def publish(self):
        self.disk.sync_file(1)
        size = log.settle()
        if leads_to(path, descriptor):
            os.open(path, os.O_CREAT | os.O_EXCL)
        with self._exclusive(shard):
            return found.digest == digest
        cancel.check()
        self.promise.check()
"""


def left_out(site_id: str) -> str:
    mutant = _Sites("file.py", site_id)
    tree = mutant.visit(ast.parse(CODE))
    assert mutant.skipped
    return ast.unparse(ast.fix_missing_locations(tree))


@pytest.mark.program("strace")
@pytest.mark.xdist_group("rigs-lost-writes")
def test_a_missing_sync_turns_some_rig_red() -> None:
    """A third of them, in turn by the day; `make proof` takes all, and all guards."""
    figures = rig_mutants.run(Scale(ci=True))
    assert figures.violations == []
    assert figures.counted


def test_every_site_has_a_detector() -> None:
    """A new sync or guard needs a test that misses it: write one, then
    `python -m tests.rigs.rig_mutants` finds it and remembers it in mutants.json."""
    has_one = rig_mutants.remembered().keys() | rig_mutants.ARGUED.keys()
    assert [site.id for site in sites() if site.id not in has_one] == []


def test_every_detector_is_there() -> None:
    root = PACKAGE.parent
    texts = [path.read_text(encoding="utf-8") for path in (root / "tests").rglob("*.py")]
    names = {name for text in texts for name in re.findall(r"def (test_\w+)", text)}
    for site, detector in rig_mutants.remembered().items():
        kind, _, subject = detector.partition(" ")
        if kind == "test":
            path, *_, name = subject.partition("[")[0].split("::")
            assert (root / path).exists(), site
            assert name in names, site
        else:
            assert kind in {"cut", "kill"}, site
            assert subject in SUBJECTS, site


def test_every_kind_of_site_is_found() -> None:
    visitor = _Sites("file.py")
    visitor.visit(ast.parse(CODE))
    assert [(site.kind, site.id) for site in visitor.found] == [
        ("sync", "file.py File.publish sync_file#1"),
        ("sync", "file.py File.publish settle#1"),
        ("question", "file.py File.publish leads_to#1"),
        ("flag", "file.py File.publish O_EXCL#1"),
        ("lock", "file.py File.publish _exclusive#1"),
        ("comparison", "file.py File.publish compare#1"),
        ("check", "file.py File.publish check#1"),
    ]


@pytest.mark.parametrize(
    ("site", "before", "after"),
    [
        ("sync_file#1", "self.disk.sync_file(1)", "None"),
        ("settle#1", "log.settle()", "log.size()"),
        ("leads_to#1", "leads_to(path, descriptor)", "True"),
        ("O_EXCL#1", "os.O_EXCL", "0"),
        ("compare#1", "found.digest == digest", "True"),
        ("check#1", "self.promise.check()", "None"),
    ],
)
def test_one_site_is_left_out_and_nothing_else(site: str, before: str, after: str) -> None:
    whole = ast.unparse(ast.parse(CODE))
    assert left_out(f"file.py File.publish {site}") == whole.replace(before, after)


def test_no_sync_of_the_package_is_missed() -> None:
    """Whatever reaches the kernel's syncs does so in disk.py, which is among the subjects."""
    pattern = re.compile(r"\b(os\.(fsync|fdatasync|sync)|sync_file_range)\b")
    callers = {
        str(path.relative_to(PACKAGE))
        for path in Path(PACKAGE).rglob("*.py")
        if pattern.search(path.read_text(encoding="utf-8"))
    }
    assert callers == {"disk.py"}
    assert len([site for site in sites() if site.kind == "sync"]) >= 50
