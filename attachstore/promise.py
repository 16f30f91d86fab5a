"""Promise: whether a store handle may still vouch for what it makes durable.

The kernel reports a failed sync once, and drops what it could not write. Later syncs, by anyone
and through any descriptor, say OK although the data is gone. So:

 (1) what was made visible just before the failure is taken back if possible, so that no other
     writer finds it and vouches for it;
 (2) the handle is poisoned: it changes and promises nothing any more. Reading goes on, since a
     read promises what it has verified, not that it will last.

An error that says the sync was not tried (no descriptors left) or is never done here (the file
system does not know it) has lost nothing, and poisons only if taking back failed. Where others
may rely on the change by then, nothing is taken back after such an error: who has found it has
synced it, and was told OK.
"""

from __future__ import annotations

import contextlib
import errno
import logging
from collections.abc import Callable
from pathlib import Path

from attachstore.disk import UNSUPPORTED, Disk
from attachstore.errors import StorePoisonedError

_NOT_TRIED = UNSUPPORTED | {errno.EMFILE, errno.ENFILE}
_log = logging.getLogger("attachstore")


class Promise:
    """One handle's syncs of visible things. Methods but `check` raise OSError.

    `location` names the handle's place in errors.
    """

    def __init__(self, disk: Disk, location: str) -> None:
        self._disk = disk
        self._location = location
        self._broken_by: str | None = None

    def check(self) -> None:
        """Raises StorePoisonedError after a failure."""
        if self._broken_by is not None:
            raise StorePoisonedError(where=self._location, reason=self._broken_by)

    def sync_bytes(self, sync: Callable[[], None], where: str) -> None:
        """Make bytes durable that are visible already, at `where`, with their own `sync`."""
        try:
            sync()
        except OSError as error:
            if error.errno not in _NOT_TRIED:
                self._break(error, where)
            raise

    def sync_directory(
        self,
        directory: Path,
        undo: Callable[[], None] | None = None,
        *,
        others_may_rely: bool = False,
    ) -> None:
        """Make the names in `directory` durable; on failure `undo` takes the last change back.

        With `others_may_rely`, no lock keeps others from vouching for the change meanwhile.
        """
        try:
            self._disk.sync_directory(directory)
        except OSError as error:
            if others_may_rely and error.errno in _NOT_TRIED:
                raise
            taken_back = undo is None
            if undo is not None:
                with contextlib.suppress(OSError):
                    undo()
                    taken_back = True
            if error.errno not in _NOT_TRIED or not taken_back:
                self._break(error, ascii(str(directory))[1:-1])
            raise

    def _break(self, error: OSError, where: str) -> None:
        self._broken_by = f"{error.strerror} at {where}"
        _log.warning("poisoned: a sync of %s failed (%s)", where, error.strerror)
