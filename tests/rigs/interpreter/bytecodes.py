"""KeyboardInterrupt before any bytecode of the package's code that it can come before.

A bytecode is named by its code object (file below the package, line, name) and its offset there;
a run interrupts one execution of it, counted from 1. Only frames of that code are traced opcode
by opcode, so a run costs little more than the work.

Before most bytecodes no interrupt can come: CPython looks for one behind calls and jumps back, and
where a function begins or goes on. Elsewhere it would find what no program can meet, such as a lock
between the end of its block and the call that lets it go.
"""

from __future__ import annotations

import dis
import itertools
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Self, cast

import attachstore

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
        self._open: dict[CodeType, frozenset[int]] = {}

    def __enter__(self) -> Self:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        name = self._names.get(frame.f_code)
        if name is None:
            name = self._names[frame.f_code] = name_of(frame.f_code)
            self._open[frame.f_code] = open_places(frame.f_code)
        if not name:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and frame.f_lasti in self._open[frame.f_code]:
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


def open_places(code: CodeType) -> frozenset[int]:
    """Offsets of the bytecodes before which CPython lets interrupts in.

    What it raises behind a call is raised by the call: who handles that must handle it here too.
    """
    listed = dis.Bytecode(code)
    steps = [*listed]
    table = cast("list[Any]", vars(listed)["exception_entries"])  # which typeshed lacks

    def handler(step: dis.Instruction) -> object:
        return next((it for it in table if it.start <= step.offset < it.end), None)

    behind = {
        after.offset
        for step, after in itertools.pairwise(steps)
        if _looks(step.opname) and handler(step) == handler(after)
    }
    return frozenset(behind).union(it.argval for it in steps if _jumps_back(it.opname))


def _looks(opname: str) -> bool:
    """Whether CPython looks for interrupts at the end of that opcode."""
    return opname == "RESUME" or (opname.startswith("CALL") and "INTRINSIC" not in opname)


def _jumps_back(opname: str) -> bool:
    return "JUMP_BACKWARD" in opname and "NO_INTERRUPT" not in opname


def name_of(code: CodeType) -> str:
    """Of the package's code; "" for all other."""
    if not code.co_filename.startswith(PACKAGE):
        return ""
    return f"{code.co_filename.removeprefix(PACKAGE)}:{code.co_firstlineno}:{code.co_qualname}"
