"""libmagic, through python-magic: asked only for what nothing else here recognises."""

from __future__ import annotations

import importlib
import threading
from typing import Any

from attachstore.errors import MissingDependencyError

FRONT_BYTES = 64 << 10
"""Signatures lie in front; libmagic itself looks no further for most, and more bytes cost more."""

_importing = threading.Lock()


def guess(front: bytes) -> str:
    """Its MIME type for these bytes. Raises MissingDependencyError.

    Only `from_buffer` may be used of that module: it is locked. `detect_from_content`, which
    comes in the same package, kills the process when two threads call it.
    """
    return _module().from_buffer(front, mime=True)


def _module() -> Any:
    try:
        with _importing:
            return importlib.import_module("magic")
    except ImportError as error:  # the wheel does not bring the C library
        raise MissingDependencyError(
            where="admission",
            package="libmagic",
            reason="it names types that attachstore does not read itself",
            command="apt-get install libmagic1",
        ) from error
