"""Places for what tests of objects have in common."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.objects.samples import make_store


@pytest.fixture
def root(memory_path: Path) -> Path:
    """Where an empty store is."""
    root = memory_path / "store"
    make_store(root)
    return root


@pytest.fixture
def world(memory_path: Path) -> Path:
    """The disk that loses power."""
    world = memory_path / "world"
    world.mkdir()
    return world
