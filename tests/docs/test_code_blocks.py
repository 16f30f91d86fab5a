"""Every block of code on every page runs, or says why it does not."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest

from tests.docs import samples
from tests.docs.pages import ROOT, Block, blocks, pages

NOT_CODE = {"text"}
MARK = "\x1eended "


class Desk:
    """An empty directory with the sample files, where the blocks of one page run in order."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        samples.write(directory)
        self.names: dict[str, Any] = {"__name__": "docs"}
        home = directory / ".home"
        home.mkdir()
        for name in [name for name in os.environ if name.startswith(("ATTACHSTORE_", "XDG_"))]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.chdir(directory)
        self.shell = Shell(directory)
        self.runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.runner.close()
        self.shell.close()

    def python(self, block: Block) -> None:
        code = compile(
            block.text, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
        )
        result = eval(code, self.names)
        if inspect.iscoroutine(result):
            self.runner.run(result)

    def console(self, block: Block) -> None:
        """Run the lines after `$`; what each prints must fit what the page shows."""
        commands = _commands(block)
        for number, (command, shown) in enumerate(commands):
            printed, status = self.shell.run(command)
            assert _fits(printed, shown), (
                f"{block}: $ {command}\nprinted:\n{printed}\nnot:\n{shown}"
            )
            following = commands[number + 1][0] if number + 1 < len(commands) else ""
            if status != 0:
                assert "$?" in following, f"{block}: $ {command}\nexit status {status}\n{printed}"

    def sh(self, block: Block) -> None:
        printed, status = self.shell.run(f"set -e\n{block.text}\nset +e")
        assert status == 0, f"{block}: failed\n{printed}"


class Shell:
    """One shell for all blocks of a page, so that what one exports the next one has."""

    def __init__(self, directory: Path) -> None:
        self._bash = subprocess.Popen(
            ["bash"],
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._status = 0

    def run(self, command: str) -> tuple[str, int]:
        """What the command prints, and its exit status; `$?` is that of the one before."""
        bash = self._bash
        assert bash.stdin is not None
        assert bash.stdout is not None
        bash.stdin.write(f"(exit {self._status})\n{{\n{command}\n}} </dev/null\necho '{MARK}'$?\n")
        bash.stdin.flush()
        printed = ""
        while not (ended := re.search(rf"{MARK}(\d+)\n\Z", printed)):
            line = bash.stdout.readline()
            assert line, f"the shell ended at: {command}\n{printed}"
            printed += line
        self._status = int(ended[1])
        return printed[: ended.start()], self._status

    def close(self) -> None:
        self._bash.communicate()


def _commands(block: Block) -> list[tuple[str, str]]:
    """Each command of a console block with what is shown under it."""
    found: list[tuple[str, str]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
            continue
        assert found, f"{block}: a console block begins with `$ `"
        command, shown = found[-1]
        if line.startswith("> "):
            found[-1] = (f"{command}\n{line[2:]}", shown)
        else:
            found[-1] = (command, f"{shown}{line}\n")
    return found


def _fits(printed: str, shown: str) -> bool:
    """Whether `printed` is `shown`, where `…` stands for anything; nothing shown, nothing asked."""
    if not shown.strip():
        return True
    pattern = ".*".join(map(re.escape, shown.strip().split("…")))
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


def _parse_json(block: Block) -> None:
    json.loads(block.text)


def _parse_toml(block: Block) -> None:
    tomllib.loads(block.text)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_on_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order in which a reader would type it, in one directory."""
    with Desk(tmp_path, monkeypatch) as desk:
        run: dict[str, Callable[[Block], None]] = {
            "python": desk.python,
            "console": desk.console,
            "sh": desk.sh,
            "json": _parse_json,
            "toml": _parse_toml,
        }
        for block in blocks(page):
            if block.language not in NOT_CODE and block.reason is None:
                assert block.language in run, f"{block}: unknown language {block.language!r}"
                run[block.language](block)


def test_every_fence_is_read() -> None:
    """A block that the pattern misses would never run and never be missed."""
    for page in pages():
        fences = len(re.findall(r"^\s*```", page.read_text(), re.MULTILINE))

        assert fences == 2 * len(blocks(page)), page


def test_a_reason_is_a_reason() -> None:
    """`not run:` with nothing after it explains nothing."""
    for page in pages():
        for block in blocks(page):
            assert block.reason is None or len(block.reason) > 10, block
