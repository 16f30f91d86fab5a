"""What is printed is one record a line, exact for programs and harmless for terminals."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from attachstore.cli.output import Output, compact, dimensions, human_size, plural, visible
from attachstore.errors import SessionMissingError
from tests.cli.running import Cli
from tests.cli.test_sessions import log_of


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("photo.jpg", "photo.jpg"),
        ("Übersicht 写真 🏳️‍🌈.png", "Übersicht 写真 🏳️‍🌈.png"),
        ("Screenshot 9.41.00\u202fAM.png", "Screenshot 9.41.00\u202fAM.png"),
        ("two\nlines", "two\\nlines"),
        ("red\x1b[31m", "red\\x1b[31m"),
        ("csi\x9b2J", "csi\\x9b2J"),
        ("bidi\u202egnp.exe", "bidi\\u202egnp.exe"),
        ("sep\u2028arator", "sep\\u2028arator"),
        ("byte\udcff", "byte\\udcff"),
    ],
)
def test_what_could_move_a_cursor_or_break_a_line_is_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("size_bytes", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (12_000_000, "11.4 MiB"),
        (150 << 20, "150 MiB"),
        (1 << 62, "4.0 EiB"),
        ((1 << 63) - 1, "8.0 EiB"),
    ],
)
def test_sizes_for_people(size_bytes: int, shown: str) -> None:
    assert human_size(size_bytes) == shown


def test_small_words() -> None:
    assert dimensions(640, 480) == "640x480"
    assert dimensions(None, None) == "-"
    assert plural(1, "object") == "1 object"
    assert plural(12_000, "object") == "12,000 objects"


def test_json_is_one_line_of_utf8_whatever_the_bytes_of_a_path_are() -> None:
    path = os.fsdecode(b"caf\xe9\n")
    line = compact({"path": path, "name": "é"})

    assert b"\n" not in line
    assert json.loads(line.decode("utf-8")) == {"path": path, "name": "é"}


def test_a_record_is_text_for_people_and_json_for_programs(
    capfd: pytest.CaptureFixture[str],
) -> None:
    for as_json in (False, True):
        out = Output(as_json=as_json)
        out.record({"digest": "x"}, "x  image/png")

    assert capfd.readouterr().out == 'x  image/png\n{"digest":"x"}\n'


def test_messages_go_to_standard_error_in_the_form_that_was_asked_for(
    capfd: pytest.CaptureFixture[str],
) -> None:
    for as_json in (False, True):
        out = Output(as_json=as_json)
        out.note("one")
        out.warning("two")
        out.failure(SessionMissingError(where="/s", session="s-1"), source="a")

    printed = capfd.readouterr()
    lines = printed.err.splitlines()
    assert printed.out == ""
    assert lines[0] == "attachstore: one"
    assert lines[1] == "attachstore: warning: two"
    assert lines[2].startswith("attachstore: session-missing: there is no session 's-1' (/s).")
    error = json.loads(lines[5])["error"]
    assert (error["code"], error["session"], error["source"]) == ("session-missing", "s-1", "a")


def test_nothing_drawn_for_terminals_reaches_a_pipe(capfd: pytest.CaptureFixture[str]) -> None:
    """A table is plain columns there, however long its cells are; hints stay unsaid."""
    out = Output()
    out.table(("a", "b"), [("x" * 300, "y")])
    out.hint("press Ctrl-D")

    assert capfd.readouterr() == ("x" * 300 + "  y\n", "")


def test_the_bytes_of_a_path_reach_a_pipe_as_they_are(
    capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    out = Output()
    out.line(os.fsdecode(bytes(tmp_path) + b"/\xff"))

    assert capfdbinary.readouterr().out == bytes(tmp_path) + b"/\xff\n"


def test_each_run_shows_its_own_warnings_and_leaves_logging_as_it_was(cli: Cli) -> None:
    """Who calls `main` from a program of theirs keeps their handlers."""
    logger = logging.getLogger("attachstore")
    before = [*logger.handlers], logger.propagate
    assert cli.run("session", "append", "s-1", stdin=b"{}").status == 0

    for _ in range(2):
        log = log_of(cli, "s-1")
        os.truncate(log, log.stat().st_size - 5)
        ran = cli.run("session", "append", "s-1", stdin=b"{}")
        assert (ran.status, ran.message.count("uncommitted bytes")) == (0, 1)
        assert ([*logger.handlers], logger.propagate) == before
