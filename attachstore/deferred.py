"""Deferred: items that are made where they are used, once a thread has done what blocks.

Making them in the thread would cost more than the making: one core would write millions of small
values into its cache, and another would read and free them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Generic, TypeVar

T = TypeVar("T")
S = TypeVar("S")


class Deferred(Generic[T]):
    """Up to `items_max` items, which `make` returns: shortly, and without touching a medium.

    Or it returns None: they are not what they looked like. Then `otherwise` begins again at the
    first of them, in a thread, and what the iterator that yielded this had still to say counts
    no longer. Until then some `size_bytes` are held.
    """

    __slots__ = ("items_max", "make", "otherwise", "size_bytes")

    def __init__(
        self,
        items_max: int,
        size_bytes: int,
        make: Callable[[], list[T] | None],
        otherwise: Callable[[], Generator[list[T]]],
    ) -> None:
        self.items_max = items_max
        self.size_bytes = size_bytes
        self.make = make
        self.otherwise = otherwise

    def then(
        self,
        each: Callable[[list[T]], list[S]],
        runs: Callable[[Generator[list[T]]], Generator[list[S]]],
    ) -> Deferred[S]:
        """What `each` makes of the items; or what `runs` makes of those that come otherwise."""

        def make() -> list[S] | None:
            made = self.make()
            return None if made is None else each(made)

        return Deferred(self.items_max, self.size_bytes, make, lambda: runs(self.otherwise()))
