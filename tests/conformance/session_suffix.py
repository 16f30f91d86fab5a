"""What every session medium must do about reading a log's end without its beginning."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Self

import pytest

from attachstore.digest import checksum
from attachstore.errors import LogDamagedError
from attachstore.sessions import SessionLogs, SessionMedium
from attachstore.sessions.medium import LogReader
from attachstore.sessions.names import SessionName
from tests.conformance.session_medium import Place, confirm, content_of, filled

HALF = b'{"seq":4,"time":"2026'


class CountedReader:
    """Counts what is read of a log."""

    def __init__(self, reader: LogReader, counts: list[int]) -> None:
        self._reader = reader
        self._counts = counts

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def read(self, offset_bytes: int, size_bytes: int) -> bytes:
        content = self._reader.read(offset_bytes, size_bytes)
        self._counts.append(len(content))
        return content


def counted(medium: SessionMedium, counts: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    opener = medium.open

    def open_counted(name: SessionName) -> CountedReader:
        return CountedReader(opener(name), counts)

    monkeypatch.setattr(medium, "open", open_counted)


class SessionSuffixConformance:
    """Give a `place` fixture to run it."""

    @pytest.fixture
    def medium(self, place: Place) -> SessionMedium:
        return place.medium()

    @pytest.fixture
    def logs(self, medium: SessionMedium) -> Iterator[SessionLogs]:
        logs = SessionLogs(medium, confirm)
        yield logs
        logs.close()

    @pytest.mark.parametrize("tail", [b"", HALF, b"\0" * 70_000], ids=["whole", "half", "zeros"])
    def test_a_suffix_is_the_end_of_the_whole(
        self, place: Place, logs: SessionLogs, tail: bytes
    ) -> None:
        """Line, offset and chain included, whatever the lengths of the lines are."""
        sizes = random.Random(4)
        lengths = [sizes.choice([0, 1, 100, 3000, 70_000]) for _ in range(150)]
        log = logs.create("s-1", meta={"title": "T" * 5000})
        log.append_many([("message", "x" * length) for length in lengths])
        log.close()
        place.write("s-1", place.read("s-1") + tail)
        whole = list(logs.events("s-1"))

        for after in range(len(whole) + 2):
            assert list(logs.events("s-1", after=after)) == whole[after:]

    def test_a_suffix_costs_what_the_suffix_costs(
        self, medium: SessionMedium, logs: SessionLogs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = logs.create("s-1")
        log.append_many([("message", [number, "x" * 400]) for number in range(20_000)])
        log.close()
        counts: list[int] = []
        counted(medium, counts, monkeypatch)

        assert [number for number, _ in content_of(logs, "s-1", after=19_990)] == [
            *range(19_990, 20_000)
        ]
        assert content_of(logs, "s-1", after=20_000) == []
        assert sum(counts) < 400_000, "of ten million bytes"
        assert len(counts) < 100

    def test_damage_before_a_suffix_is_not_looked_for(
        self, place: Place, logs: SessionLogs
    ) -> None:
        filled(logs, "s-1", *range(1, 8))
        place.write("s-1", place.read("s-1").replace(b'"data":3', b'"data":9'))

        assert content_of(logs, "s-1", after=4) == [5, 6, 7]
        assert content_of(logs, "s-1", after=3) == [4, 5, 6, 7], "3 itself is not handed out"
        with pytest.raises(LogDamagedError):
            content_of(logs, "s-1", after=2)
        with pytest.raises(LogDamagedError):
            logs.verify("s-1")

    def test_damage_in_a_suffix_is_damage(self, place: Place, logs: SessionLogs) -> None:
        filled(logs, "s-1", *range(1, 8))
        whole = place.read("s-1")
        lines = whole.splitlines(keepends=True)
        place.write("s-1", whole.replace(b'"data":6', b'"data":9'))

        seen: list[object] = []
        with pytest.raises(LogDamagedError) as damage:  # noqa: PT012 - what came before counts
            for event in logs.events("s-1", after=3):
                seen.append(event.data)  # noqa: PERF401 - the error ends the loop
        assert seen == [4, 5]
        assert (damage.value.line, damage.value.head_seq) == (7, 5)
        assert damage.value.offset_bytes == len(b"".join(lines[:6]))
        assert content_of(logs, "s-1", after=3, damaged="stop") == [4, 5]
        resynced = [event.data for event in logs.events("s-1", after=3, damaged="resync")]
        assert resynced == [4, 5, 9, 7]

    def test_the_first_event_must_follow_its_predecessor(
        self, place: Place, logs: SessionLogs
    ) -> None:
        """Its predecessor's chain is all that a suffix has to begin with."""
        filled(logs, "s-1", 1, 2, 3, 4)
        filled(logs, "s-2", "a", "b", "c", "d")
        lines = place.read("s-1").splitlines(keepends=True)
        lines[2] = place.read("s-2").splitlines(keepends=True)[2]
        place.write("s-1", b"".join(lines))

        with pytest.raises(LogDamagedError, match="chain"):
            content_of(logs, "s-1", after=2)
        assert content_of(logs, "s-1", after=3) == [4]

    @pytest.mark.parametrize(
        "order",
        [[4, 3, 2, 1], [1, 3, 4], [1, 2, 4, 3], [1, 2, 2, 3, 4]],
        ids=["reversed", "lost", "swapped", "doubled"],
    )
    def test_lines_out_of_order_never_become_a_suffix(
        self, place: Place, logs: SessionLogs, order: list[int]
    ) -> None:
        """What comes out follows its predecessor, or is not said to be proven."""
        filled(logs, "s-1", 1, 2, 3, 4)
        lines = place.read("s-1").splitlines(keepends=True)
        place.write("s-1", b"".join(lines[number] for number in [0, *order]))

        for after in range(1, 6):
            content = content_of(logs, "s-1", after=after, damaged="stop")
            assert content == [*range(after + 1, after + 1 + len(content))]

    def test_lines_of_another_writer_are_found_too(self, place: Place, logs: SessionLogs) -> None:
        """Blanks between the fields: what is not found at a glance is read from the start."""
        filled(logs, "s-1", *range(1, 6))
        header, *lines = place.read("s-1").splitlines(keepends=True)
        chain = bytes(16)
        for number, line in enumerate(lines):
            body = line.partition(b',"chain"')[0]
            body = body.replace(b'{"seq":', b'{ "seq" : ') if number % 2 else body
            chain = checksum(chain, body)
            lines[number] = b'%b,"chain":"%b"}\n' % (body, chain.hex().encode())
        place.write("s-1", b"".join([header, *lines]))

        for after in range(6):
            assert content_of(logs, "s-1", after=after) == [*range(after + 1, 6)]

    def test_a_suffix_of_a_live_session_ends_where_it_was_acknowledged(
        self, place: Place, logs: SessionLogs
    ) -> None:
        log = logs.create("s-1")
        log.append_many([("message", number) for number in range(1, 4)])
        place.write("s-1", place.read("s-1") + HALF)

        assert content_of(logs, "s-1", after=2) == [3]
        assert content_of(logs, "s-1", after=3) == []
        assert log.head == 3

    def test_a_suffix_of_a_fork_begins_in_its_parents_lines(self, logs: SessionLogs) -> None:
        filled(logs, "s-1", *range(1, 10))
        logs.fork("s-1", at=7, id="s-2").append("message", "own")

        assert content_of(logs, "s-2", after=5) == [6, 7, "own"]
        assert content_of(logs, "s-2", after=7) == ["own"]

    def test_followers_get_every_event_once(self, place: Place, logs: SessionLogs) -> None:
        """Asking again and again for what is new, as a page that follows a session does."""
        other = SessionLogs(place.medium(), confirm)
        log = logs.create("s-1")
        followed: list[object] = []
        for number in range(30):
            log.append_many([("message", number)] * (1 + number % 3))
            followed += content_of(other, "s-1", after=len(followed))
        other.close()

        assert followed == content_of(logs, "s-1")

    def test_a_big_event_in_the_middle_is_stepped_over(
        self, medium: SessionMedium, logs: SessionLogs
    ) -> None:
        log = logs.create("s-1")
        log.append_many([("message", "x" * (3 << 20)), ("message", 2)])
        log.append_many([("message", number) for number in range(3, 200)])
        log.close()

        for after in (1, 2, 3, 100, 198):
            assert content_of(logs, "s-1", after=after) == list(range(after + 1, 200))
