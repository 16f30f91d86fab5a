"""Arguments: what callers hand over, checked at the call, before anything is done."""

from __future__ import annotations

import math


def check_int(name: str, value: object, least: int) -> None:
    """Raises TypeError if `value` is no int (True is none), ValueError if it is below `least`."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong_type(name, value, "an int")
    if value < least:
        message = f"{name} must be {least} or more: {value}"
        raise ValueError(message)


def check_seconds(name: str, value: object) -> None:
    """Raises TypeError if `value` is no number, ValueError if it is below 0, infinite or NaN."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise wrong_type(name, value, "a number of seconds")
    if not 0 <= value < math.inf:  # no comparison holds for NaN
        message = f"{name} must be 0 or more and finite: {value}"
        raise ValueError(message)


def check_kind(
    name: str, value: object, kinds: type | tuple[type, ...], described: str | None = None
) -> None:
    """Raises TypeError unless `value` is of one of the `kinds`, in words `described`."""
    if not isinstance(value, kinds):
        if described is None:
            named = kinds if isinstance(kinds, tuple) else (kinds,)
            described = " or ".join(f"a {kind.__name__}" for kind in named)
        raise wrong_type(name, value, described)


def wrong_type(name: str, value: object, described: str) -> TypeError:
    """Says what `name` is by its kind alone: a value may be long."""
    return TypeError(f"{name} is {described}, not {type(value).__name__}")
