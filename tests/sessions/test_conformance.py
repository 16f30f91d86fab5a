"""One suite for every medium, and every medium under all of it."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from types import ModuleType

import pytest

from tests.sessions import test_jsonl, test_memory, test_sealing, test_sqlite

BEHAVIOURS_MIN = 60  # what was asked for; what there is, is more


def suites() -> dict[str, type]:
    """The classes of the suites, by name."""
    found: dict[str, type] = {}
    for path in (Path(__file__).parents[1] / "conformance").glob("session_*.py"):
        module = importlib.import_module(f"tests.conformance.{path.stem}")
        classes = inspect.getmembers(module, inspect.isclass)
        found |= {name: each for name, each in classes if name.endswith("Conformance")}
    return found


def behaviours(suite: type) -> set[str]:
    return {name for name in dir(suite) if name.startswith("test_")}


def test_the_suite_asks_for_more_than_sixty_behaviours() -> None:
    asked = set[str]().union(*map(behaviours, suites().values()))
    assert len(asked) >= BEHAVIOURS_MIN


@pytest.mark.parametrize("medium", [test_memory, test_jsonl, test_sealing, test_sqlite])
def test_every_medium_is_under_every_suite(medium: ModuleType) -> None:
    run = [each for name, each in inspect.getmembers(medium, inspect.isclass) if name[:4] == "Test"]
    missing = [
        name
        for name, suite in suites().items()
        if not any(
            issubclass(each, suite) and behaviours(each) >= behaviours(suite) for each in run
        )
    ]
    assert missing == []
    for each in run:
        for name in behaviours(each):
            marks = getattr(getattr(each, name), "pytestmark", [])
            assert not {"skip", "skipif", "xfail"} & {mark.name for mark in marks}
