"""Program: what one actor does, run call by call without threads.

A program is real code of the product on a disk of its own. All that it learns of the world it
learns from the answers of its calls; so where it stands is the list of answers it has had, and
what it does next is found by running it again from the start with these answers. That makes a
step a value, as the world is: it can be taken from any state, in any order, any number of times.
"""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Callable, Hashable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import patch

from attachstore.disk import Disk
from tests.concurrency.world import Result
from tests.intercepted_disk import METHODS

Body: TypeAlias = Callable[[Disk], Hashable]


@dataclass(frozen=True)
class Call:
    """The next call a program makes."""

    method: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Ended:
    """What a program returned, or the error it ended with."""

    outcome: Hashable


@dataclass(frozen=True)
class Failed:
    """The answer to a call that raised OSError."""

    number: int


Answer: TypeAlias = Result | Failed


class _Paused(BaseException):
    """No more answers: unwinds the program. What it calls on its way out is not done."""


@dataclass
class _ScriptedDisk(Disk):
    """Gives the answers it was given, then notes the next call."""

    answers: tuple[Answer, ...]
    asked: Call | None = None
    _given: int = 0

    def answer(self, method: str, arguments: tuple[Any, ...]) -> Any:
        if self.asked is not None or self._given == len(self.answers):
            self.asked = self.asked or Call(method, arguments)
            raise _Paused
        answer = self.answers[self._given]
        self._given += 1
        if isinstance(answer, Failed):
            raise OSError(answer.number, os.strerror(answer.number))
        return answer

    def read_into(self, descriptor: int, buffer: memoryview | bytearray, offset_bytes: int) -> int:
        found = self.answer("read_into", (descriptor, len(buffer), offset_bytes))
        buffer[: len(found)] = found
        return len(found)

    def read(self, descriptor: int, size_bytes: int, offset_bytes: int) -> bytes:
        return self.answer("read_into", (descriptor, size_bytes, offset_bytes))

    def write(self, descriptor: int, data: bytes | memoryview, offset_bytes: int) -> int:
        return self.answer("write", (descriptor, bytes(data), offset_bytes))

    def lock(self, descriptor: int, *, exclusive: bool, wait: bool) -> None:
        self.answer("lock", (descriptor, exclusive, wait))

    def may_write(self, directory: Path) -> bool:
        return True

    def names(self, path: Path) -> list[str]:
        return list(self.answer("list_names", (str(path),)))


def _asking(method: str) -> Callable[..., Any]:
    def ask(self: _ScriptedDisk, *arguments: Any) -> Any:
        plain = (str(each) if isinstance(each, Path) else each for each in arguments)
        return self.answer(method, tuple(plain))

    return ask


for _method in METHODS - vars(_ScriptedDisk).keys():
    setattr(_ScriptedDisk, _method, _asking(_method))


@dataclass
class Program:
    """`body` on a disk; its steps are remembered, so each is worked out once."""

    name: str
    body: Body
    _steps: dict[tuple[Answer, ...], Call | Ended] = field(
        default_factory=dict[tuple[Answer, ...], "Call | Ended"]
    )

    def next_step(self, answers: tuple[Answer, ...]) -> Call | Ended:
        step = self._steps.get(answers)
        if step is None:
            step = self._steps[answers] = self._run(answers)
        return step

    def _run(self, answers: tuple[Answer, ...]) -> Call | Ended:
        disk = _ScriptedDisk(answers)
        with _numbers_for_random(self.name):
            try:
                outcome = self.body(disk)
            except _Paused:
                assert disk.asked is not None
                return disk.asked
            except Exception as error:  # noqa: BLE001 - how it ended is what we want to know
                outcome = f"{type(error).__name__}: {error}"
        assert disk.asked is None, f"{self.name} went on after {disk.asked}"
        return Ended(outcome)


@contextmanager
def _numbers_for_random(name: str):
    """Names of temporary files: the same at every run of a program, different between two."""
    first = sum(name.encode()) << 16
    numbers = itertools.count(first)

    def token(size_bytes: int | None = None) -> str:
        return f"{next(numbers):0{2 * (size_bytes or 32)}x}"

    with patch.object(secrets, "token_hex", token):
        yield
