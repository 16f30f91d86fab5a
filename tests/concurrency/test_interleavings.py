"""Every interleaving of up to three actors on one object, with a kill at any call.

The actors run the product's own code; explorer.py says how all orders of their calls are covered,
actors.py what must hold in each state, power cut included. Set ATTACHSTORE_TEST_INTERLEAVINGS=all
for the combinations that take minutes.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from attachstore.objects.filesystem import FilesystemBackend
from attachstore.objects.healing import Healing
from attachstore.objects.staging import StagedFile
from attachstore.promise import Promise
from tests.concurrency.actors import check, damaged, empty, is_promise, program
from tests.concurrency.explorer import Exploration, Explorer
from tests.concurrency.world import World

ALL = os.environ.get("ATTACHSTORE_TEST_INTERLEAVINGS") == "all"


@pytest.fixture(autouse=True)
def quiet() -> Generator[None]:
    """A warning for each healing in each interleaving helps nobody."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def explored(
    names: str, world: Callable[[], World], *, old: bool = False, **options: Any
) -> Exploration:
    programs = [program(name, number, old=old) for number, name in enumerate(names.split())]
    return Explorer(programs, check, is_promise=is_promise, **options).explore(world())


@pytest.mark.parametrize(
    ("names", "world", "states_min"),
    [
        ("put put put", empty, 4_000),
        ("put put read", empty, 1_000),
        ("put confirm read", empty, 300),
        ("put put quarantine", damaged, 20_000),
        ("put confirm quarantine", damaged, 9_000),
        ("put quarantine quarantine", damaged, 12_000),
        ("put quarantine read", damaged, 5_000),
        ("put confirm read", damaged, 2_500),
    ],
)
def test_no_interleaving_breaks_a_promise(
    names: str, world: Callable[[], World], states_min: int
) -> None:
    """Of three actors, each of which may be killed at any of its calls."""
    found = explored(names, world)

    assert found.violations == {}
    assert found.states >= states_min


@pytest.mark.parametrize(
    ("names", "world"),
    [("put put", empty), ("put put", damaged), ("put quarantine", damaged), ("put sweep", empty)],
)
@pytest.mark.parametrize("old", [False, True])
def test_no_interleaving_of_two_breaks_a_promise_on_an_older_system(
    names: str, world: Callable[[], World], old: bool
) -> None:
    """Without O_TMPFILE and RENAME_EXCHANGE; and with every single call a step of its own."""
    found = explored(names, world, old=old, every_call=True)

    assert found.violations == {}
    assert found.ends >= 5


@pytest.mark.parametrize(
    ("names", "world", "old"),
    [
        ("put put put", damaged, False),
        ("put put sweep", empty, True),
        ("put put quarantine", damaged, True),
        *([("put put sweep", damaged, True)] if ALL else []),
    ],
)
def test_no_interleaving_of_the_larger_combinations_breaks_a_promise(
    names: str, world: Callable[[], World], old: bool
) -> None:
    # Without kills in an ordinary run: with them these are a million states.
    found = explored(names, world, old=old, kills=ALL)

    assert found.violations == {}


def test_every_outcome_that_can_happen_happens() -> None:
    """Else the explorer might have looked at less than it says."""
    assert explored("put put", empty, kills=False).outcomes == {
        ("stored", "duplicate"),
        ("duplicate", "stored"),
    }
    assert explored("put quarantine", damaged, kills=False).outcomes == {
        ("healed", "nothing to do"),
        ("healed", "not bad any more"),
        ("stored", "quarantined"),
    }


# -- that faults would be seen -------------------------------------------------------------------


def _renames_away_first(
    self: Healing, digest: Any, path: Path, good: StagedFile, judge: Any
) -> bool:
    """Heal as one would at first: away with the bad, then link the good; who needs a lock?"""
    note = self._judged(path, judge)
    if note is None:
        return False
    self._move_aside(path, self._quarantine.prepare(digest, note))
    with contextlib.suppress(FileExistsError):
        good.link_to(path)
    self._promise.sync_directory(path.parent)
    return True


@contextlib.contextmanager
def _no_lock(self: Healing, shard: Path, *, wait: bool) -> Generator[None]:
    yield


def _confirms(self: FilesystemBackend, digest: Any, stored: Any) -> bool:
    return True


def _forgets(self: Any, *_: Any, **__: Any) -> None:
    return


FAULTS: dict[str, tuple[Any, str, Callable[[], World], str]] = {
    "a duplicate is not synced": (
        patch.object(FilesystemBackend, "confirm", _confirms),
        "put put",
        empty,
        "promised, and a power cut may leave nothing",
    ),
    "a new name is not synced": (
        patch.object(Promise, "sync_directory", _forgets),
        "put",
        empty,
        "promised, and a power cut may leave nothing",
    ),
    "bytes are not synced": (
        patch.object(StagedFile, "sync", _forgets),
        "put",
        empty,
        "visible, and not whole and synced",
    ),
    "the name is absent while it is healed": (
        patch.object(Healing, "heal", _renames_away_first),
        "put put",
        damaged,
        "promised, and a power cut may leave nothing",
    ),
    "two heal at once": (
        patch.object(Healing, "_exclusive", _no_lock),
        "put put",
        damaged,
        "moved aside, and a power cut may lose the bad bytes",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_takes_an_interleaving_is_found(fault: str) -> None:
    broken, names, world, violation = FAULTS[fault]

    with broken:
        found = explored(names, world)

    assert violation in found.violations, found.violations
