"""Lines: cut at line feeds, however they are read."""

from __future__ import annotations

import pytest

from attachstore.sessions.lines import split_lines, split_runs
from attachstore.sessions.memory import MemoryLog
from attachstore.sessions.names import SessionName

CONTENTS = [b"", b"\n", b"a", b"a\n", b"a\n\nbc\nd", b"\n\n", b"ab\nc\n", b"ab\ncd\nef\ngh\ni"]


def log_of(content: bytes) -> MemoryLog:
    return MemoryLog(SessionName.of("s-1"), bytearray(content), [])


@pytest.mark.parametrize("run_bytes", [1, 3, 1 << 14])
@pytest.mark.parametrize("block_bytes", [1, 2, 7, 1 << 20])
@pytest.mark.parametrize("content", CONTENTS)
def test_lines_are_the_same_however_they_are_read(
    content: bytes, block_bytes: int, run_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attachstore.sessions.lines._RUN_BYTES", run_bytes)

    lines = list(split_lines(log_of(content), 0, len(content), None, block_bytes))

    whole = content.split(b"\n")
    last = whole.pop()
    expected = [(each, True) for each in whole] + ([(last, False)] if last else [])
    assert [(each, feed) for _, each, feed in lines] == expected
    starts = [start for start, _, _ in lines]
    assert starts == [sum(len(each) + 1 for each in whole[:n]) for n in range(len(lines))]


@pytest.mark.parametrize("run_bytes", [1, 3, 1 << 14])
@pytest.mark.parametrize("block_bytes", [1, 2, 7, 1 << 20])
@pytest.mark.parametrize("content", CONTENTS)
def test_runs_are_whole_lines_and_leave_nothing_out(
    content: bytes, block_bytes: int, run_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attachstore.sessions.lines._RUN_BYTES", run_bytes)

    runs = list(split_runs(log_of(content), 0, len(content), None, block_bytes))

    assert b"".join(run or b"" for _, run, _ in runs) == content
    for start, run, whole in runs:
        assert run
        assert content[start : start + len(run)] == run
        assert whole == run.endswith(b"\n")


def test_lines_come_many_at_once() -> None:
    assert list(split_runs(log_of(b"a\nb\nc"), 0, 5, None)) == [
        (0, b"a\nb\n", True),
        (4, b"c", False),
    ]


def test_a_line_longer_than_any_record_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attachstore.sessions.lines.LINE_BYTES_MAX", 10)
    content = b"a" * 11 + b"\n" + b"b" * 10 + b"\n" + b"c" * 30

    lines = list(split_lines(log_of(content), 0, len(content), None, 4))

    assert lines == [(0, None, True), (12, b"b" * 10, True), (23, None, False)]
