"""What every session medium must do in the long run: many events, many hands, every byte."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from attachstore.errors import (
    AttachstoreError,
    LogDamagedError,
    SequenceConflictError,
    SessionBusyError,
    SessionExistsError,
)
from attachstore.sessions import SessionLogs
from tests.conformance.session_place import Place, confirm, content_of, filled


class SessionContractConformance:
    """Give a `place` fixture to run it."""

    @pytest.fixture
    def logs(self, place: Place) -> Iterator[SessionLogs]:
        logs = SessionLogs(place.medium(), confirm)
        yield logs
        logs.close()

    # -- every byte --------------------------------------------------------------------------

    def test_a_changed_byte_in_the_last_three_records_is_never_an_event(
        self, place: Place, logs: SessionLogs
    ) -> None:
        """Also in the last one, where damage and an unfinished append are next to each other."""
        filled(logs, "s-1", 1, {"width": 33}, "three", [4])
        whole = place.read("s-1")
        ends = [position + 1 for position, byte in enumerate(whole) if byte == ord("\n")]
        expected = content_of(logs, "s-1")

        for position in range(ends[1], len(whole)):
            changed = bytearray(whole)
            changed[position] ^= 0x11
            place.write("s-1", bytes(changed))
            sound = sum(end <= position for end in ends) - 1
            assert content_of(logs, "s-1", damaged="stop") == expected[:sound]
            view = logs.inspect("s-1")
            assert (view.tail is None) != (view.damage is None), "one of them, and told"
            assert view.head_seq == sound
            # Only a lost line feed at the very end looks like an append that never finished.
            assert (view.tail is not None) == (position == len(whole) - 1)

    def test_a_zeroed_sector_at_the_end_is_a_tail_and_elsewhere_it_is_damage(
        self, place: Place, logs: SessionLogs
    ) -> None:
        filled(logs, "s-1", *["x" * 600] * 6)
        whole = place.read("s-1")

        for start in range(512, len(whole) - 512, 512):
            holed = whole[:start] + b"\0" * 512 + whole[start + 512 :]
            place.write("s-1", holed)
            view = logs.inspect("s-1")
            assert (view.tail is None) != (view.damage is None)
            expected_tail = start + 512 > len(whole) - len(whole.splitlines()[-1])
            assert (view.tail is not None) == expected_tail

    def test_what_two_cuts_kept_is_kept_apart(self, place: Place, logs: SessionLogs) -> None:
        filled(logs, "s-1", 1)
        for torn in (b'{"first', b'{"second'):
            place.write("s-1", place.read("s-1") + torn)
            logs.load("s-1").close()

        assert sorted(place.torn("s-1")) == [b'{"first', b'{"second']
        assert content_of(logs, "s-1") == [1]

    # -- many events -------------------------------------------------------------------------

    def test_a_hundred_thousand_events(self, place: Place, logs: SessionLogs) -> None:
        log = logs.create("s-1", meta={"title": "T"})
        for start in range(0, 100_000, 25_000):
            log.append_many([("message", number) for number in range(start, start + 25_000)])
        log.close()

        assert logs.verify("s-1").head_seq == 100_000
        assert content_of(logs, "s-1", after=99_997) == [99_997, 99_998, 99_999]
        (summary,) = logs.list()
        assert (summary.head_seq, summary.title) == (100_000, "T")
        child = logs.fork("s-1", at=50_000, id="s-2")
        assert child.append("message", "own").seq == 50_001
        assert logs.load("s-1").append("message", "last").seq == 100_001

    def test_many_sessions_are_listed_in_order(self, logs: SessionLogs) -> None:
        names = [f"s-{number:03}" for number in range(60)]
        for name in reversed(names):
            filled(logs, name, name)

        assert [(each.id, each.head_seq) for each in logs.list()] == [(name, 1) for name in names]

    # -- chains ------------------------------------------------------------------------------

    def test_chains_are_equal_exactly_where_histories_are(self, logs: SessionLogs) -> None:
        filled(logs, "s-1", 1, 2, 3)
        log = logs.load("s-1")
        child = logs.fork("s-1", at=2, id="s-2")
        assert child.head_chain != log.head_chain
        child.append("message", "other")
        chains = {name: [event.chain for event in logs.events(name)] for name in ("s-1", "s-2")}

        assert chains["s-1"][:2] == chains["s-2"][:2]
        assert chains["s-1"][2] != chains["s-2"][2]
        assert logs.fork("s-1", id="s-3").head_chain == log.head_chain

    def test_a_damaged_or_deleted_parent_changes_nothing_for_its_forks(
        self, place: Place, logs: SessionLogs
    ) -> None:
        filled(logs, "parent", 1, 2)
        logs.fork("parent", id="child").append("message", "own")
        before = place.read("child")
        place.write("parent", place.read("parent").replace(b'"data":1', b'"data":7'))
        assert logs.verify("child").head_seq == 3
        logs.delete("parent")

        assert place.read("child") == before
        assert content_of(logs, "child") == [1, 2, "own"]
        assert logs.fork("child", at=1, id="grandchild").head == 1

    # -- many hands --------------------------------------------------------------------------

    def test_of_many_openers_one_wins(self, place: Place, logs: SessionLogs) -> None:
        filled(logs, "s-1", 1)
        others = [SessionLogs(place.medium(), confirm) for _ in range(8)]
        start = threading.Barrier(len(others))

        def load(other: SessionLogs) -> bool:
            start.wait()
            try:
                other.load("s-1")
            except SessionBusyError:
                return False
            return True

        with ThreadPoolExecutor(len(others)) as pool:
            assert sum(pool.map(load, others)) == 1
        for other in others:
            other.close()
        assert logs.load("s-1").append("message", 2).seq == 2

    def test_of_many_makers_one_wins(self, place: Place, logs: SessionLogs) -> None:
        others = [SessionLogs(place.medium(), confirm) for _ in range(8)]
        start = threading.Barrier(len(others))

        def make(number: int) -> int | None:
            log = others[number].create("s-1")
            start.wait()
            try:
                log.append("message", number)
            except (SessionBusyError, SessionExistsError):
                return None
            return number

        with ThreadPoolExecutor(len(others)) as pool:
            winners = [each for each in pool.map(make, range(len(others))) if each is not None]
        assert content_of(logs, "s-1") == winners
        assert len(winners) == 1
        for other in others:
            other.close()

    def test_appends_of_many_threads_to_one_session_go_one_after_another(
        self, logs: SessionLogs
    ) -> None:
        log = logs.create("s-1")

        def append(thread: int) -> list[int]:
            return [log.append("message", [thread, number]).seq for number in range(10)]

        with ThreadPoolExecutor(4) as pool:
            seqs = list(pool.map(append, range(4)))

        assert sorted(seq for each in seqs for seq in each) == list(range(1, 41))
        assert all(each == sorted(each) for each in seqs)
        content = content_of(logs, "s-1")
        for thread, own in enumerate(seqs):
            assert [content[seq - 1] for seq in own] == [[thread, n] for n in range(10)]

    def test_of_many_that_expect_the_same_head_one_wins(self, logs: SessionLogs) -> None:
        log = logs.create("s-1")
        log.append("message", 0)

        def append(number: int) -> bool:
            try:
                log.append_many([("message", number)] * 2, after=1)
            except SequenceConflictError:
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(append, range(6))) == 1
        assert log.head == 3

    def test_forks_and_readers_beside_a_writer_see_prefixes(
        self, place: Place, logs: SessionLogs
    ) -> None:
        log = logs.create("s-1")
        log.append("message", 0)
        other = SessionLogs(place.medium(), confirm)
        done = threading.Event()

        def write() -> None:
            try:
                for number in range(1, 61, 3):
                    log.append_many([("message", number + more) for more in range(3)])
            finally:
                done.set()

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write)
            rounds = 0
            while not done.is_set() or rounds == 0:
                content = content_of(other, "s-1")
                assert content == list(range(len(content)))
                for reader in (logs, other):
                    fork = reader.fork("s-1", id=f"fork-{rounds}-{reader is logs}")
                    assert content_of(reader, fork.id) == list(range(fork.head))
                    # In the writer's process a fork ends at what is acknowledged; a reader may
                    # see more.
                    assert fork.head >= len(content) or reader is logs
                rounds += 1
            writing.result()
        other.close()

    def test_a_session_that_is_deleted_under_a_reader_ends_in_an_error_or_whole(
        self, place: Place, logs: SessionLogs
    ) -> None:
        """Never in a part that looks like the whole."""
        log = logs.create("s-1")
        log.append_many([("message", "x" * 1000)] * 3000)
        log.close()
        other = SessionLogs(place.medium(), confirm)
        events = other.events("s-1")
        next(events)
        logs.delete("s-1")

        try:
            assert sum(1 for _ in events) == 2999
        except LogDamagedError:
            pytest.fail("a deletion is no damage")
        except AttachstoreError:
            pass
        other.close()
