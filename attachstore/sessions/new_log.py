"""NewLog: a log in the making, without a name of its own until it is whole."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterable
from pathlib import Path

from attachstore.disk import Disk, leads_to, remove_quietly, write_all
from attachstore.unnamed import open_unnamed, unnamed_files_last

NEW_PREFIX = ".new-"
FILE_MODE = 0o644


class NewLog:
    """A temporary file in the session's directory; all methods raise OSError.

    A file without a name goes with its writer, however that ends. Where there are none it is
    called `.new-<random>`, and whoever next holds the session's lock removes what a crash left.
    """

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._path: Path | None = None
        self.descriptor = self._open(directory)

    def fill(self, content: Iterable[bytes]) -> None:
        """Write all of `content` and make it durable."""
        size_bytes = 0
        for block in content:
            write_all(self._disk, self.descriptor, block, size_bytes)
            size_bytes += len(block)
        self._disk.sync_file(self.descriptor)

    def publish(self, path: Path) -> None:
        """Give it its name. Raises FileExistsError rather than replace; nothing is synced."""
        try:
            if self._path is None:
                self._disk.link_open_file(self.descriptor, path)
            else:
                self._disk.link(self._path, path)
        except FileExistsError:
            raise
        except BaseException:
            self.take_back(path)  # an error does not say that it was not done
            raise
        if self._path is not None:
            remove_quietly(self._disk, self._path)
            self._path = None

    def take_back(self, path: Path) -> None:
        """Remove the name again, if it is this file's. Raises OSError."""
        if leads_to(self._disk, path, self.descriptor):
            self._disk.unlink(path)

    def abandon(self) -> None:
        """Leave nothing behind, as far as the disk lets us."""
        if self._path is not None:
            remove_quietly(self._disk, self._path)
        with contextlib.suppress(OSError):
            self._disk.close(self.descriptor)

    def _open(self, directory: Path) -> int:
        if unnamed_files_last(self._disk, directory):
            descriptor = open_unnamed(self._disk, directory, FILE_MODE)
            if descriptor is not None:
                return descriptor
        self._path = directory / f"{NEW_PREFIX}{secrets.token_hex(8)}"
        return self._disk.create(self._path, FILE_MODE)
