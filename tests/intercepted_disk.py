"""InterceptedDisk: a disk in front of a disk, with one place where every call passes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attachstore.disk import Disk

METHODS = frozenset(
    name
    for name, _ in inspect.getmembers(Disk, inspect.isfunction)
    if name[0] != "_" and name not in {"confine", "holding", "keep_to", "read", "refuse_gone"}
)
"""Every call a Disk has; whatever reads is a "read_into" here."""

READS = frozenset(
    {"may_write", "read_into", "status", "statuses", "status_followed", "status_open", "names"}
)
OPENS = frozenset(name for name in METHODS if name.startswith("open_")) | {"create"}
"""Calls that return a descriptor."""
SYNCS = frozenset({"sync_file", "sync_data", "sync_directory"})
CHANGES = (
    METHODS
    - READS
    - SYNCS
    - {
        "open_read",
        "open_write",
        "open_directory",
        "open_source",
        "close",
        "lock",
        "drop_cache",
        "start_writeout",
    }
)
"""Calls that change bytes or names."""


class InterceptedDisk(Disk):
    """Hands every call to `disk`, through `intercept`.

    A call that `disk` makes to itself (sync_directory opens the directory) is not seen.
    """

    def __init__(self, disk: Disk | None = None) -> None:
        self.disk = disk or Disk()

    def confine(self, root: Path) -> None:
        self.disk.confine(root)

    def keep_to(self, root: Path, marker: str | None) -> None:
        self.disk.keep_to(root, marker)

    def refuse_gone(self, path: Path) -> None:
        self.disk.refuse_gone(path)

    @contextmanager
    def holding(self, directory: Path) -> Generator[None]:
        with self.disk.holding(directory):
            yield

    def read(self, descriptor: int, size_bytes: int, offset_bytes: int) -> bytes:
        """As a `read_into`, so that whoever intercepts that intercepts every read."""
        buffer = bytearray(size_bytes)
        return bytes(buffer[: self.read_into(descriptor, memoryview(buffer), offset_bytes)])

    def intercept(self, method: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        """Make the call, or do not. `arguments` are the positional ones."""
        return call()


def _passing(method: str) -> Callable[..., Any]:
    @functools.wraps(getattr(Disk, method))
    def passed(self: InterceptedDisk, *arguments: Any, **options: Any) -> Any:
        if method == "open_read":  # which takes text as well; whoever intercepts it wants a path
            arguments = (Path(arguments[0]), *arguments[1:])
        call = functools.partial(getattr(self.disk, method), *arguments, **options)
        return self.intercept(method, call, arguments)

    return passed


for _method in METHODS:
    setattr(InterceptedDisk, _method, _passing(_method))


class MeanwhileDisk(InterceptedDisk):
    """Something happens before each call of `method`."""

    def __init__(self, method: str, happens: Callable[[], object]) -> None:
        super().__init__()
        self._method = method
        self._happens = happens

    def intercept(self, method: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        if method == self._method:
            self._happens()
        return call()
