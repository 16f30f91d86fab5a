"""What every session medium must do; one class, run on each medium by a subclass with `place`.

The suite looks at stored bytes and damages them through a `Place`, which uses none of the code
under test.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from attachstore.errors import (
    DanglingReferenceError,
    EventTooLargeError,
    InvalidEventError,
    SequenceConflictError,
    SessionBusyError,
    SessionExistsError,
    SessionMissingError,
)
from attachstore.sessions import SessionLogs
from attachstore.sessions.names import SessionName
from tests.conformance.session_place import (
    DANGLING,
    REFERENCE,
    STRANGE_IDS,
    Place,
    confirm,
    content_of,
    filled,
)
from tests.conformance.session_writers import SessionWriterConformance


class SessionMediumConformance(SessionWriterConformance):
    """Give a `place` fixture to run it."""

    # -- create and append -------------------------------------------------------------------

    def test_a_session_that_was_never_appended_to_leaves_nothing(
        self, logs: SessionLogs, other: SessionLogs
    ) -> None:
        log = logs.create("s-1")

        assert (log.head, content_of(logs, "s-1")) == (0, [])
        assert logs.inspect("s-1").head_seq == 0
        assert logs.list() == []
        with pytest.raises(SessionMissingError):
            other.load("s-1")
        log.close()
        with pytest.raises(SessionMissingError):
            logs.load("s-1")

    def test_an_acknowledged_event_is_there_for_everybody(
        self, logs: SessionLogs, other: SessionLogs
    ) -> None:
        data = {"role": "user", "content": ["what is this?", REFERENCE], "n": None}

        event = logs.create("s-1", meta={"title": "T"}).append("message", data)

        assert (event.seq, event.type, event.data, event.batch) == (1, "message", data, None)
        assert list(other.events("s-1")) == [event]
        assert other.inspect("s-1").header.meta == {"title": "T"}

    def test_events_are_numbered_from_1_without_gaps(self, logs: SessionLogs) -> None:
        log = filled(logs, "s-1", 1, 2)
        log = logs.load("s-1")
        log.append_many([("a", 3), ("b", 4)])
        log.append("c", 5)

        events = list(logs.events("s-1"))

        assert [(event.seq, event.data, event.batch) for event in events] == [
            (1, 1, None),
            (2, 2, None),
            (3, 3, 3),
            (4, 4, 3),
            (5, 5, None),
        ]
        assert [event.line for event in events] == [2, 3, 4, 5, 6]
        assert log.head == 5

    def test_an_empty_batch_writes_nothing(self, logs: SessionLogs) -> None:
        log = logs.create("s-1")

        assert log.append_many([]) == []
        assert logs.list() == []

    def test_what_the_caller_does_to_its_data_later_changes_nothing(
        self, logs: SessionLogs
    ) -> None:
        data: dict[str, Any] = {"list": [1]}
        event = logs.create("s-1").append("message", data)
        data["list"].append(2)

        assert event.data == {"list": [1]}
        assert content_of(logs, "s-1") == [{"list": [1]}]

    def test_an_id_is_taken_by_create_load_and_fork(
        self, logs: SessionLogs, other: SessionLogs
    ) -> None:
        filled(logs, "s-1", 1)
        logs.create("s-2")
        logs.fork("s-1", id="s-3")

        for taken in ("s-1", "s-2", "s-3"):
            with pytest.raises(SessionExistsError):
                logs.create(taken)
            with pytest.raises(SessionExistsError):
                logs.fork("s-1", id=taken)
        for stored in ("s-1", "s-3"):
            with pytest.raises(SessionExistsError):
                other.create(stored)

    def test_of_two_that_created_one_id_the_first_to_append_has_it(
        self, logs: SessionLogs, other: SessionLogs
    ) -> None:
        first, second = logs.create("s-1"), other.create("s-1")
        first.append("message", "first")

        with pytest.raises(SessionBusyError):
            second.append("message", "second")
        first.close()
        with pytest.raises(SessionExistsError):
            second.append("message", "second")
        assert content_of(logs, "s-1") == ["first"]

    @pytest.mark.parametrize("session_id", STRANGE_IDS, ids=range(len(STRANGE_IDS)))
    def test_an_id_is_text_and_nothing_more(self, logs: SessionLogs, session_id: str) -> None:
        filled(logs, session_id, session_id)
        filled(logs, "neighbour", 1)

        assert content_of(logs, session_id) == [session_id]
        assert logs.load(session_id).header.id == session_id
        assert {summary.id for summary in logs.list()} == {session_id, "neighbour"}
        logs.delete(session_id)
        assert [summary.id for summary in logs.list()] == ["neighbour"]

    def test_ids_that_look_alike_are_different_sessions(self, logs: SessionLogs) -> None:
        for session_id in STRANGE_IDS:
            filled(logs, session_id, session_id)

        assert {summary.id for summary in logs.list()} == set(STRANGE_IDS)
        assert all(content_of(logs, each) == [each] for each in STRANGE_IDS)

    # -- what is refused leaves no trace -----------------------------------------------------

    @pytest.mark.parametrize(
        ("data", "error"),
        [
            ({"a": [1, float("nan")]}, InvalidEventError),
            ({"a": [DANGLING]}, DanglingReferenceError),
            ({"a": "x" * (64 << 10)}, EventTooLargeError),
        ],
        ids=["invalid", "dangling", "too-large"],
    )
    def test_a_refused_event_changes_nothing(
        self, place: Place, logs: SessionLogs, data: object, error: type[Exception]
    ) -> None:
        filled(logs, "s-1", 1)
        before = place.read("s-1")
        log = logs.load("s-1")

        with pytest.raises(error):
            log.append("message", data)
        with pytest.raises(error):
            log.append_many([("message", "fine"), ("message", data)])
        assert place.read("s-1") == before
        assert log.append("message", 2).seq == 2

    def test_a_refused_first_event_leaves_the_session_as_created(self, logs: SessionLogs) -> None:
        log = logs.create("s-1")

        with pytest.raises(DanglingReferenceError):
            log.append("message", DANGLING)
        assert logs.list() == []
        assert log.append("message", REFERENCE).seq == 1

    def test_after_is_where_the_head_must_be(self, place: Place, logs: SessionLogs) -> None:
        log = logs.create("s-1")
        log.append("message", 1, after=0)
        before = place.read("s-1")

        with pytest.raises(SequenceConflictError) as conflict:
            log.append("message", 1, after=0)
        assert (conflict.value.expected_seq, conflict.value.head_seq) == (0, 1)
        assert place.read("s-1") == before
        assert log.append("message", 2, after=1).seq == 2

    # -- read --------------------------------------------------------------------------------

    def test_reading_after_a_seq_gives_what_follows(self, logs: SessionLogs) -> None:
        filled(logs, "s-1", *range(1, 6))

        assert content_of(logs, "s-1", after=3) == [4, 5]
        assert content_of(logs, "s-1", after=9) == []

    def test_a_missing_session_is_missing_for_every_call(self, logs: SessionLogs) -> None:
        for call in (logs.load, logs.inspect, logs.verify, logs.delete, logs.repair):
            with pytest.raises(SessionMissingError):
                call("nobody")
        with pytest.raises(SessionMissingError):
            list(logs.events("nobody"))
        with pytest.raises(SessionMissingError):
            logs.fork("nobody", id="s-2")

    def test_nothing_that_reads_changes_a_byte(self, place: Place, logs: SessionLogs) -> None:
        log = logs.create("s-1")
        log.append_many([("turn/start", 1), ("message", 2)])
        log.close()
        place.write("s-1", content := place.read("s-1") + b'{"seq":3,"ti')

        view = logs.inspect("s-1")
        logs.verify("s-1")
        logs.list()

        assert content_of(logs, "s-1") == [1, 2]
        assert place.read("s-1") == content
        assert view.tail is not None
        assert (view.tail.offset_bytes, view.tail.size_bytes) == (len(content) - 12, 12)
        assert [event.type for event in view.closers] == ["turn/end"]

    def test_a_megabyte_event_and_many_small_ones(self, place: Place) -> None:
        logs = SessionLogs(place.medium(), confirm)
        text = "\u2028\x85\r\n\x00" + "x" * (1 << 20)
        log = logs.create("s-1")
        log.append("message", text)
        log.append_many([("message", number) for number in range(20_000)])
        log.close()

        log = logs.load("s-1")

        assert log.head == 20_001
        assert next(iter(logs.events("s-1"))).data == text
        assert content_of(logs, "s-1", after=20_000) == [19_999]
        logs.close()

    # -- delete ------------------------------------------------------------------------------

    def test_a_deleted_session_is_gone_and_its_id_is_free(
        self, logs: SessionLogs, other: SessionLogs
    ) -> None:
        for number in itertools.count(1):
            logs.create("s-1").append("message", number)
            logs.delete("s-1")
            with pytest.raises(SessionMissingError):
                logs.inspect("s-1")
            assert other.list() == []
            if number == 3:
                break
        other.create("s-1").append("message", "other's")
        assert content_of(logs, "s-1") == ["other's"]

    def test_deleting_what_was_only_created_frees_the_id(self, logs: SessionLogs) -> None:
        logs.create("s-1")
        logs.delete("s-1")

        logs.create("s-1").append("message", 1)

    def test_exactly_the_sessions_with_a_log_are_named(self, place: Place) -> None:
        medium = place.medium()
        logs = SessionLogs(medium, confirm)
        for session_id in ("b", "a", "c/d"):
            filled(logs, session_id, 1)
        logs.create("pending")

        assert list(medium.names()) == [SessionName.of(each) for each in ("a", "b", "c/d")]
        assert list(medium.strays()) == []
        logs.close()
