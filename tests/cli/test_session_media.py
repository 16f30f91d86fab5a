"""Where session logs are kept is chosen once, and makes no difference after that."""

from __future__ import annotations

import pytest

from attachstore.config import SESSION_MEDIA
from attachstore.opening import MEDIA
from tests.cli.running import Cli


def test_the_configuration_knows_every_medium() -> None:
    assert SESSION_MEDIA == MEDIA


@pytest.mark.parametrize("kind", MEDIA)
def test_sessions_work_the_same_in_every_medium(cli: Cli, kind: str) -> None:
    assert cli.run("--json", "init", "--sessions", kind).record["sessions"] == kind

    assert cli.run("session", "append", "s-1", stdin=b'{"text":"hello"}').status == 0
    assert cli.run("session", "fork", "s-1", "--id", "s-2").status == 0
    assert [each["id"] for each in cli.run("--json", "session", "list").records] == ["s-1", "s-2"]
    assert cli.run("session", "verify", "s-1").status == 0
    assert cli.run("session", "delete", "s-1", "--yes").status == 0
    assert cli.run("scan").status == 0
    assert (cli.store / "sessions.db").exists() == (kind == "sqlite")


def test_the_environment_chooses_too_and_another_choice_is_refused(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTACHSTORE_SESSIONS", "sqlite")
    assert cli.run("init").status == 0
    assert (cli.store / "sessions.db").exists()
    monkeypatch.setenv("ATTACHSTORE_SESSIONS", "jsonl")
    ran = cli.run("session", "list")
    assert (ran.status, "store-layout" in ran.message) == (4, True)
    monkeypatch.delenv("ATTACHSTORE_SESSIONS")
    assert cli.run("session", "list").status == 0


def test_a_medium_that_is_none_is_a_wrong_call(cli: Cli) -> None:
    assert cli.run("init", "--sessions", "paper").status == 2
    assert not cli.store.exists()


def test_sessions_are_sealed_and_unsealed(cli: Cli) -> None:
    for name in ("s-1", "s-2"):
        cli.run("session", "append", name, stdin=b'{"text":"hello"}')
    path = cli.store / "sessions" / "s-1" / "log.jsonl"
    plain = path.read_bytes()

    sealed, other = cli.run("--json", "session", "seal", "s-1", "s-2").records
    assert (sealed["session"], sealed["sealed"], sealed["head_seq"]) == ("s-1", True, 1)
    assert (sealed["size_bytes"], other["session"]) == (len(plain), "s-2")
    assert not path.exists()
    assert cli.run("session", "verify", "s-1").status == 0
    assert cli.run("scan").status == 0
    assert cli.run("session", "unseal", "s-1").text == "unsealed s-1\n"
    assert path.read_bytes() == plain
    assert cli.run("session", "append", "s-2", stdin=b"{}").status == 0
    ran = cli.run("session", "seal", "s-1", "nobody")
    assert (ran.status, "session-missing" in ran.message) == (8, True)


def test_only_logs_in_files_are_sealed(cli: Cli) -> None:
    cli.run("init", "--sessions", "sqlite")
    cli.run("session", "append", "s-1", stdin=b"{}")

    ran = cli.run("session", "seal", "s-1")
    assert (ran.status, "invalid-configuration" in ran.message) == (1, True)
