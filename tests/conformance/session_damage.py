"""What every session medium must do about turns, tails, damage, forks and listings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from attachstore.errors import LogDamagedError, SequenceConflictError
from attachstore.sessions import SessionLogs
from tests.conformance.session_medium import Place, confirm, content_of, filled

HALF = b'{"seq":4,"time":"2026'


class SessionDamageConformance:
    """Give a `place` fixture to run it."""

    @pytest.fixture
    def logs(self, place: Place) -> Iterator[SessionLogs]:
        logs = SessionLogs(place.medium(), confirm)
        yield logs
        logs.close()

    # -- turns -------------------------------------------------------------------------------

    def test_a_load_closes_an_interrupted_turn_the_same_way_every_time(
        self, place: Place, logs: SessionLogs
    ) -> None:
        log = logs.create("s-1")
        log.append("turn/start", 1)
        last = log.append("message", 2)
        log.close()
        before = place.read("s-1")
        foreseen = logs.inspect("s-1").closers

        assert logs.load("s-1").head == 3
        closer = list(logs.events("s-1"))[-1]
        assert (closer.type, closer.data) == ("turn/end", {"reason": "interrupted"})
        assert closer.time == last.time
        assert foreseen == (closer,)
        after = place.read("s-1")
        logs.close()

        place.write("s-1", before)
        again = SessionLogs(place.medium(), confirm)
        again.load("s-1")
        assert place.read("s-1") == after
        again.close()

    def test_a_closed_turn_and_no_turn_stay_as_they_are(self, logs: SessionLogs) -> None:
        for session_id, types in {"a": ["turn/start", "turn/end", "x"], "b": ["x"]}.items():
            log = logs.create(session_id)
            log.append_many([(each, None) for each in types])
            log.close()

            assert logs.inspect(session_id).closers == ()
            assert logs.load(session_id).head == len(types)

    def test_a_turn_stays_open_if_asked(self, logs: SessionLogs) -> None:
        log = logs.create("s-1")
        log.append("turn/start", 1)
        log.close()

        assert logs.load("s-1", close_turn=False).head == 1

    # -- uncommitted tails -------------------------------------------------------------------

    @pytest.mark.parametrize(
        "tail",
        [HALF, b"\0" * 5000, b"\0" * 5000 + HALF, b"{", b"\xff\xfe", HALF * 1000],
        ids=["half", "zeros", "zeros-and-half", "one-byte", "garbage", "long"],
    )
    def test_a_tail_is_passed_over_then_moved_aside(
        self, place: Place, logs: SessionLogs, tail: bytes
    ) -> None:
        filled(logs, "s-1", 1, 2, 3)
        whole = place.read("s-1")
        place.write("s-1", whole + tail)

        assert content_of(logs, "s-1") == [1, 2, 3]
        assert place.read("s-1") == whole + tail

        log = logs.load("s-1")
        assert place.read("s-1") == whole
        assert place.torn("s-1") == [tail]
        assert log.append("message", 99).seq == 4
        assert content_of(logs, "s-1") == [1, 2, 3, 99]

    def test_a_log_cut_at_any_byte_of_its_last_records_is_its_longest_prefix(
        self, place: Place, logs: SessionLogs
    ) -> None:
        """Whole lines stay, the rest is a tail; nothing is ever glued to the next record."""
        filled(logs, "s-1", {"text": "\u00e9"}, 2, 3)
        whole = place.read("s-1")
        ends = [position + 1 for position, byte in enumerate(whole) if byte == ord("\n")]

        for cut in range(ends[1], len(whole)):
            place.write("s-1", whole[:cut])
            log = logs.load("s-1")
            kept = sum(end <= cut for end in ends) - 1
            assert log.head == kept
            assert place.read("s-1") == whole[: ends[kept]]
            if cut % 5 == 0 or cut in ends:  # each costs several syncs
                log.append("message", "next")
                assert logs.verify("s-1").head_seq == kept + 1
            log.close()

    def test_a_whole_record_without_line_feed_was_never_acknowledged(
        self, place: Place, logs: SessionLogs
    ) -> None:
        filled(logs, "s-1", 1, 2)
        place.write("s-1", place.read("s-1")[:-1])

        assert content_of(logs, "s-1") == [1]
        assert logs.load("s-1").head == 1
        assert len(place.torn("s-1")) == 1

    # -- damage ------------------------------------------------------------------------------

    def test_every_changed_byte_of_an_event_is_noticed(
        self, place: Place, logs: SessionLogs
    ) -> None:
        """In the middle nothing is a tail: the line, its offset and a reason are told."""
        filled(logs, "s-1", 1, {"width": 33}, 3)
        whole = place.read("s-1")
        lines = whole.splitlines(keepends=True)
        start = len(lines[0]) + len(lines[1])

        for position in range(start, start + len(lines[2])):
            changed = bytearray(whole)
            changed[position] ^= 1
            place.write("s-1", bytes(changed))
            seen: list[object] = []
            with pytest.raises(LogDamagedError) as damage:  # noqa: PT012 - what came before counts
                for event in logs.events("s-1"):
                    seen.append(event.data)  # noqa: PERF401 - the error ends the loop
            assert seen == [1]
            assert (damage.value.line, damage.value.offset_bytes) == (3, start)
            assert damage.value.head_seq == 1
            assert damage.value.reason
            with pytest.raises(LogDamagedError):
                logs.load("s-1")
            assert place.read("s-1") == bytes(changed)

    @pytest.mark.parametrize(
        ("order", "line"),
        [
            ([1, 3, 2, 4], 3),
            ([1, 3, 4], 3),
            ([1, 2, 2, 3, 4], 4),
            ([2, 3, 4], 2),
            ([1, 1], 3),
        ],
        ids=["swapped", "lost", "doubled", "first-lost", "doubled-last"],
    )
    def test_lines_out_of_order_are_damage(
        self, place: Place, logs: SessionLogs, order: list[int], line: int
    ) -> None:
        filled(logs, "s-1", 1, 2, 3, 4)
        lines = place.read("s-1").splitlines(keepends=True)
        place.write("s-1", b"".join(lines[number] for number in [0, *order]))

        with pytest.raises(LogDamagedError) as damage:
            logs.verify("s-1")
        assert damage.value.line == line

    def test_a_record_of_another_session_is_damage(self, place: Place, logs: SessionLogs) -> None:
        filled(logs, "s-1", 1, 2, 3)
        filled(logs, "s-2", "a", "b", "c")
        lines = place.read("s-1").splitlines(keepends=True)
        lines[2] = place.read("s-2").splitlines(keepends=True)[2]
        place.write("s-1", b"".join(lines))

        with pytest.raises(LogDamagedError, match="chain"):
            logs.verify("s-1")
        marked = [(event.data, event.verified) for event in logs.events("s-1", damaged="resync")]
        assert marked == [(1, True), ("b", False), (3, False)]

    def test_readers_choose_what_damage_means(self, place: Place, logs: SessionLogs) -> None:
        filled(logs, "s-1", 1, 2, 3, 4)
        lines = place.read("s-1").splitlines(keepends=True)
        place.write("s-1", b"".join([*lines[:2], b"garbage\n", *lines[3:]]))

        assert content_of(logs, "s-1", damaged="stop") == [1]
        resynced = list(logs.events("s-1", damaged="resync"))
        assert [(event.data, event.verified) for event in resynced] == [
            (1, True),
            (3, False),
            (4, True),
        ]
        assert [event.line for event in resynced] == [2, 4, 5]
        with pytest.raises(ValueError, match="damaged"):
            logs.events("s-1", damaged="ignore")  # type: ignore[arg-type] # a wrong call on purpose

    def test_a_broken_header_is_listed_and_never_guessed(
        self, place: Place, logs: SessionLogs
    ) -> None:
        filled(logs, "s-1", 1, 2)
        whole = place.read("s-1")
        for broken in (
            b"",
            whole[:30],
            whole[1:],
            b"\n" + whole,
            whole.replace(b'"cwd"', b'"cwD"'),
        ):
            place.write("s-1", broken)

            (summary,) = logs.list()
            assert isinstance(summary.problem, LogDamagedError)
            for call in (logs.inspect, logs.verify, logs.load, logs.repair):
                with pytest.raises(LogDamagedError) as damage:
                    call("s-1")
                assert (damage.value.line, damage.value.offset_bytes) == (1, 0)
            assert place.read("s-1") == broken
        assert content_of(logs, "s-1", damaged="stop") == []
        assert content_of(logs, "s-1", damaged="resync") == [1, 2]
        logs.delete("s-1")
        assert logs.list() == []

    def test_a_log_under_another_sessions_name_is_refused(
        self, place: Place, logs: SessionLogs
    ) -> None:
        filled(logs, "s-1", 1)
        filled(logs, "s-2", 2)
        place.write("s-1", strange := place.read("s-2") + HALF)

        for call in (logs.load, logs.repair, logs.verify):
            with pytest.raises(LogDamagedError, match="s-2"):
                call("s-1")
        assert place.read("s-1") == strange
        assert place.torn("s-1") == []

    def test_only_an_explicit_repair_cuts_damage_and_it_keeps_the_bytes(
        self, place: Place, logs: SessionLogs
    ) -> None:
        filled(logs, "s-1", 1, 2, 3)
        lines = place.read("s-1").splitlines(keepends=True)
        place.write("s-1", b"".join([*lines[:2], b"garbage\n", lines[3], HALF]))

        report = logs.repair("s-1")

        cut = b"garbage\n" + lines[3] + HALF
        assert (report.head_seq, report.cut_bytes) == (1, len(cut))
        assert report.offset_bytes == len(lines[0] + lines[1])
        assert report.kept is not None
        assert place.torn("s-1") == [cut]
        assert logs.load("s-1").append("message", "next").seq == 2
        assert logs.verify("s-1").damage is None

    def test_repairing_a_sound_log_changes_nothing(self, place: Place, logs: SessionLogs) -> None:
        filled(logs, "s-1", 1)
        before = place.read("s-1")

        report = logs.repair("s-1")

        assert (report.kept, report.reason, report.cut_bytes) == (None, None, 0)
        assert place.read("s-1") == before

    # -- forks -------------------------------------------------------------------------------

    def test_a_fork_has_its_parents_lines_byte_for_byte(
        self, place: Place, logs: SessionLogs
    ) -> None:
        filled(logs, "s-1", *range(5))
        parent = place.read("s-1")
        chains = [event.chain for event in logs.events("s-1")]

        for at in range(6):
            child = logs.fork("s-1", at=at, id=f"fork-{at}")
            assert child.head == at
            header, *lines = place.read(f"fork-{at}").splitlines(keepends=True)
            assert lines == parent.splitlines(keepends=True)[1 : at + 1]
            origin = child.header.parent
            assert origin is not None
            assert (origin.id, origin.seq) == ("s-1", at)
            assert origin.chain == (chains[at - 1] if at else "0" * 32)
            assert b'"parent":{"id":"s-1"' in header
        assert place.read("s-1") == parent

    def test_forks_of_forks_are_independent(self, place: Place, logs: SessionLogs) -> None:
        filled(logs, "a", 1, 2)
        for parent, child in (("a", "b"), ("a", "c"), ("b", "d")):
            logs.fork(parent, id=child).append("message", child)
        before = place.read("a")
        logs.delete("b")

        assert content_of(logs, "a") == [1, 2]
        assert content_of(logs, "c") == [1, 2, "c"]
        assert content_of(logs, "d") == [1, 2, "b", "d"]
        assert place.read("a") == before

    def test_a_fork_carries_meta_unless_it_is_given_its_own(self, logs: SessionLogs) -> None:
        logs.create("s-1", meta={"title": "T"}).append("message", 1)

        assert logs.fork("s-1", id="s-2").header.title == "T"
        assert logs.fork("s-1", id="s-3", meta={"title": "U"}).header.title == "U"
        assert [summary.title for summary in logs.list()] == ["T", "T", "U"]

    def test_a_fork_of_a_live_session_stops_at_what_was_acknowledged(
        self, place: Place, logs: SessionLogs
    ) -> None:
        log = logs.create("s-1")
        log.append("message", 1)
        whole = place.read("s-1")
        other = SessionLogs(place.medium(), confirm)
        place.write("s-1", whole + HALF)  # an append in flight

        assert logs.fork("s-1", id="here").head == 1
        assert other.fork("s-1", id="elsewhere").head == 1
        assert place.read("s-1") == whole + HALF
        other.close()

    def test_a_fork_of_what_was_only_created_is_empty(self, logs: SessionLogs) -> None:
        logs.create("s-1", meta={"title": "T"})

        child = logs.fork("s-1", id="s-2")

        assert (child.head, child.header.title) == (0, "T")
        assert child.append("message", 1).seq == 1

    def test_a_fork_point_beyond_the_head_is_refused(self, logs: SessionLogs) -> None:
        filled(logs, "s-1", 1)

        with pytest.raises(SequenceConflictError):
            logs.fork("s-1", at=2, id="s-2")
        with pytest.raises(ValueError, match="at must be"):
            logs.fork("s-1", at=-1, id="s-2")
        assert [summary.id for summary in logs.list()] == ["s-1"]
        logs.create("s-2")

    def test_a_damaged_parent_can_be_forked_before_the_damage(
        self, place: Place, logs: SessionLogs
    ) -> None:
        filled(logs, "s-1", 1, 2, 3)
        place.write("s-1", place.read("s-1").replace(b'"data":2', b'"data":7'))

        assert logs.fork("s-1", at=1, id="s-2").head == 1
        for at in (2, 3, None):
            with pytest.raises(LogDamagedError):
                logs.fork("s-1", at=at, id="s-3")

    # -- listing -----------------------------------------------------------------------------

    def test_a_listing_says_what_header_and_last_line_say(
        self, place: Place, logs: SessionLogs
    ) -> None:
        log = logs.create("s-1", meta={"title": "T", "model": "m"})
        last = log.append_many([("message", "x" * 9000), ("message", "y" * 100_000)])[-1]
        logs.fork("s-1", at=1, id="s-2")
        place.write("s-1", place.read("s-1") + b"\0" * 9000)

        first, second = logs.list()

        assert (first.id, first.title, first.meta["model"]) == ("s-1", "T", "m")
        assert (first.head_seq, first.last_time) == (2, last.time)
        assert first.size_bytes == len(place.read("s-1"))
        assert (first.parent, first.problem) == (None, None)
        assert (second.head_seq, second.parent is not None) == (1, True)

    def test_a_listing_names_the_problem_of_a_session_whose_end_is_damaged(
        self, place: Place, logs: SessionLogs
    ) -> None:
        filled(logs, "s-1", 1, 2)
        place.write("s-1", place.read("s-1") + b"garbage\n")

        (summary,) = logs.list()

        assert isinstance(summary.problem, LogDamagedError)
        assert (summary.id, summary.head_seq, summary.problem.line) == ("s-1", 2, 4)
