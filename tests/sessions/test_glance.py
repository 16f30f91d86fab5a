"""A listing by glances says what opening each log would say, and reads no log for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from attachstore.digest import checksum
from attachstore.disk import BLOCK_BYTES
from attachstore.sessions import SessionLogs
from attachstore.sessions.event import SessionSummary
from attachstore.sessions.glance import LOOK_BYTES, Glance, glance_of
from attachstore.sessions.jsonl import JsonlMedium
from attachstore.sessions.listing import summaries, summarize
from attachstore.sessions.medium import GlancingMedium
from attachstore.sessions.names import SessionName
from tests.conformance.session_place import confirm, filled
from tests.faults import READS, RecordingDisk
from tests.sessions.places import JsonlPlace, SealedPlace, SqlitePlace

Glancing = JsonlPlace | SealedPlace | SqlitePlace


@pytest.fixture(params=[JsonlPlace, SealedPlace, SqlitePlace])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Glancing:
    return request.param(tmp_path)


def foreign_header(content: bytes) -> bytes:
    return content.replace(b'"id":"s-1"', b'"id":"s-2"', 1)


def newer_header(content: bytes) -> bytes:
    header, rest = content.split(b"\n", 1)
    body = header[:-44].replace(b'"v":1', b'"v":9')
    return b'%b,"check":"%b"}\n%b' % (body, checksum(body).hex().encode(), rest)


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda content: content,
    "a torn tail": lambda content: content + b'{"seq":4,',
    "a tail of zeros": lambda content: content + bytes(9000),
    "a short tail of zeros": lambda content: content + bytes(10),
    "garbage": lambda content: content + b"garbage\n",
    "a blank line": lambda content: content + b"\n",
    "a lost line feed": lambda content: content[:-1],
    "CR LF": lambda content: content.replace(b"\n", b"\r\n"),
    "only the header": lambda content: content.split(b"\n")[0] + b"\n",
    "half a header": lambda content: content[:30],
    "a broken header": lambda content: content.replace(b"check", b"chuck"),
    "a foreign header": foreign_header,
    "a newer header": newer_header,
    "no bytes": lambda _: b"",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("last", [3, "x" * 5000, "x" * 100_000], ids=["3", "5 KB", "100 KB"])
def test_a_glance_says_what_opening_the_log_says(
    place: Glancing, change: Callable[[bytes], bytes], last: object
) -> None:
    logs = SessionLogs(place.medium(), confirm)
    filled(logs, "s-1", 1, "y" * 3000, last)
    logs.create("s-3", meta={"title": "T", "more": "m" * 6000}).append("message", last)
    logs.close()
    place.write("s-1", change(place.read("s-1")))
    medium = place.medium()
    assert isinstance(medium, GlancingMedium)

    listed = list(summaries(medium))

    opened = [summarize(medium, name) for name in medium.names()]
    assert [told(each) for each in listed] == [told(each) for each in opened if each is not None]
    medium.close()


def told(summary: SessionSummary) -> tuple[object, ...]:
    """All of it; an error by what it says."""
    return (*(getattr(summary, name) for name in _FIELDS), str(summary.problem))


_FIELDS = [name for name in SessionSummary.__slots__ if name != "problem"]


def test_a_listing_reads_headers_and_last_lines_and_asks_for_nothing_twice(tmp_path: Path) -> None:
    """One open and two reads of a few KiB for each session, however long its log is."""
    logs = SessionLogs(JsonlPlace(tmp_path).medium(), confirm)
    for number in range(5):
        filled(logs, f"s-{number}", *["x" * BLOCK_BYTES] * 2, "last")
    disk = RecordingDisk(tmp_path, methods=READS | {"open_read"})

    listed = list(summaries(JsonlMedium(tmp_path, disk)))

    assert [summary.head_seq for summary in listed] == [3] * 5
    ways = [method for method, _ in disk.trace]
    assert ways.count("names") == 1
    assert ways[1:] == ["open_read", "status_open", "read_into", "read_into"] * 5


def test_a_listing_in_a_database_asks_for_many_sessions_at_once(tmp_path: Path) -> None:
    place = SqlitePlace(tmp_path)
    logs = SessionLogs(place.medium(), confirm)
    ids = [f"s-{number:03}" for number in range(405)]
    for session_id in ids:
        filled(logs, session_id, 1)

    assert [summary.id for summary in logs.list()] == ids
    logs.close()


def test_what_is_no_session_is_not_listed(tmp_path: Path) -> None:
    place = JsonlPlace(tmp_path)
    logs = SessionLogs(place.medium(), confirm)
    filled(logs, "s-1", 1)
    (tmp_path / "sessions" / "s-2").mkdir()
    (tmp_path / "sessions" / "s-3").write_bytes(b"a file")
    (tmp_path / "sessions" / "%zz").mkdir()

    assert [summary.id for summary in logs.list()] == ["s-1"]


def test_what_stands_in_the_place_of_a_log_is_listed_with_its_problem(tmp_path: Path) -> None:
    place = JsonlPlace(tmp_path)
    (tmp_path / "sessions" / "s-1" / "log.jsonl").mkdir(parents=True)

    (summary,) = SessionLogs(place.medium(), confirm).list()

    assert summary.id == "s-1"
    assert summary.problem is not None


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (b"head", b"head"),
        (b"head\nlast", b"head\nlast"),
        (b"head\nlast\n\0\0", b"head\nlast\n\0\0"),
        (b"h" * LOOK_BYTES, b"\nlast\n"),
        (b"head\n...", b"xxx\n"),
        (b"", b""),
    ],
)
def test_what_is_unusual_is_no_glance(first: bytes, last: bytes) -> None:
    assert glance_of(len(first), first, last) is None


def test_a_glance_shows_the_last_line_and_not_the_header_for_it() -> None:
    assert glance_of(5, b"head\n", b"head\n") == Glance(5, b"head", None)
    assert glance_of(9, b"head\nold\nlast\n", b"d\nlast\n") == Glance(9, b"head", b"last")
    assert SessionName.from_segment("s-1") == SessionName("s-1", "s-1")
