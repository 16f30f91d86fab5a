"""Disks that fail, that remember, and that lose power.

    FailingDisk        fails the n-th call: before or after it took effect, once or for ever
    failing_disks      one FailingDisk for each call of a piece of work, until none fails
    RecordingDisk      remembers which calls were made, in order, on which file
    PowerLossDisk      works on real files and knows every state that a power cut may leave

They can be stacked: `FailingDisk(3, disk=PowerLossDisk(root))` is a disk whose third call fails
and which then loses power.

What they cannot see is below the seam: that the real `Disk` calls what it says is checked in
tests/test_disk.py.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Literal

from attachstore.disk import Disk
from tests.intercepted_disk import CHANGES, METHODS, OPENS, READS, SYNCS, InterceptedDisk
from tests.power_loss import PowerLossDisk

__all__ = [
    "CHANGES",
    "METHODS",
    "OPENS",
    "READS",
    "SYNCS",
    "Effect",
    "FailingDisk",
    "InterceptedDisk",
    "PowerLossDisk",
    "RecordingDisk",
    "failing_disks",
]

Effect = Literal["none", "done", "half", "short"]
"""What happens before the error is reported: nothing; all of it; half of a write or read; or half
of it and no error at all, which every caller has to live with."""


class FailingDisk(InterceptedDisk):
    """Fails the `fail_at`-th call, counted from 1; with 0 it only counts.

    Only calls of `methods` are counted and fail. `sticky`: every later one of them fails too.
    `landed` names the calls that failed, so that a test can be sure there was a failure. A
    failing close closes, as on Linux; a failing open that is "done" leaves its file, if any, and
    no descriptor.
    """

    def __init__(
        self,
        fail_at: int = 0,
        *,
        error: int = errno.EIO,
        sticky: bool = False,
        effect: Effect = "none",
        methods: Collection[str] = METHODS,
        disk: Disk | None = None,
    ) -> None:
        super().__init__(disk)
        self.fail_at = fail_at
        self.error = error
        self.sticky = sticky
        self.effect: Effect = effect
        self.methods = methods
        self.calls = 0
        self.landed: list[str] = []
        self._guard = threading.Lock()

    def heal(self) -> None:
        """Fail no more."""
        self.fail_at = 0

    def intercept(self, method: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        if not self._fails(method):
            return call()
        half = method in {"write", "read_into"} and len(arguments[1]) > 1
        if self.effect == "short":
            return self._half(method, arguments) if half else call()
        if self.effect == "half" and half:
            self._half(method, arguments)
        elif self.effect == "done" or method == "close":
            result = call()
            if method in OPENS:
                self.disk.close(result)
        raise OSError(self.error, os.strerror(self.error), "injected")

    def _fails(self, method: str) -> bool:
        if method not in self.methods:
            return False
        with self._guard:
            self.calls += 1
            fails = self.calls == self.fail_at or (self.sticky and 0 < self.fail_at < self.calls)
            if fails:
                self.landed.append(method)
            return fails

    def _half(self, method: str, arguments: tuple[Any, ...]) -> Any:
        descriptor, data, offset_bytes = arguments
        part = memoryview(data)[: len(data) // 2]
        return getattr(self.disk, method)(descriptor, part, offset_bytes)


def failing_disks(**options: Any) -> Iterator[FailingDisk]:
    """Disks that fail at the 1st call, then the 2nd, and so on.

    Ends by itself after the first disk that was used and did not fail, so the loop's body runs
    once with every call failing and once with none.
    """
    for fail_at in itertools.count(1):
        disk = FailingDisk(fail_at, **options)
        yield disk
        assert disk.calls > 0, "the work made no call that could fail"
        if not disk.landed:
            return


_RANDOM = re.compile(r"[0-9a-f]{32}\b|[0-9a-f]{16}\b")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class RecordingDisk(InterceptedDisk):
    """Remembers calls of `methods` as (method, file) in `trace`.

    Files are named relative to `root`, digests shown as <digest>, random parts as <random>, and
    a file without a name as "<directory>/<unnamed>". An open file keeps the name it was opened
    by.
    """

    def __init__(
        self, root: Path, *, methods: Collection[str] = CHANGES | SYNCS, disk: Disk | None = None
    ) -> None:
        super().__init__(disk)
        self.root = root
        self.methods = methods
        self.trace: list[tuple[str, str]] = []
        self._opens: dict[int, str] = {}

    def intercept(self, method: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        if method in self.methods:
            self.trace.append((method, " ".join(self._names_of(arguments))))
        result = call()
        if method in OPENS:
            name = self._name(arguments[0])
            self._opens[result] = f"{name}/<unnamed>" if method == "open_temporary" else name
        return result

    def _names_of(self, arguments: tuple[Any, ...]) -> Iterator[str]:
        for position, argument in enumerate(arguments):
            if isinstance(argument, Path):
                yield self._name(argument)
            elif position == 0 and isinstance(argument, int):
                yield self._opens.get(argument, f"descriptor {argument}")

    def _name(self, path: Path) -> str:
        if path.is_relative_to(self.root):
            path = path.relative_to(self.root)
        return _RANDOM.sub("<random>", _DIGEST.sub("<digest>", str(path)))
