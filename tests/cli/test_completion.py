"""Completion: a script for each shell, and words that never break a prompt."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from attachstore.digest import Digest
from tests.cli.running import EXECUTABLE, Cli

SHELLS = ("bash", "zsh", "fish")


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_a_script(cli: Cli, shell: str) -> None:
    ran = cli.run("completion", shell)

    assert ran.status == 0
    assert ran.message == ""
    assert f"_ATTACHSTORE_COMPLETE={shell}_complete" in ran.text


def test_bash_takes_its_script(cli: Cli) -> None:
    script = cli.run("completion", "bash").out

    subprocess.run(["bash", "-n"], input=script, check=True)


@pytest.mark.parametrize(
    "shell", [pytest.param(name, marks=pytest.mark.program(name)) for name in ("zsh", "fish")]
)
def test_the_other_shells_take_theirs(cli: Cli, shell: str) -> None:
    script = cli.run("completion", shell).out

    subprocess.run([shell, "-n"], input=script, check=True)


def words(cli: Cli, *typed: str) -> list[str]:
    """What bash would be offered after this command line."""
    line = ["attachstore", "--store", str(cli.store), *typed]
    environ = {
        **cli.environ,
        "_ATTACHSTORE_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(line),
        "COMP_CWORD": str(len(line) - 1),
    }
    ran = subprocess.run(
        [EXECUTABLE], env=environ, capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stderr == ""
    return [word.partition(",")[2] for word in ran.stdout.splitlines() if word]


def test_commands_ids_and_digests_are_offered(cli: Cli, photo: Path) -> None:
    cli.run("put", photo, "--session", "s-1")
    digits = Digest.of(photo.read_bytes()).hex

    assert words(cli, "se") == ["session"]
    assert words(cli, "session", "fo") == ["fork"]
    assert words(cli, "replay", "s") == ["s-1"]
    assert words(cli, "get", digits[:4]) == [digits]


def test_where_there_is_no_store_there_are_no_words(cli: Cli) -> None:
    assert words(cli, "replay", "s") == []
    assert words(cli, "get", "0123") == []
    assert not cli.store.exists()
