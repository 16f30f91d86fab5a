"""Opening a store: from a path or URL to a directory that is a store, made if need be."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from types import TracebackType
from typing import Generic, TypeVar
from urllib.parse import unquote, urlsplit

from attachstore import layout
from attachstore.disk import Disk
from attachstore.errors import InvalidConfigurationError, StoreLayoutError, StoreMissingError
from attachstore.objects.filesystem import FilesystemBackend
from attachstore.sessions.jsonl import JsonlMedium

S = TypeVar("S")
SESSIONS = "jsonl"


class Opening(Generic[S]):
    """Something about to be opened: `async with ...`, or `await ...` and close it yourself."""

    def __init__(
        self, start: Callable[[], Awaitable[S]], stop: Callable[[], Awaitable[None]]
    ) -> None:
        self._start = start
        self._stop = stop

    def __await__(self) -> Generator[object, None, S]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> S:
        try:
            return await self._start()
        except BaseException:
            await self._stop()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stop()


def local_path(root: str | os.PathLike[str]) -> Path:
    """A path or file: URL as an absolute path. Raises InvalidConfigurationError."""
    text = os.fspath(root)
    # Not resolve(): that would follow the user's links, which may change later.
    if "://" not in text:
        return Path(os.path.abspath(text))  # noqa: PTH100
    parts = urlsplit(text)
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"}:
        raise InvalidConfigurationError(
            where=text[:200], key="store", reason=f"there is no medium for {parts.scheme}: URLs"
        )
    return Path(os.path.abspath(unquote(parts.path)))  # noqa: PTH100


def read_or_make(disk: Disk, root: Path, *, make: bool) -> layout.Marker:
    """The marker of the store at `root`, which is made if it is not there and `make` is true.

    Raises:
        StoreMissingError: no store is there, and none was to be made.
        StoreForeignError, StoreVersionError, StoreLayoutError: what is there is not for us.
    """
    marker = layout.read_marker(disk, root)
    if marker is None:
        layout.refuse_foreign(disk, root)
        if not make:
            raise StoreMissingError(where=ascii(str(root))[1:-1])
        layout.make_root(disk, root)
        FilesystemBackend.create(root, disk)
        JsonlMedium.create(root, disk)
        marker = layout.write_marker(disk, root, sessions=SESSIONS)
    if marker.sessions != SESSIONS:
        raise StoreLayoutError(
            where=str(root), reason=f"its sessions are in {marker.sessions!a}, not {SESSIONS}"
        )
    return marker
