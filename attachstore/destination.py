"""Destinations: paths that a user gave to be written to, and that cannot be written to by nature.

Nothing is wrong with the disk then, and the same call fails again: the user has to name another
place.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Generator
from pathlib import Path

from attachstore.confinement import OutOfPlaceError
from attachstore.errors import DestinationError

_REASONS = {
    errno.ENAMETOOLONG: "a name in its path, or the path, is too long",
    errno.ELOOP: "a link in its path leads round in a circle, or is not followed here",
    errno.ENOTDIR: "its path leads through something that is no directory",
}


@contextlib.contextmanager
def destination_errors(path: Path) -> Generator[None]:
    """Turn the OSErrors that only a path can cause into DestinationError.

    Inside a block of `storage_errors`, for users' paths only. What is expected to be absent, or
    to be there, is handled inside.
    """
    try:
        yield
    except OutOfPlaceError:  # in a store: its layout is at fault
        raise
    except OSError as error:
        reason = _REASONS.get(error.errno or 0)
        if reason is None:
            raise
        raise DestinationError(where=ascii(str(path))[1:-1], reason=reason) from error
