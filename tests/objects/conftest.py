"""Places for tests that make many small files and do not care which file system they are on."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.objects.samples import make_store

_MEMORY = Path("/dev/shm")


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory where there is one, else an ordinary one."""
    if not _MEMORY.is_dir():
        yield tmp_path
        return
    directory = Path(tempfile.mkdtemp(prefix="attachstore-", dir=_MEMORY))
    yield directory
    shutil.rmtree(directory)


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
