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
