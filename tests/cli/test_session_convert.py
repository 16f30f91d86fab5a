"""`session convert`: what it says, and the statuses it ends with."""

from __future__ import annotations

from pathlib import Path

import pytest

from attachstore.blocking import Store
from tests.cli.running import Cli


@pytest.fixture
def filled(cli: Cli) -> Cli:
    for name in ("s-1", "s-2"):
        assert cli.run("session", "append", name, stdin=b'{"text":"hello"}').status == 0
    return cli


def test_it_says_what_it_did_and_where_the_old_logs_are(filled: Cli) -> None:
    ran = filled.run("--json", "session", "convert", "sqlite")

    assert ran.status == 0
    assert ran.record["converted"]
    assert (ran.record["source"], ran.record["target"]) == ("jsonl", "sqlite")
    assert (ran.record["sessions"], ran.record["events"], ran.record["damaged"]) == (2, 2, [])
    assert (Path(ran.record["kept"]) / "sessions" / "s-1" / "log.jsonl").exists()
    assert (filled.store / "sessions.db").exists()
    assert filled.run("scan").status == 0


def test_it_is_told_in_words_too(filled: Cli) -> None:
    assert "to be converted from jsonl to sqlite: 2 sessions with 2 events" in (
        filled.run("session", "convert", "sqlite", "--dry-run").text
    )
    ran = filled.run("session", "convert", "sqlite")
    assert ran.text.startswith("converted 2 sessions with 2 events, ")
    assert f"the old logs are kept in {filled.store}/converted/jsonl-" in ran.text
    assert "nothing to convert" in filled.run("session", "convert", "sqlite").text


def test_a_damaged_log_is_status_4_and_named(filled: Cli) -> None:
    log = filled.store / "sessions" / "s-1" / "log.jsonl"
    log.write_bytes(log.read_bytes() + b"not a record\n")

    for options in ((), ("--dry-run",)):
        ran = filled.run("session", "convert", "sqlite", *options)
        assert (ran.status, "log-damaged" in ran.message, "'s-1'" in ran.message) == (4, True, True)
    ran = filled.run("--json", "session", "convert", "sqlite", "--with-damaged")
    assert (ran.status, ran.record["damaged"]) == (0, ["s-1"])


def test_a_session_that_is_open_is_status_7(filled: Cli) -> None:
    with Store.open(filled.store, decode_in_process=True) as store:
        store.sessions.load("s-1")
        ran = filled.run("session", "convert", "sqlite")
    assert (ran.status, "session-busy" in ran.message) == (7, True)


def test_no_store_is_made_for_it(cli: Cli) -> None:
    assert cli.run("session", "convert", "sqlite").status == 3
    assert cli.run("session", "convert", "paper").status == 2
    assert not cli.store.exists()
