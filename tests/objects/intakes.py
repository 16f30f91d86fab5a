"""Stores with an intake, for tests."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

from attachstore.disk import Disk
from attachstore.objects.intake_backend import IntakeBackend
from attachstore.objects.store import ObjectStore
from tests.objects.samples import open_intake_store

NEVER_S = float("inf")


@contextlib.contextmanager
def opened(root: Path, disk: Disk | None = None, **options: Any) -> Generator[ObjectStore]:
    store = open_intake_store(root, disk, **options)
    try:
        yield store
    finally:
        store.close()


def backend_of(store: ObjectStore) -> IntakeBackend:
    return cast("IntakeBackend", store.backend)


def intake_files(root: Path) -> list[Path]:
    return sorted((root / "intake").glob("*.intake"))
