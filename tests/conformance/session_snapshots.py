"""What every session medium must do about snapshots: who has a log, where it ends, its revision."""

from __future__ import annotations

import pytest

from attachstore.errors import LogDamagedError
from attachstore.sessions import SessionLogs
from attachstore.sessions.snapshot import Revision
from tests.conformance.session_place import STRANGE_IDS, Place, filled

HALF_LINE = b'{"seq":2,"time":"2026'


def revision_of(logs: SessionLogs, session_id: str) -> Revision:
    (found,) = [each.revision for each in logs.list_snapshots() if each.id == session_id]
    return found


class SessionSnapshotConformance:
    """Part of `SessionMediumConformance`."""

    def test_snapshots_show_what_is_stored_and_nothing_else(
        self, logs: SessionLogs, other: SessionLogs
    ) -> None:
        filled(logs, "s-2", 1, 2)
        logs.create("s-1")

        (snapshot,) = other.list_snapshots()

        view = logs.inspect("s-2")
        assert snapshot.id == "s-2"
        assert (snapshot.head_seq, snapshot.head_chain) == (2, view.head_chain)
        assert snapshot.revision == Revision(cuts=0, events=2)

    def test_ids_of_every_kind_have_their_own(self, logs: SessionLogs) -> None:
        for session_id in STRANGE_IDS:
            filled(logs, session_id, session_id)

        assert {each.id for each in logs.list_snapshots()} == set(STRANGE_IDS)
        assert len({each.head_chain for each in logs.list_snapshots()}) == len(STRANGE_IDS)

    def test_every_append_makes_the_revision_larger_and_looking_does_not(
        self, logs: SessionLogs, other: SessionLogs
    ) -> None:
        log = logs.create("s-1")
        seen: list[Revision] = []
        for number in range(3):
            log.append_many([("message", number)] * (number + 1))
            seen += [revision_of(other, "s-1"), revision_of(logs, "s-1")]
        log.close()
        logs.load("s-1").close()

        assert seen[::2] == seen[1::2]
        assert seen == sorted(seen)
        assert len(set(seen)) == 3
        assert revision_of(other, "s-1") == seen[-1]

    def test_a_repair_is_one_revision(self, place: Place, logs: SessionLogs) -> None:
        """The one of a load, with its closers, and the one that takes events away."""
        filled(logs, "s-1", 1)
        place.write("s-1", place.read("s-1") + HALF_LINE)
        logs.load("s-1").close()
        settled = revision_of(logs, "s-1")
        log = logs.load("s-1")
        log.append_many([("message", number) for number in range(2, 9)])
        log.close()
        longer = revision_of(logs, "s-1")
        lines = place.read("s-1").splitlines(keepends=True)
        place.write("s-1", b"".join([*lines[:4], b"not a record\n", *lines[5:]]))
        with pytest.raises(LogDamagedError):
            logs.load("s-1")

        assert logs.repair("s-1").head_seq == 3

        repaired = revision_of(logs, "s-1")
        assert (settled, longer) == (Revision(1, 1), Revision(1, 8))
        assert repaired == Revision(2, 3)
        assert settled < longer < repaired, "although the log is shorter than before"

    def test_a_suffix_that_is_being_read_is_detached(
        self, place: Place, logs: SessionLogs, other: SessionLogs
    ) -> None:
        """From whoever writes the session, resumes it, or gives it up meanwhile."""
        filled(logs, "s-1", *range(20))
        stored = place.read("s-1")
        readers = [logs.events("s-1", after=10), other.events("s-1", after=10)]
        assert [next(reader).data for reader in readers] == [10, 10]
        assert place.read("s-1") == stored, "reading changes nothing"
        log = logs.prepare("s-1").resume()
        log.append("message", "later")
        log.close()

        for reader in readers:
            assert [event.data for event in reader] == list(range(11, 20))

    def test_a_fork_begins_its_own(self, logs: SessionLogs) -> None:
        filled(logs, "s-1", 1, 2)
        logs.fork("s-1", id="s-2", at=1)

        assert revision_of(logs, "s-2") == Revision(0, 1)

    def test_a_session_with_a_problem_has_none(self, place: Place, logs: SessionLogs) -> None:
        filled(logs, "s-1", 1)
        filled(logs, "s-2", 1)
        place.write("s-1", b"#" + place.read("s-1")[1:])

        assert [each.id for each in logs.list_snapshots()] == ["s-2"]
