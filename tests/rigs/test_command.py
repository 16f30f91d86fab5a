"""`python -m tests.rigs`: what it prints, what it keeps, how it ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.rigs import __main__ as command
from tests.rigs import report
from tests.rigs.catalog import Rig
from tests.rigs.figures import Figures, Progress, Scale

FAKE = Rig(1, "rig_fake", 10)


def figures(
    counted: int = 10, *, violations: list[str] | None = None, not_run: str = ""
) -> Figures:
    return Figures(1, "fake", counted, "runs", violations or [], 2.0, not_run=not_run)


@pytest.fixture(autouse=True)
def _nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "FIGURES", tmp_path / "figures.json")
    monkeypatch.setattr(report, "PAGE", tmp_path / "reliability.md")
    monkeypatch.setattr(report, "RIGS", (FAKE,))
    monkeypatch.setattr(command, "RIGS", (FAKE,))


def outcome(result: Figures | Exception, monkeypatch: pytest.MonkeyPatch, *options: str) -> int:
    """How the command ends when its only rig comes to that."""

    def run(scale: Scale) -> Figures:
        if isinstance(result, Exception):
            raise result
        return result

    module = ModuleType("tests.rigs.rig_fake")
    module.run = run  # pyright: ignore[reportAttributeAccessIssue] - a module made here
    monkeypatch.setitem(sys.modules, "tests.rigs.rig_fake", module)
    monkeypatch.setattr(sys, "argv", ["rigs", *options])
    return command.main()


def test_enough_without_a_violation_is_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(figures(), monkeypatch) == 0

    assert capsys.readouterr().out == "rig  1  fake: 10 runs, 0 violations in 2 s\n"
    assert "| 1 | fake | 10 runs | 10 | 0 | 2 | 20" in report.PAGE.read_text()


@pytest.mark.parametrize(
    "result",
    [figures(9), figures(violations=["lost"]), OSError("no disk")],
    ids=["too-few", "violation", "raised"],
)
def test_too_few_a_violation_or_an_error_is_a_failure(
    result: Figures | Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is on the page, which hides nothing."""
    assert outcome(result, monkeypatch) == 1
    assert report.PAGE.exists()


def test_a_rig_that_does_not_run_here_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, there and on the page; it is no failure."""
    assert outcome(figures(0, not_run="needs root"), monkeypatch) == 0

    assert capsys.readouterr().out == "rig  1  fake: not run here: needs root\n"
    assert "not run here: needs root" in report.PAGE.read_text()


def test_a_sample_leaves_the_page_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert outcome(figures(3), monkeypatch, "--ci") == 0

    assert not report.PAGE.exists()
    assert not report.FIGURES.exists()


def test_what_root_and_others_found_is_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a user cannot run does not take the place of what root found."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    outcome(figures(), monkeypatch)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    outcome(figures(0, not_run="needs root"), monkeypatch)

    page = report.PAGE.read_text()
    assert "| 1 | fake | 10 runs |" in page.partition("As an ordinary user, on ")[0]
    assert "not run here: needs root" in page.partition("As an ordinary user, on ")[2]


@pytest.mark.parametrize(
    ("options", "soak_s"), [((), 300), (("--soak-seconds", "3600"), 3600)], ids=["usual", "longer"]
)
def test_a_rig_is_told_how_long_to_soak(
    monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], soak_s: int
) -> None:
    told: list[Scale] = []

    def run(_: Rig, scale: Scale) -> Figures:
        told.append(scale)
        return figures()

    monkeypatch.setattr(Rig, "run", run)
    monkeypatch.setattr(sys, "argv", ["rigs", *options])

    assert command.main() == 0

    assert told == [Scale(ci=False, soak_s=soak_s)]


@pytest.mark.parametrize("violations", [[], ["lost"]])
def test_the_longest_soak_is_kept(monkeypatch: pytest.MonkeyPatch, violations: list[str]) -> None:
    """But not if a shorter one finds something."""
    soak = Rig(13, "rig_soak", 1)

    report.keep(soak, Figures(13, "soak", 900, "kills", [], 3600.0))
    report.keep(soak, Figures(13, "soak", 150, "kills", violations, 600.0))

    (kept,) = report.kept_figures().values()
    assert kept["rig_soak"]["counted"] == (150 if violations else 900)


def test_progress_is_told_at_full_scale_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Progress, "EVERY_S", 0.0)

    Progress(Scale(ci=True), "runs").at(1, 2)
    Progress(Scale(ci=False), "runs").at(1_500, 20_000, found=1)

    assert capsys.readouterr().out == "        1,500 of 20,000 runs after 0 s, 1 violations\n"
