"""A condition's lock is given back, whatever there is memory for."""

from __future__ import annotations

import pytest

from attachstore.condition import Condition


class Starved:
    """A lock whose end of `with` finds no memory, as CPython's may not."""

    def __init__(self) -> None:
        self.is_held = False

    def acquire(self, *_: object) -> bool:
        self.is_held = True
        return True

    def release(self) -> None:
        self.is_held = False

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        raise MemoryError


def test_the_lock_is_given_back_though_there_is_no_memory_for_the_end_of_with() -> None:
    lock = Starved()
    condition = Condition(lock)  # pyright: ignore[reportArgumentType] - stands in for a lock

    with condition:
        assert lock.is_held

    assert not lock.is_held


def test_an_error_passes_and_the_lock_is_given_back() -> None:
    condition = Condition()

    with pytest.raises(ZeroDivisionError), condition:
        raise ZeroDivisionError

    assert condition.acquire(blocking=False)
    condition.release()
