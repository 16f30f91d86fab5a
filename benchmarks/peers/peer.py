"""What a benchmark asks of another store, and where those stores are installed.

`make peers` installs them into `.peers`, which nothing else looks at. A peer that is not there is
named on the page; it is never left out in silence.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

PEERS = Path(__file__).parents[2] / ".peers"


class AbsentError(Exception):
    """The peer is not installed here; the message says which and how to get it."""


class Opened(Protocol):
    """A peer's store in an empty folder. Keys are whatever the peer hands out."""

    async def put(self, data: bytes) -> Any: ...

    async def read(self, key: Any) -> bytes: ...

    async def scan(self) -> None:
        """Check everything that is stored, as the peer offers it. Raises AbsentError if not."""
        ...

    def files(self, key: Any) -> Sequence[Path]:
        """The files that hold the object: what a barrier has to sync, with their folders."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A store, and what it has done when its `put` returns."""

    name: str
    durable: str
    syncs: bool
    """Bytes and name are synced when `put` returns: comparable with ours as it is."""
    verifies: bool
    """What `read` returns was compared with its digest."""
    blocks: bool = True
    """Its calls hold the caller's thread until they end."""
    open: Callable[[Path], AbstractAsyncContextManager[Opened]]


def sync(files: Iterable[Path]) -> None:
    """The barrier that a durable put has: every file, then every folder that names one."""
    paths = list(files)
    for path in [*paths, *dict.fromkeys(path.parent for path in paths)]:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def load(module: str) -> Any:
    """A module out of `.peers`. Raises AbsentError."""
    # It stays on the path, as peers import late; last, so that what both use is ours.
    if str(PEERS) not in sys.path:
        sys.path.append(str(PEERS))
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise AbsentError(f"not installed ({error}); `make peers` installs it") from error
