"""Two ways to run the command: in this process, for breadth, and installed, for what is real."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from attachstore.cli.main import main

EXECUTABLE = Path(sys.executable).with_name("attachstore")


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run left: its status and its two streams."""

    status: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def message(self) -> str:
        return self.err.decode()

    @property
    def records(self) -> list[Any]:
        """Standard output, a JSON value for each line."""
        return [json.loads(line) for line in self.text.splitlines()]

    @property
    def record(self) -> Any:
        (only,) = self.records
        return only

    @property
    def errors(self) -> list[Any]:
        """The errors that --json left on standard error."""
        said = [json.loads(line) for line in self.message.splitlines()]
        return [each["error"] for each in said if "error" in each]


class Cli:
    """Runs `attachstore --store <store> ...`."""

    def __init__(self, store: Path, environ: Mapping[str, str]) -> None:
        self.store = store
        self.environ = dict(environ)

    def run(self, *arguments: object, stdin: bytes = b"", store: Path | None = None) -> Ran:
        """In this process, with streams in memory."""
        out, err = io.BytesIO(), io.BytesIO()
        with (
            mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin))),
            contextlib.redirect_stdout(io.TextIOWrapper(out, write_through=True)),
            contextlib.redirect_stderr(io.TextIOWrapper(err, write_through=True)),
        ):
            status = main(self._arguments(arguments, store))
            return Ran(int(status), out.getvalue(), err.getvalue())

    def process(
        self,
        *arguments: object,
        stdin: bytes = b"",
        store: Path | None = None,
        cwd: Path | None = None,
    ) -> Ran:
        """The installed command, in a process of its own, its streams pipes."""
        ran = subprocess.run(
            self.command(*arguments, store=store),
            input=stdin,
            capture_output=True,
            check=False,
            env=self.environ,
            cwd=cwd,
            timeout=100,
        )
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    def command(self, *arguments: object, store: Path | None = None) -> list[str]:
        return [str(EXECUTABLE), *self._arguments(arguments, store)]

    def _arguments(self, arguments: Sequence[object], store: Path | None) -> list[str]:
        return ["--store", str(store or self.store), *map(_text, arguments)]


def _text(argument: object) -> str:
    return os.fsdecode(argument) if isinstance(argument, bytes) else str(argument)
