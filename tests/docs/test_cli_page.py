"""docs/reference/cli.md lists every command with every option, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from attachstore.cli.exit_status import ExitStatus
from attachstore.cli.main import root
from tests.docs.pages import DOCS, headings, section

PAGE = DOCS / "reference" / "cli.md"


def commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        elif not command.hidden:
            yield f"{path} {name}", command


COMMANDS = dict(commands(root, "attachstore"))


def options(command: click.Command) -> set[str]:
    return {
        spelling
        for param in command.params
        if isinstance(param, click.Option) and not param.hidden
        for spelling in (*param.opts, *param.secondary_opts)
    }


def spelt(text: str) -> set[str]:
    """The options in a text: `-o`, `--output FILE`."""
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", text))


GLOBAL = spelt(section(PAGE, "Global options"))


def test_every_command_has_a_heading_and_every_heading_a_command() -> None:
    found = [heading for heading in headings(PAGE, 3) if heading.startswith("attachstore ")]

    assert found == list(COMMANDS)


@pytest.mark.parametrize("path", COMMANDS)
def test_every_option_is_listed(path: str) -> None:
    """Those that all commands share stand under `Global options`, once."""
    listed = spelt(section(PAGE, path))

    assert options(COMMANDS[path]) <= listed | GLOBAL


@pytest.mark.parametrize("path", COMMANDS)
def test_every_listed_option_exists(path: str) -> None:
    rows = "\n".join(re.findall(r"^\| (`-[^|]*)\|", section(PAGE, path), re.MULTILINE))

    assert spelt(rows) <= options(COMMANDS[path])


def test_the_global_options_are_the_root_command_s() -> None:
    assert options(root) <= GLOBAL


def test_every_exit_status_is_explained() -> None:
    found = re.findall(r"^\| (\d+) \|", section(PAGE, "Exit statuses"), re.MULTILINE)

    assert [int(status) for status in found] == sorted(int(status) for status in ExitStatus)
