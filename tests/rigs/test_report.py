"""The page says what the rigs came to, and is made by them."""

from __future__ import annotations

from pathlib import Path

from tests.rigs import report
from tests.rigs.catalog import RIGS


def test_every_rig_is_in_the_catalog() -> None:
    """What is not listed is not run by `make proof`."""
    modules = {path.stem for path in Path(__file__).parent.glob("rig_*.py")}

    assert {rig.module for rig in RIGS} == modules


def test_the_page_is_up_to_date() -> None:
    """`python -m tests.rigs --page` writes it again."""
    assert report.PAGE.read_text() == report.page()


def test_the_page_explains_every_rig() -> None:
    template = (report.FOLDER / "template.md").read_text()

    assert all(f"| {rig.number} |" in template for rig in RIGS)


def test_the_figures_are_what_was_asked_for() -> None:
    """Zero violations, and of whatever ran as much as there must be."""
    by_module = {rig.module: rig for rig in RIGS}
    for kept in report.kept_figures().values():
        for module, entry in kept.items():
            assert entry["violations"] == [], module
            assert entry["not_run"] or entry["counted"] >= by_module[module].at_least, module
