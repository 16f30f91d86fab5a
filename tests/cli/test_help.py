"""`--help` is quick because it loads nothing, and complete because it is checked."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from attachstore.cli.command import Command, CommandIndex
from attachstore.cli.main import INDEX, main, root
from attachstore.config import LIMITS, SETTINGS
from tests.cli.running import Cli

HEAVY = {
    *("PIL", "magic", "pikepdf", "blake3", "msgspec", "rich", "aiofiles", "asyncio", "tomllib"),
    *("attachstore.store", "attachstore.disk", "attachstore.admission", "attachstore.objects"),
    *("attachstore.sessions", "attachstore.replay", "attachstore.integrity"),
}


def every_command(
    group: CommandIndex = root, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, CommandIndex):
            yield from every_command(command, (*path, name))


COMMANDS = dict(every_command())


def test_help_loads_nothing_heavy() -> None:
    """The list of modules stands for the 150 ms it may take, which no test could measure.

    All commands one after the other: what any of them loads is there at the end.
    """
    asked = [["--version"], ["--help"], *([*path, "--help"] for path in COMMANDS)]
    code = (
        "import sys\n"
        "from attachstore.cli.main import main\n"
        f"statuses = [main(arguments) for arguments in {asked!r}]\n"
        "print(*sys.modules, file=sys.stderr)\n"
        "sys.exit(max(statuses))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert HEAVY.intersection(ran.stderr.split()) == set()


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_help(cli: Cli, path: tuple[str, ...]) -> None:
    ran = cli.run(*path, "--help")

    assert ran.status == 0
    assert ran.text.startswith(f"Usage: attachstore {' '.join(path)} ")
    assert ran.message == ""


@pytest.mark.parametrize(
    "path", [path for path, found in COMMANDS.items() if isinstance(found, Command)], ids=" ".join
)
def test_help_shows_examples_that_exist(cli: Cli, path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    assert isinstance(command, Command)

    assert command.examples
    assert any(" ".join(path) in example for example in command.examples)
    assert all(example in cli.run(*path, "--help").text for example in command.examples)


def test_summaries_in_the_list_are_the_commands_own() -> None:
    """They stand in a table, so that listing the commands need not import them."""
    for path, command in COMMANDS.items():
        group = root if len(path) == 1 else COMMANDS[path[:-1]]
        assert isinstance(group, CommandIndex)
        assert group.index[path[-1]][1] == command.short_help


def test_the_list_of_commands_shows_all_of_them(cli: Cli) -> None:
    text = cli.run("--help").text

    assert all(f"  {name} " in text for name in INDEX)


def test_every_setting_has_a_flag_somewhere() -> None:
    declared = {
        option
        for command in (root, *COMMANDS.values())
        for param in command.params
        for option in param.opts
    }

    assert {setting.flag for setting in SETTINGS.values()} <= declared


@pytest.mark.parametrize("path", [("put",), ("session", "append")], ids=" ".join)
def test_limits_stand_apart_from_the_options(cli: Cli, path: tuple[str, ...]) -> None:
    options, _, limits = cli.run(*path, "--help").text.partition("\nLimits:\n")

    for key in LIMITS:
        assert SETTINGS[key].flag in limits
        assert SETTINGS[key].flag not in options


def test_json_may_stand_before_or_after_the_command(cli: Cli) -> None:
    before, after = cli.run("--json", "init"), cli.run("init", "--json")

    assert (before.record["created"], after.record["created"]) == (True, False)
    cli.run("session", "append", "s-1", stdin=b"{}")
    for arguments in (["--json", "session", "list"], ["session", "--json", "list"]):
        assert cli.run(*arguments).record["id"] == "s-1"


def test_the_version_is_the_packages(cli: Cli) -> None:
    assert cli.run("--version").text == "attachstore 0.1.0\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["session", "frobnicate"],
        ["put"],
        ["put", "--frobnicate", "x"],
        ["put", "-", "-"],
        ["put", "a", "b", "--name", "c"],
        ["put", "a", "--bytes-max", "lots"],
        ["check", "a", "--event-bytes-max", "257MiB"],
        ["get"],
        ["get", "123456", "654321"],
        ["stat", "--store", "123456"],
        ["ls", "xyz"],
        ["scan", "--subset", "0/7"],
        ["scan", "--subset", "8/7"],
        ["scan", "--subset", "7"],
        ["session", "fork", "s-1", "--at", "-1"],
        ["session", "show", "s-1", "--after", "3"],
        ["session", "delete", "s-1"],
        ["replay"],
        ["completion", "tcsh"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_2_with_a_hint_and_nothing_on_standard_output(
    cli: Cli, arguments: list[str]
) -> None:
    people, programs = cli.run(*arguments), cli.run("--json", *arguments)

    assert (people.status, programs.status) == (2, 2)
    assert people.out == programs.out == b""
    assert people.message.startswith("attachstore: usage: ")
    assert "--help`" in people.message
    assert programs.errors[0]["code"] == "usage"


@pytest.mark.parametrize(
    ("arguments", "choices"),
    [(["completion"], "bash, zsh, fish"), (["session", "convert"], "jsonl, sqlite")],
    ids=["completion", "convert"],
)
def test_a_missing_choice_is_told_in_a_line(cli: Cli, arguments: list[str], choices: str) -> None:
    ran = cli.run(*arguments)

    assert ran.status == 2
    assert f" Choose from: {choices}. Try `attachstore " in ran.message


def test_a_bad_flag_is_answered_with_what_it_takes(cli: Cli) -> None:
    told = cli.run("put", "x", "--media-types", "").message

    assert 'types are expected, like "image/*,application/pdf". Try ' in told


@pytest.mark.parametrize("group", [[], ["session"]], ids=["attachstore", "session"])
def test_without_a_command_the_help_is_shown_as_lines(
    capfd: pytest.CaptureFixture[str], group: list[str]
) -> None:
    """It is the first thing a newcomer types. On standard error: nothing was done."""
    assert main([*group, "--help"]) == 0
    help_ = capfd.readouterr().out

    assert main(group) == 2
    assert capfd.readouterr() == ("", help_)


def test_programs_are_told_that_a_command_is_missing(cli: Cli) -> None:
    assert cli.run("--json", "session").errors[0]["message"] == (
        "a command is missing. Try `attachstore session --help`."
    )
