"""DurableNames: syncs of directories, and what follows when one fails.

The kernel reports a failed sync once; later ones, by anyone, say OK although the name is lost.
So what was made visible just before is taken back if possible, and the medium promises nothing
more: it is poisoned. Reading goes on.
"""

from __future__ import annotations

import contextlib
import errno
import logging
from collections.abc import Callable
from pathlib import Path

from attachstore.disk import UNSUPPORTED, Disk
from attachstore.errors import StorePoisonedError

# The sync was not tried, or is never done here: nothing was lost by it.
_NOT_TRIED = UNSUPPORTED | {errno.EMFILE, errno.ENFILE}
_logger = logging.getLogger("attachstore")


class DurableNames:
    """Shared by everything that one medium writes."""

    def __init__(self, disk: Disk, location: str) -> None:
        self._disk = disk
        self._location = location
        self._broken_by: str | None = None

    def check(self) -> None:
        """Raises StorePoisonedError after a failure."""
        if self._broken_by is not None:
            raise StorePoisonedError(where=self._location, reason=self._broken_by)

    def sync(self, directory: Path, undo: Callable[[], None] | None = None) -> None:
        """Make the names in `directory` durable; on failure `undo` takes the last change back.

        Raises OSError.
        """
        try:
            self._disk.sync_directory(directory)
        except OSError as error:
            taken_back = undo is None
            if undo is not None:
                with contextlib.suppress(OSError):
                    undo()
                    taken_back = True
            if error.errno not in _NOT_TRIED or not taken_back:
                self._broken_by = f"{error.strerror} at {directory.name}"
                _logger.warning("poisoned: a sync of %s failed: %s", directory, error.strerror)
            raise
