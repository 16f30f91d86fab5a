"""What every session medium must do about resumes: one wins, and does what it was told."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from attachstore.errors import (
    LogDamagedError,
    SessionBusyError,
    SessionExistsError,
    SessionMissingError,
)
from attachstore.sessions import SessionLogs
from attachstore.sessions.prepared import PreparedLog
from tests.conformance.session_place import Place, content_of, filled

HALF_LINE = b'{"seq":2,"time":"2026'


def interrupted(place: Place, logs: SessionLogs) -> bytes:
    """s-1 in the middle of a turn, with a torn line; returns what is stored."""
    logs.create("s-1").append("turn/start", 1)
    logs.load("s-1").close()
    place.write("s-1", place.read("s-1") + HALF_LINE)
    return place.read("s-1")


class SessionPrepareConformance:
    """Part of `SessionMediumConformance`."""

    def test_preparing_tells_what_a_resume_would_do_and_does_nothing(
        self, place: Place, logs: SessionLogs
    ) -> None:
        stored = interrupted(place, logs)

        prepared = logs.prepare("s-1")

        assert prepared.view.head_seq == 1
        assert prepared.view.tail is not None
        assert prepared.view.tail.size_bytes == len(HALF_LINE)
        assert [event.type for event in prepared.view.closers] == ["turn/end"]
        assert (place.read("s-1"), place.torn("s-1")) == (stored, [])
        prepared.release()
        assert (place.read("s-1"), place.torn("s-1")) == (stored, [])

    def test_a_resume_commits_exactly_what_was_told(
        self, place: Place, logs: SessionLogs, other: SessionLogs
    ) -> None:
        interrupted(place, logs)
        prepared = logs.prepare("s-1")

        log = prepared.resume()

        assert list(other.events("s-1", after=1)) == list(prepared.view.closers)
        assert place.torn("s-1") == [HALF_LINE]
        assert log.append("message", 3).seq == 3
        assert logs.load("s-1") is log, "it is live, and adopted"
        prepared.release()
        assert log.append("message", 4).seq == 4, "a release comes too late"

    def test_a_turn_stays_open_on_demand(self, place: Place, logs: SessionLogs) -> None:
        interrupted(place, logs)

        assert logs.prepare("s-1").resume(close_turn=False).head == 1

    def test_two_resumers_cannot_both_win(self, logs: SessionLogs, other: SessionLogs) -> None:
        filled(logs, "s-1", 1)
        prepared = logs.prepare("s-1")

        for attempt in (logs.prepare, other.prepare, logs.load, other.load, logs.repair):
            with pytest.raises(SessionBusyError, match="process"):
                attempt("s-1")
        for attempt in (logs.delete, other.delete):
            with pytest.raises(SessionBusyError):
                attempt("s-1")
        with pytest.raises(SessionExistsError):
            logs.create("s-1")
        prepared.resume().close()
        other.prepare("s-1").resume()

    def test_of_many_threads_one_prepares_it(self, logs: SessionLogs) -> None:
        filled(logs, "s-1", 1)

        def attempt(_: int) -> PreparedLog | None:
            try:
                return logs.prepare("s-1")
            except SessionBusyError:
                return None

        with ThreadPoolExecutor(8) as threads:
            won = [each for each in threads.map(attempt, range(8)) if each is not None]

        assert len(won) == 1
        won[0].release()
        logs.load("s-1")

    def test_a_released_session_is_anybody_s_and_cannot_be_resumed(
        self, logs: SessionLogs, other: SessionLogs
    ) -> None:
        filled(logs, "s-1", 1)
        prepared = logs.prepare("s-1")
        prepared.release()
        prepared.release()

        assert other.load("s-1").append("message", 2).seq == 2
        with pytest.raises(ValueError, match="not reserved"):
            prepared.resume()

    def test_a_session_that_is_held_here_is_loaded_not_prepared(self, logs: SessionLogs) -> None:
        created = logs.create("s-1")
        with pytest.raises(SessionBusyError, match="this process"):
            logs.prepare("s-1")
        created.append("message", 1)
        with pytest.raises(SessionBusyError, match="this process"):
            logs.prepare("s-1")
        created.close()
        logs.prepare("s-1").release()

    def test_a_prepared_session_is_read_and_forked_as_before(
        self, logs: SessionLogs, other: SessionLogs
    ) -> None:
        filled(logs, "s-1", 1, 2)
        prepared = logs.prepare("s-1")

        assert content_of(logs, "s-1") == content_of(other, "s-1") == [1, 2]
        assert logs.inspect("s-1").head_seq == 2
        assert logs.fork("s-1", id="s-2", at=1).head == 1
        prepared.release()

    def test_what_cannot_be_resumed_is_not_reserved(
        self, place: Place, logs: SessionLogs, other: SessionLogs
    ) -> None:
        with pytest.raises(SessionMissingError):
            logs.prepare("s-1")
        filled(logs, "s-1", 1)
        sound = place.read("s-1")
        place.write("s-1", sound + b"not a record\n")
        with pytest.raises(LogDamagedError):
            logs.prepare("s-1")
        place.write("s-1", sound)
        other.prepare("s-1").release()

    def test_what_changed_since_is_read_again(self, place: Place, logs: SessionLogs) -> None:
        """By another program: no writer of ours can be at it."""
        filled(logs, "s-1", 1)
        prepared = logs.prepare("s-1")
        place.write("s-1", place.read("s-1") + HALF_LINE)

        assert prepared.resume().append("message", 2).seq == 2
        assert place.torn("s-1") == [HALF_LINE]

    def test_closing_the_store_releases_what_is_prepared(
        self, logs: SessionLogs, other: SessionLogs
    ) -> None:
        filled(logs, "s-1", 1)
        prepared = logs.prepare("s-1")
        logs.close()

        other.load("s-1")
        with pytest.raises(ValueError, match="not reserved"):
            prepared.resume()
