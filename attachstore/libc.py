"""Calls of the C library that Python does not wrap."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any


@functools.cache
def libc_function(name: str, *last_kinds: Any) -> Callable[..., int] | None:
    """A call whose first argument is an int, or None where this library has none.

    It answers -1 on failure, and `ctypes.get_errno` says why. Raises MemoryError.
    """
    function = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if function is not None:
        function.argtypes = [ctypes.c_int, *last_kinds]
    return None if function is None else functools.partial(_called, function)


def _called(function: Callable[..., int], *arguments: Any) -> int:
    try:
        return function(*arguments)
    except ctypes.ArgumentError as error:  # its way of saying that there is no memory
        raise MemoryError from error
