"""Opening a store: from a path or URL to a directory that is a store, made if need be."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit

from attachstore import layout
from attachstore.disk import Disk
from attachstore.errors import InvalidConfigurationError, StoreLayoutError, StoreMissingError
from attachstore.layout import JSONL, SQLITE
from attachstore.objects.filesystem import FilesystemBackend
from attachstore.sessions.jsonl import JsonlMedium
from attachstore.sessions.medium import SessionMedium

if TYPE_CHECKING:
    from attachstore.sessions.sqlite import SqliteMedium

S = TypeVar("S")
StrPath: TypeAlias = str | os.PathLike[str]
"""A path as users give it."""
MEDIA = (JSONL, SQLITE)
"""Where session logs can be, as attachstore.json and the configuration name it."""


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


def local_path(root: StrPath) -> Path:
    """A path or file: URL as an absolute path. Raises InvalidConfigurationError."""
    text = os.fspath(root)
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise _no_path(text, "it holds a lone surrogate, which no file name can") from None
    if "\0" in text or "%00" in text:
        raise _no_path(text, "it holds a NUL, which no file name can")
    # Not resolve(): that would follow the user's links, which may change later.
    if "://" not in text:
        try:
            return Path(os.path.abspath(text))  # noqa: PTH100
        except OSError:
            reason = "it is relative, and the current directory has been removed"
            raise _no_path(text, reason) from None
    parts = urlsplit(text)
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"}:
        raise _no_path(text, f"there is no medium for {parts.scheme}: URLs")
    return Path(os.path.abspath(unquote(parts.path)))  # noqa: PTH100


def _no_path(text: str, reason: str) -> InvalidConfigurationError:
    return InvalidConfigurationError(where=ascii(text[:200])[1:-1], key="store", reason=reason)


def read_or_make(
    disk: Disk, root: Path, *, make: bool, sessions: str | None
) -> tuple[layout.Marker, SessionMedium]:
    """The marker of the store at `root` and the medium of its sessions.

    The store is made if it is not there and `make` is true, with the medium `sessions`. One that
    is there has its own.

    Raises:
        StoreMissingError: no store is there, and none was to be made.
        StoreForeignError, StoreVersionError: what is there is not for us.
        StoreLayoutError: it is damaged, or its sessions are not in the medium that was asked for.
        InvalidConfigurationError: there is no medium of that name.
        DestinationError: the new store would lie in another one.
    """
    if sessions is not None and sessions not in MEDIA:
        reason = f"{sessions[:40]!a} is none of {', '.join(MEDIA)}"
        raise InvalidConfigurationError(where="sessions", key="sessions", reason=reason)
    marker = layout.read_marker(disk, root)
    if marker is None:
        layout.refuse_foreign(disk, root)
        if not make:
            raise StoreMissingError(where=ascii(str(root))[1:-1])
        disk.keep_to(root, None)
        layout.make_root(disk, root)
        FilesystemBackend.create(root, disk)
        create_medium(sessions or JSONL, root, disk)
        marker = layout.write_marker(disk, root, sessions=sessions or JSONL)
    if marker.sessions not in MEDIA or sessions not in {None, marker.sessions}:
        reason = f"its sessions are in {marker.sessions!a}, not in {sessions or ' or '.join(MEDIA)}"
        raise StoreLayoutError(where=str(root), reason=reason)
    medium = medium_of(marker.sessions, root, disk)
    disk.keep_to(root, layout.MARKER)
    return marker, medium


def create_medium(kind: str, root: Path, disk: Disk) -> None:
    """Make what the medium of that kind needs below `root`, durably. It may be there."""
    if kind == JSONL:
        JsonlMedium.create(root, disk)
        return
    from attachstore.sessions.sqlite import SqliteMedium  # noqa: PLC0415 - most stores have none

    SqliteMedium.create(root, disk).close()


def medium_of(kind: str, root: Path, disk: Disk) -> JsonlMedium | SqliteMedium:
    """The medium of that kind below `root`. Touches nothing."""
    if kind == JSONL:
        return JsonlMedium(root, disk)
    from attachstore.sessions.sqlite import SqliteMedium  # noqa: PLC0415 - most stores have none

    return SqliteMedium(root, disk)
