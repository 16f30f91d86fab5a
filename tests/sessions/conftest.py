"""Databases that a test opened are closed with it, as `Store.close` would."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from attachstore.sessions.sqlite_database import Database


@pytest.fixture(autouse=True)
def _databases_are_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Else a garbage collection in some later test closes them, and Python 3.13 warns of it."""
    opened: list[Database] = []
    construct = Database.__init__

    def remembered(database: Database, *arguments: Any, **options: Any) -> None:
        construct(database, *arguments, **options)
        opened.append(database)

    monkeypatch.setattr(Database, "__init__", remembered)
    yield
    for database in opened:
        database.close()
