"""What a scan says of sessions in a database, beyond what their lines say."""

from __future__ import annotations

from pathlib import Path

import pytest

from attachstore.errors import StorageIOError
from attachstore.integrity import Kind, Severity
from attachstore.objects.memory import MemoryBackend
from attachstore.sessions.sqlite import SqliteMedium
from attachstore.threads import CancelFlag
from tests.integrity.workshop import Workshop
from tests.sessions.places import SqlitePlace


@pytest.fixture
def place(tmp_path: Path) -> SqlitePlace:
    return SqlitePlace(tmp_path)


def test_a_database_that_hides_lines_is_a_broken_layout(place: SqlitePlace) -> None:
    """The chain of what is left is whole. And whatever is not referred to may have been."""
    shop = Workshop(MemoryBackend(), place.medium())
    shop.log("s-1", "one", {"file": shop.put(b"words")})
    assert shop.scan().clean
    shop.logs.close()
    place.hide_last_line()

    medium = place.medium()
    report = Workshop(shop.backend, medium).scan()
    medium.close()

    (found,) = report.findings
    assert (found.kind, found.kind.severity) == (Kind.STORE_LAYOUT, Severity.CORRUPT)
    assert found.path == str(place.path)
    assert "integrity check" in found.what
    assert "sessions.db" in found.mend
    assert not report.logs_complete
    assert len(report.unreferenced) == 1


def test_a_database_that_cannot_be_checked_is_told(
    place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(self: SqliteMedium, _: CancelFlag) -> list[str]:
        raise StorageIOError(where=self.location, reason="the disk is failing")

    monkeypatch.setattr(SqliteMedium, "complaints", failing)
    shop = Workshop(MemoryBackend(), place.medium())
    report = shop.scan()
    shop.logs.close()

    (found,) = report.findings
    assert found.kind is Kind.LOG_UNREADABLE
    assert "the disk is failing" in found.what
    assert not report.logs_complete
