"""CopyFile: a user's copy of an object, whole or not there at all.

Written beside the target under a hidden name, synced, then renamed over it, so that neither a
crash nor a corrupt object leaves half a file or costs the old one. Only a regular file is ever
replaced: renaming over a device or a link would put a file where a user's system has neither.
"""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path
from types import TracebackType
from typing import Self

from attachstore.destination import destination_errors
from attachstore.disk import Disk, is_regular, remove_quietly, storage_errors, write_all
from attachstore.errors import DestinationError
from attachstore.layout import refuse_inside
from attachstore.objects.file_object import kind_of, place

_MODE = 0o644  # less the umask; never writable by others


class CopyFile:
    """A file in the making. Leaving the block without `publish` leaves nothing behind."""

    def __init__(self, disk: Disk, target: Path) -> None:
        self._disk = disk
        self._target = target
        self._temporary = target.parent / f".attachstore-{secrets.token_hex(8)}.part"
        self._descriptor = -1
        self._offset_bytes = 0

    def __enter__(self) -> Self:
        refuse_inside(self._disk, self._target)
        with storage_errors(self._target), destination_errors(self._target):
            try:
                self._refuse_irregular()
                self._descriptor = self._disk.create(self._temporary, _MODE)
            except (FileNotFoundError, NotADirectoryError):
                reason = "there is no such directory"
                raise DestinationError(where=place(self._target.parent), reason=reason) from None
        return self

    def restart(self) -> None:
        """Begin again at byte 0."""
        with storage_errors(self._target):
            self._disk.truncate(self._descriptor, 0)
        self._offset_bytes = 0

    def write(self, block: memoryview) -> None:
        with storage_errors(self._target):
            write_all(self._disk, self._descriptor, block, self._offset_bytes)
        self._offset_bytes += len(block)

    def publish(self) -> None:
        """Give it the target's name, durably."""
        with storage_errors(self._target):
            self._disk.sync_file(self._descriptor)
            self._refuse_irregular()
            self._disk.rename(self._temporary, self._target)
            self._disk.sync_directory(self._target.parent)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            with storage_errors(self._target):
                self._disk.close(self._descriptor)
            return
        remove_quietly(self._disk, self._temporary)
        with contextlib.suppress(OSError):
            self._disk.close(self._descriptor)

    def _refuse_irregular(self) -> None:
        try:
            status = self._disk.status(self._target)
        except FileNotFoundError:
            return
        if not is_regular(status):
            raise DestinationError(
                where=place(self._target), reason=f"it is {kind_of(status)}, not a file"
            )
