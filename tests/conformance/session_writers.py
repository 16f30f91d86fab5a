"""What every session medium must do about writers: one at a time, and nothing behind its back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from attachstore.errors import LogDamagedError, LogPoisonedError, SessionBusyError
from attachstore.sessions import SessionLogs
from tests.conformance.session_place import Place, confirm, content_of, filled
from tests.conformance.session_prepare import SessionPrepareConformance
from tests.conformance.session_snapshots import SessionSnapshotConformance


class SessionWriterConformance(SessionPrepareConformance, SessionSnapshotConformance):
    """Part of `SessionMediumConformance`."""

    @pytest.fixture
    def logs(self, place: Place) -> Iterator[SessionLogs]:
        logs = SessionLogs(place.medium(), confirm, event_bytes_max=64 << 10)
        yield logs
        logs.close()

    @pytest.fixture
    def other(self, place: Place) -> Iterator[SessionLogs]:
        """A second store object on the same storage."""
        logs = SessionLogs(place.medium(), confirm)
        yield logs
        logs.close()

    def test_a_second_writer_is_refused_at_once_and_readers_are_not(
        self, logs: SessionLogs, other: SessionLogs
    ) -> None:
        log = filled(logs, "s-1", 1)
        log = logs.load("s-1")

        for attempt in (other.load, other.delete, other.repair):
            with pytest.raises(SessionBusyError, match="process"):
                attempt("s-1")
        assert content_of(other, "s-1") == [1]
        log.close()
        assert other.load("s-1").head == 1

    def test_a_created_or_forked_session_keeps_nobody_out(
        self, logs: SessionLogs, other: SessionLogs
    ) -> None:
        filled(logs, "s-1", 1)
        fork = logs.fork("s-1", id="s-2")

        other.load("s-2").append("message", 2)
        with pytest.raises(SessionBusyError):
            fork.append("message", 3)
        other.close()
        assert fork.append("message", 3).seq == 3

    def test_load_of_a_held_session_returns_the_same_object(self, logs: SessionLogs) -> None:
        created = logs.create("s-1")

        assert logs.load("s-1") is created
        created.append("turn/start", 1)
        assert logs.load("s-1") is created
        assert created.head == 1, "a live writer's turn is not closed"
        assert logs.fork("s-1", id="s-2") is logs.load("s-2")

    def test_a_closed_session_takes_no_events_and_can_be_loaded_again(
        self, logs: SessionLogs
    ) -> None:
        log = filled(logs, "s-1", 1)

        with pytest.raises(ValueError, match="closed"):
            log.append("message", 2)
        log.close()
        assert logs.load("s-1").append("message", 2).seq == 2

    def test_a_change_behind_the_writers_back_stops_it(
        self, place: Place, logs: SessionLogs
    ) -> None:
        log = logs.create("s-1")
        log.append("message", 1)
        changed = place.read("s-1") + b"another program's line\n"
        place.write("s-1", changed)

        with pytest.raises(LogPoisonedError):
            log.append("message", 2)
        with pytest.raises(LogPoisonedError):
            log.append("message", 2)
        assert place.read("s-1") == changed
        with pytest.raises(LogDamagedError):
            logs.load("s-1")

    def test_a_log_that_lost_acknowledged_events_is_damaged_to_its_writer(
        self, place: Place, logs: SessionLogs
    ) -> None:
        """Cut at a line's end it is a valid shorter log to everybody else."""
        log = logs.create("s-1")
        log.append("message", 1)
        log.append("message", 2)
        whole = place.read("s-1")
        shorter = b"".join(whole.splitlines(keepends=True)[:2])

        for cut in (shorter, whole[:-1], whole[: len(shorter) + 1]):
            place.write("s-1", cut)
            with pytest.raises(LogDamagedError) as damage:
                logs.verify("s-1")
            assert damage.value.offset_bytes == len(shorter)
            assert content_of(logs, "s-1", damaged="stop") == [1]

    def test_closing_the_store_closes_its_sessions(self, place: Place, other: SessionLogs) -> None:
        logs = SessionLogs(place.medium(), confirm)
        log = logs.create("s-1")
        log.append("message", 1)

        logs.close()
        logs.close()

        for call in (lambda: log.append("message", 2), lambda: logs.load("s-1"), logs.list):
            with pytest.raises(ValueError, match="closed"):
                call()
        assert other.load("s-1").head == 1
