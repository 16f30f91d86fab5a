"""What SQLite says of its own database, as a scan asks it."""

from __future__ import annotations

from pathlib import Path

import pytest

from attachstore.disk import ReadOnlyDisk
from attachstore.errors import StoreLayoutError
from attachstore.sessions import SessionLogs
from attachstore.sessions.sqlite import SqliteMedium
from attachstore.threads import CancelFlag, Cancelled
from tests.conformance.session_medium import confirm
from tests.sessions.places import SqlitePlace


@pytest.fixture
def place(tmp_path: Path) -> SqlitePlace:
    return SqlitePlace(tmp_path)


def written(place: SqlitePlace, events: int) -> None:
    logs = SessionLogs(place.medium(), confirm)
    logs.create("s-1").append_many([("message", number) for number in range(events)])
    logs.close()


def complaints(place: SqlitePlace) -> list[str]:
    medium = place.medium()
    try:
        return medium.complaints(CancelFlag())
    finally:
        medium.close()


def test_of_a_sound_database_nothing_is_said(place: SqlitePlace) -> None:
    assert complaints(place) == []
    written(place, 3)
    assert complaints(place) == []


def test_lines_that_the_database_hides_are_missed(place: SqlitePlace) -> None:
    """Every session call takes what is left for a shorter log; nothing else tells."""
    written(place, 3)
    place.hide_last_line()

    logs = SessionLogs(place.medium(), confirm)
    view = logs.verify("s-1")
    logs.close()

    assert (view.head_seq, view.damage, view.tail) == (2, None, None)
    assert any("reported" in line for line in complaints(place))


def test_a_store_opened_for_reading_is_checked_and_not_changed(place: SqlitePlace) -> None:
    written(place, 3)
    place.hide_last_line()
    before = place.path.read_bytes()
    medium = SqliteMedium(place.root, ReadOnlyDisk())
    try:
        assert medium.complaints(CancelFlag())
    finally:
        medium.close()
    assert place.path.read_bytes() == before


def test_what_is_no_database_is_told_as_everywhere(place: SqlitePlace) -> None:
    place.path.write_bytes(b"notes" * 1000)
    with pytest.raises(StoreLayoutError):
        complaints(place)


class _SetMeanwhile(CancelFlag):
    """Set when it is looked at; by the way of `interrupt`, or without it."""

    def __init__(self, *, interrupts: bool) -> None:
        super().__init__()
        self._interrupts = interrupts

    @property
    def is_set(self) -> bool:
        if self._interrupts:
            self.set()
            return False
        self._set = True
        return True


@pytest.mark.parametrize("interrupts", [True, False], ids=["by interrupt", "by the handler"])
def test_who_gives_up_meanwhile_is_heeded(place: SqlitePlace, interrupts: bool) -> None:
    """And the connection serves others as before."""
    written(place, 3000)
    medium = place.medium()
    try:
        with pytest.raises(Cancelled):
            medium.complaints(_SetMeanwhile(interrupts=interrupts))
        assert medium.complaints(CancelFlag()) == []
    finally:
        medium.close()


def test_who_has_given_up_before_waits_for_nothing(place: SqlitePlace) -> None:
    medium = place.medium()
    flag = CancelFlag()
    flag.set()
    try:
        with pytest.raises(Cancelled):
            medium.complaints(flag)
    finally:
        medium.close()
