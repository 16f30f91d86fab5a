"""Where the command keeps what outlives it: the user's state directory, never the store."""

from __future__ import annotations

import os
from pathlib import Path

from attachstore.digest import Digest
from attachstore.disk import storage_errors
from attachstore.errors import InvalidConfigurationError
from attachstore.store import Store

VARIABLE = "XDG_STATE_HOME"
_PLACE_DIGITS = 12


def checkpoint_of(store: Store) -> Path:
    """The file that keeps how far a scan of this store has come; its directory is made.

    One for each place of a store: a copy of a store has the same id, and is another store.
    """
    marker = store.marker
    assert marker is not None  # noqa: S101 - for the type checker: an open store has one
    place = Digest.of(os.fsencode(store.root)).hex[:_PLACE_DIGITS]
    store_id = "".join(char for char in marker.id[:40] if char.isalnum() or char == "-")
    directory = _state_directory() / "attachstore"
    with storage_errors(directory):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory / f"scan-{store_id}-{place}.json"


def _state_directory() -> Path:
    """https://specifications.freedesktop.org/basedir-spec/: relative paths are to be ignored."""
    given = Path(os.environ.get(VARIABLE, ""))
    if given.is_absolute():
        return given
    try:
        return Path.home() / ".local" / "state"
    except RuntimeError as error:
        raise InvalidConfigurationError(
            where="environment", key=VARIABLE, reason=f"there is no home directory ({error})"
        ) from None
