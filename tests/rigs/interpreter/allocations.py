"""MemoryError from the n-th allocation of a job.

CPython's own test hook makes an allocation fail, whichever allocator it asks (raw, memory,
object), also inside of libraries that use these. What libraries take from malloc directly does
not fail. Only the package's blocking jobs are starved: asyncio itself does not survive a failed
allocation, it forgets to wake who waits.
"""

from __future__ import annotations

from typing import Any

_SMALL = 250
_MANY = _SMALL * _SMALL


def failing_allocations() -> Any:
    """The hook, or None where this Python does not have it."""
    try:
        import _testcapi  # pyright: ignore[reportMissingImports] - CPython has it, without a stub
    except ImportError:
        return None
    return _testcapi


class CountingAllocations:
    """How many allocations its block makes: `count`. A context manager."""

    count = 0

    def __enter__(self) -> None:
        failing_allocations().set_nomemory(_MANY, _MANY + 1)

    def __exit__(self, *_: object) -> None:
        self.count = _MANY - _left(_MANY)


class Starving:
    """The `nth` allocation of its block fails, and no other. A context manager."""

    def __init__(self, nth: int) -> None:
        self._nth = nth
        self._hook = failing_allocations()
        self.landed = False

    def __enter__(self) -> None:
        self._hook.set_nomemory(self._nth, self._nth + 1)

    def __exit__(self, *_: object) -> None:
        self.landed = _left(self._nth) == self._nth


def _left(most: int) -> int:
    """Allocate until one fails; how many there were, or `most` if one has failed before."""
    hook = failing_allocations()
    rounds = most // _SMALL + 1
    high = low = 0
    try:
        # Small numbers are there already: counting with them allocates nothing.
        while high < rounds:
            while low < _SMALL:
                object()
                low += 1
            low = 0
            high += 1
    except MemoryError:
        return high * _SMALL + low
    finally:
        hook.remove_mem_hooks()
    return most
