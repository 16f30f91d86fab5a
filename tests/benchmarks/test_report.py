"""The page is made of what a run has kept: every target, every miss with its reason, no silence."""

from __future__ import annotations

import argparse
import xml.etree.ElementTree as ET
from pathlib import Path

from benchmarks import runner
from benchmarks.measure import Plan, Question, Row
from benchmarks.place import Place
from benchmarks.report import page, results
from benchmarks.report.plots import Labels, bars, lines
from benchmarks.report.results import Outcome, Results
from benchmarks.report.targets import TARGETS


def row(text: str, group: str, size: str, ratio: float, target: float | None) -> Row:
    question = Question(
        text=text,
        floor=text.rpartition(" / ")[2],
        target=target,
        ours_durable="durable",
        floor_durable="nothing synced",
        group=group,
    )
    return Row(question=question, size=size, ratios=(ratio, ratio, ratio))


ROWS = (
    row("attach new bytes / durable file", "attach", "4 KiB", 1.4, 0.5),
    row("append an event / append a line", "append", "500 B", 0.9, 1.25),
    row("attach: attachstore / one that syncs", "peers", "4 KiB", 1.3, 1.0),
    row("attach: attachstore / one that syncs", "peers", "100 KiB", 0.8, 1.0),
    row("attach: attachstore / one that does not", "peers", "4 KiB", 3.0, None),
    row("attach 16 KiB, files: 8 tasks / one writer", "concurrent", "8 tasks", 0.25, None),
    row("growth: read / in a store of 1,000", "growth", "1,000", 1.0, 1.25),
    row("growth: read / in a store of 1,000", "growth", "10,000", 1.1, 1.25),
)


def small() -> Results:
    def outcome(benchmark: str, rows: tuple[Row, ...], failure: str = "") -> Outcome:
        return Outcome(
            benchmark=benchmark,
            when="2026-11-30 07:00 UTC",
            place="ext4, journaled",
            machine="Linux, 2 processors",
            busy="6.5, 4.2",
            seconds=1.0,
            answers=results.answers(rows),
            failure=failure,
        )

    return Results(
        minutes=2,
        versions={"git": "2.39", "b3sum": "absent"},
        outcomes={"all": outcome("all", ROWS), "broken": outcome("broken", (), "OSError: full")},
    )


def test_results_are_kept_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "performance" / "results.json"

    results.save(small(), path)

    assert results.load(path) == small()
    assert results.load(tmp_path / "none.json") == Results()


def test_the_page_has_every_target_and_the_reason_of_each_miss(tmp_path: Path) -> None:
    page.write(small(), tmp_path / "performance.md")

    text = (tmp_path / "performance.md").read_text()
    for target in TARGETS:
        assert f"| {target.what} |" in text
        missed = target.group in {"attach", "peers"}
        assert (f"### Not met: {target.what}" in text) == missed
        assert (target.why_not in text) == missed
    assert "| 1.40 | **NOT MET**: 1 of 1 |" in text
    assert "| 0.90 | met |" in text
    assert "not measured |" in text
    assert "A reduced run" in text
    assert "busy with other work**: up to 6.5" in text


def test_the_page_names_what_was_absent_and_what_failed(tmp_path: Path) -> None:
    page.write(small(), tmp_path / "performance.md")

    text = (tmp_path / "performance.md").read_text()
    assert "not compared with: b3sum" in text
    assert "`broken` gave no figures: OSError: full" in text


def test_a_peer_that_promises_less_is_shown_and_not_judged(tmp_path: Path) -> None:
    page.write(small(), tmp_path / "performance.md")

    text = (tmp_path / "performance.md").read_text()
    assert "| one that syncs | nothing synced | **1.30 (1.30)** | 0.80 (0.80) |" in text
    assert "| one that does not | nothing synced | *3.00 (3.00)* |  |" in text


def test_every_picture_on_the_page_is_there_and_well_formed(tmp_path: Path) -> None:
    page.write(small(), tmp_path / "performance.md")

    text = (tmp_path / "performance.md").read_text()
    pictures = sorted((tmp_path / "performance").glob("*.svg"))
    assert {path.name for path in pictures} == {
        "targets.svg",
        "peers-attach.svg",
        "concurrent.svg",
        "growth.svg",
    }
    for picture in pictures:
        assert f"(performance/{picture.name})" in text
        ET.parse(picture)


def test_plots_hold_flat_lines_and_single_points() -> None:
    """A scale of one value would have no length."""
    labels = Labels(title="a < b", x="x", y="y")

    ET.fromstring(lines(labels, {"one": [(1, 1.0)], "two": [(1, 0.5), (10, 200.0)]}))
    ET.fromstring(bars("bars", {"a & b": 1.0}))


def test_a_benchmark_that_fails_is_an_outcome_and_not_the_end(tmp_path: Path) -> None:
    async def fails(plan: Plan) -> list[Row]:
        raise OSError(f"no room in {plan.directory}")

    given = argparse.Namespace(minutes=1.0, quick=True, million=False)
    place = Place(tmp_path, "here")

    outcome, rows = runner.run_job(runner.Job(fails), place, given, end_s=float("inf"))
    late, _ = runner.run_job(runner.Job(fails), place, given, end_s=0.0)

    assert rows == []
    assert outcome.failure.startswith("OSError: no room in ...")
    assert late.failure == "no time was left of 1 minutes"


def test_what_ran_on_another_file_system_has_a_table_of_its_own() -> None:
    async def measure(plan: Plan) -> list[Row]:
        return []

    on_xfs = runner.Job(measure, "xfs").marked(ROWS[0])

    assert runner.Job(measure).marked(ROWS[0]) == ROWS[0]
    assert on_xfs.question.group == "xfs"
    assert on_xfs.ratios == ROWS[0].ratios


def test_the_kept_page_is_what_its_results_say() -> None:
    """Edited by hand it would be lost by the next run."""
    kept = results.load()

    assert page.PAGE.read_text() == page.render(kept), "run python -m benchmarks --page"
