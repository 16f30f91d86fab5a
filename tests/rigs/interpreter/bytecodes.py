"""KeyboardInterrupt before any bytecode of the package's code.

A bytecode is named by its code object (file below the package, line, name) and its offset there;
a run interrupts one execution of it, counted from 1. Only frames of that code are traced opcode
by opcode, so a run costs little more than the work.

Two places are left out: behind the opcode that enters a `with`, before its block, and between the
end of the block and the call that leaves it. CPython looks for interrupts after calls and jumps
and at the start of functions only, so it lets none in there, and whatever was entered is left.
"""

from __future__ import annotations

import dis
import itertools
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Self

import attachstore

_BEHIND_BLOCK = {"SWAP", "NOP"}  # of a value that is returned; where a branch ends
PACKAGE = f"{Path(attachstore.__file__).parent}/"


@dataclass(frozen=True, slots=True)
class Bytecode:
    code: str
    offset: int

    def __str__(self) -> str:
        return f"{self.code}+{self.offset}"


class Counting:
    """Counts how often each bytecode of the package is executed. A context manager."""

    def __init__(self) -> None:
        self.executed: Counter[Bytecode] = Counter()
        self._names: dict[CodeType, str] = {}
        self._closed: dict[CodeType, frozenset[int]] = {}

    def __enter__(self) -> Self:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        name = self._names.get(frame.f_code)
        if name is None:
            name = self._names[frame.f_code] = name_of(frame.f_code)
            self._closed[frame.f_code] = closed_places(frame.f_code)
        if not name:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and frame.f_lasti not in self._closed[frame.f_code]:
            self.executed[Bytecode(name, frame.f_lasti)] += 1
        return self._trace


class Interrupting:
    """Raises KeyboardInterrupt before the `nth` execution of a bytecode. A context manager."""

    def __init__(self, bytecode: Bytecode, nth: int) -> None:
        self._bytecode = bytecode
        self._left = nth
        self._codes: dict[CodeType, bool] = {}
        self.landed = False

    def __enter__(self) -> Self:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        wanted = self._codes.get(frame.f_code)
        if wanted is None:
            wanted = self._codes[frame.f_code] = name_of(frame.f_code) == self._bytecode.code
        if not wanted:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and frame.f_lasti == self._bytecode.offset:
            self._left -= 1
            if self._left == 0:
                self.landed = True
                raise KeyboardInterrupt
        return self._trace


def closed_places(code: CodeType) -> frozenset[int]:
    """Offsets before which CPython lets no interrupt in, though it would leave a `with` entered."""
    steps = [*dis.get_instructions(code)]
    entered = {
        after.offset
        for step, after in itertools.pairwise(steps)
        if step.opname in {"BEFORE_WITH", "SETUP_WITH", "LOAD_SPECIAL"}
    }
    left: set[int] = set()
    for at in range(len(steps) - 4):
        nones, calls = steps[at : at + 3], steps[at + 3 : at + 5]
        if all(it.opname == "LOAD_CONST" and it.argval is None for it in nones):
            until = [it for it in calls if it.opname in {"PRECALL", "CALL"} and it.arg == 2]
            before = itertools.takewhile(lambda it: it.opname in _BEHIND_BLOCK, steps[:at][::-1])
            left |= {it.offset for it in (*before, *nones, *until)} if until else set()
    return frozenset(entered | left)


def name_of(code: CodeType) -> str:
    """Of the package's code; "" for all other."""
    if not code.co_filename.startswith(PACKAGE):
        return ""
    return f"{code.co_filename.removeprefix(PACKAGE)}:{code.co_firstlineno}:{code.co_qualname}"
