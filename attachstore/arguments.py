"""Arguments: what callers hand over, checked at the call, before anything is done."""

from __future__ import annotations


def check_int(name: str, value: object, least: int) -> None:
    """Raises TypeError if `value` is no int (True is none), ValueError if it is below `least`."""
    if not isinstance(value, int) or isinstance(value, bool):
        message = f"{name} is an int, not {type(value).__name__}"
        raise TypeError(message)
    if value < least:
        message = f"{name} must be {least} or more: {value}"
        raise ValueError(message)
