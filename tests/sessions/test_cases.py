"""Logs from public bug reports: the inputs of tests/cases/089 to 107, in our own record form.

Each input keeps its damage byte for byte; only what is a record in it becomes one of ours.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from attachstore.errors import LogDamagedError
from attachstore.sessions import SessionLogs
from tests.conformance.session_medium import confirm, content_of, filled
from tests.sessions.places import JsonlPlace

CASES = Path(__file__).parents[1] / "cases"
TIME = b"2026-01-02T03:04:05.000006Z"

_RECORD = re.compile(rb'\{"n":(\d+),"type":"note",([^{}\n]*)\}')
_STUB = re.compile(rb'\{"n":(\d+),"type":"note",')


@pytest.fixture
def place(tmp_path: Path) -> JsonlPlace:
    return JsonlPlace(tmp_path)


@pytest.fixture
def logs(place: JsonlPlace) -> SessionLogs:
    return SessionLogs(place.medium(), confirm)


def own_form(case: bytes) -> bytes:
    """The case's records as ours, chained in the order in which they stand."""
    chain = bytes(16)

    def record(match: re.Match[bytes]) -> bytes:
        nonlocal chain
        body = _begun(match) + match[2] + b"}"
        chain = blake3(chain + body).digest(16)
        return body + b',"chain":"' + chain.hex().encode() + b'"}'

    return _STUB.sub(_begun, _RECORD.sub(record, case))


def _begun(match: re.Match[bytes]) -> bytes:
    return b'{"seq":%b,"time":"%b","type":"note","data":{' % (match[1], TIME)


def put(place: JsonlPlace, logs: SessionLogs, case: str) -> bytes:
    """Make the case's log session s-1; its header is ours."""
    filled(logs, "s-1", "replaced")
    header = place.read("s-1").splitlines(keepends=True)[0]
    content = own_form((CASES / case).read_bytes())
    if "crlf" in case:
        header = header[:-1] + b"\r\n"
    place.write("s-1", header + content)
    return header


def texts(*numbers: int) -> list[Any]:
    return [{"text": f"record {number}"} for number in numbers]


@pytest.mark.parametrize(
    ("case", "kept"),
    [
        ("089-torn-tail-json/log.jsonl", 3),
        ("091-complete-record-without-newline/log.jsonl", 2),
        ("095-nul-tail/log.jsonl", 3),
    ],
)
def test_a_torn_end_is_told_once_moved_aside_and_never_glued_to(
    place: JsonlPlace, logs: SessionLogs, case: str, kept: int
) -> None:
    """089, 091, 095. The rule for 091: without its line feed a record was not acknowledged."""
    put(place, logs, case)
    size_bytes = len(place.read("s-1"))
    view = logs.inspect("s-1")
    assert view.tail is not None
    assert view.tail.offset_bytes + view.tail.size_bytes == size_bytes
    assert content_of(logs, "s-1") == texts(*range(1, kept + 1))

    log = logs.load("s-1")
    log.append("note", 99)
    log.close()

    assert content_of(logs, "s-1") == [*texts(*range(1, kept + 1)), 99]
    assert logs.inspect("s-1").tail is None
    assert [len(torn) for torn in place.torn("s-1")] == [view.tail.size_bytes]


@pytest.mark.parametrize(
    ("case", "line", "reason", "resynced"),
    [
        ("092-glued-records/log.jsonl", 3, "malformed", [1, 4]),
        ("094-nul-run-in-the-middle/log.jsonl", 3, "malformed|NUL", [1, 3]),
        ("099-invalid-utf8-in-the-middle/log.jsonl", 3, "does not end", [1, 3]),
        ("101-nan-and-infinity/log.jsonl", 3, "malformed", [1, 4]),
        ("102-huge-integer/log.jsonl", 3, "range", [1, 3]),
    ],
)
def test_damage_in_the_middle_is_told_with_its_line_and_nothing_after_it_is_lost(
    place: JsonlPlace,
    logs: SessionLogs,
    case: str,
    line: int,
    reason: str,
    resynced: list[int],
) -> None:
    """092, 094, 099, 101, 102. Lines are those of the file: the header is line 1."""
    header = put(place, logs, case)
    content = place.read("s-1")
    first_record = content[len(header) :].index(b"\n") + 1

    with pytest.raises(LogDamagedError, match=reason) as damage:
        logs.verify("s-1")

    assert (damage.value.line, damage.value.offset_bytes) == (line, len(header) + first_record)
    assert content_of(logs, "s-1", damaged="stop") == texts(1)
    assert content_of(logs, "s-1", damaged="resync") == texts(*resynced)
    with pytest.raises(LogDamagedError):
        logs.load("s-1")
    assert place.read("s-1") == content


def test_windows_line_ends_are_damage_that_resync_reads_through(
    place: JsonlPlace, logs: SessionLogs
) -> None:
    """097. Some program rewrote the whole log; the chain then proves that it changed no more."""
    put(place, logs, "097-crlf/log.jsonl")

    with pytest.raises(LogDamagedError, match="CR LF"):
        logs.verify("s-1")
    events = list(logs.events("s-1", damaged="resync"))
    assert [event.data for event in events] == texts(1, 2, 3)
    assert all(event.verified for event in events)

    place.write("s-1", place.read("s-1").replace(b"\r\n", b"\n"))
    logs.load("s-1").append("note", 99)
    assert content_of(logs, "s-1") == [*texts(1, 2, 3), 99]


def test_line_separators_in_text_cut_no_record(place: JsonlPlace, logs: SessionLogs) -> None:
    """098."""
    put(place, logs, "098-unicode-line-separators/log.jsonl")

    logs.load("s-1").append("note", 99)

    assert content_of(logs, "s-1")[1:] == [{"text": "a\u2028b\u2029c\u0085d"}, *texts(3), 99]


def test_a_doubled_record_is_told_and_marked(place: JsonlPlace, logs: SessionLogs) -> None:
    """104."""
    put(place, logs, "104-duplicate-records/log.jsonl")

    with pytest.raises(LogDamagedError, match="event 2 where 3 was expected") as damage:
        logs.verify("s-1")
    assert damage.value.line == 4


def test_a_record_of_another_session_is_told_and_marked(
    place: JsonlPlace, logs: SessionLogs
) -> None:
    """105. Records name no session: what makes one foreign is that the chain does not reach it."""
    put(place, logs, "105-records-of-another-session/log.jsonl")
    lines = place.read("s-1").splitlines(keepends=True)
    filled(logs, "s-2", "a", "b")
    lines[2] = place.read("s-2").splitlines(keepends=True)[2]
    place.write("s-1", b"".join(lines))

    with pytest.raises(LogDamagedError, match="chain") as damage:
        logs.verify("s-1")
    assert damage.value.line == 3
    resynced = [(event.seq, event.verified) for event in logs.events("s-1", damaged="resync")]
    assert resynced == [(1, True), (2, False), (3, False)]


def test_blank_lines_are_damage_that_resync_reads_through(
    place: JsonlPlace, logs: SessionLogs
) -> None:
    """107. No crash leaves a blank line, so somebody edited the log."""
    put(place, logs, "107-empty-and-blank/blank.jsonl")

    with pytest.raises(LogDamagedError, match="blank") as damage:
        logs.verify("s-1")
    assert damage.value.line == 2
    events = list(logs.events("s-1", damaged="resync"))
    assert [event.data for event in events] == texts(1, 2)
    assert all(event.verified for event in events)


def test_an_empty_log_is_listed_with_its_problem(place: JsonlPlace, logs: SessionLogs) -> None:
    """107. A log appears with its header, so a crash cannot leave an empty one."""
    filled(logs, "s-1", 1)
    place.write("s-1", (CASES / "107-empty-and-blank/empty.jsonl").read_bytes())

    (summary,) = logs.list()

    assert (summary.id, summary.head_seq, summary.size_bytes) == ("s-1", 0, 0)
    assert isinstance(summary.problem, LogDamagedError)


def test_a_tool_output_of_12_mb_leaves_a_short_line(place: JsonlPlace, logs: SessionLogs) -> None:
    """The log holds the reference; 142 to 148 build on this in the conformance suite."""
    from tests.conformance.session_medium import REFERENCE

    logs.create("s-1").append("tool/result", {"stdout": REFERENCE})

    assert max(map(len, place.read("s-1").splitlines())) < 1024
    (summary,) = logs.list()
    assert (summary.id, summary.head_seq) == ("s-1", 1), "148: the first event is an attachment"
