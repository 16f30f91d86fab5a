"""Any JSON value as nested, collapsed lists, with attachments shown where they are referred to.

What is drawn of one event is bounded (fields, depth, characters of a text), whatever the event
holds; only attachments are always drawn.
"""

from __future__ import annotations

import bisect
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from attachstore.replay.markup import EMPTY, Html, count_text, element, excerpt, join

FIELDS_MAX = 300
DEPTH_MAX = 16
TEXT_CHARS_MAX = 600
_KEY_CHARS_MAX = 120


class Tree:
    """Draws the values of one event."""

    def __init__(self, pointers: Iterable[str], card: Callable[[str], Html]) -> None:
        """`card` draws the attachment at a JSON pointer; `pointers` are all there are."""
        self._card = card
        self._pointers = frozenset(pointers)
        self._sorted = sorted(self._pointers)
        self._above = frozenset(above for pointer in self._pointers for above in _above(pointer))
        self._fields_left = FIELDS_MAX

    def value(self, value: Any, pointer: str, depth: int = 0) -> Html:
        """The value at `pointer`, its containers collapsed unless an attachment is inside."""
        if pointer in self._pointers:
            return self._card(pointer)
        if isinstance(value, str):
            return _text_value(value)
        if isinstance(value, dict | list):
            return self._container(cast("dict[str, Any] | list[Any]", value), pointer, depth)
        return element("code", json.dumps(value), class_="literal")

    def fields(self, value: Mapping[str, Any], pointer: str, depth: int = 0) -> Html:
        """The members of an object as a list of names and values."""
        return element("dl", join(self._rows(value.items(), pointer, depth)), class_="fields")

    def is_attachment(self, pointer: str) -> bool:
        return pointer in self._pointers

    def holds_attachment(self, pointer: str) -> bool:
        """Whether the value at `pointer` is an attachment, or one is anywhere inside it."""
        return pointer in self._pointers or pointer in self._above

    def _container(self, value: dict[str, Any] | list[Any], pointer: str, depth: int) -> Html:
        named = isinstance(value, dict)
        if not value:
            return element("code", "{}" if named else "[]", class_="literal")
        is_open = pointer in self._above
        if is_open and (depth >= DEPTH_MAX or self._are_attachments(value, pointer)):
            return element("div", join(map(self._card, self._inside(pointer))), class_="cards")
        if not is_open and (depth >= DEPTH_MAX or self._fields_left <= 0):
            return element("span", f"{count_text(len(value), 'value')} not shown", class_="cut")
        summary = element("summary", count_text(len(value), "field" if named else "item"))
        items = value.items() if named else ((str(at), item) for at, item in enumerate(value))
        rows = element("dl", join(self._rows(items, pointer, depth + 1)), class_="fields")
        return element("details", summary, rows, class_="tree", open=is_open)

    def _are_attachments(self, value: dict[str, Any] | list[Any], pointer: str) -> bool:
        at = range(len(value)) if isinstance(value, list) else ()
        return bool(at) and all(f"{pointer}/{number}" in self._pointers for number in at)

    def _inside(self, pointer: str) -> Iterator[str]:
        """The attachments inside, in the order of their pointers."""
        within = f"{pointer}/"
        for found in itertools.islice(self._sorted, bisect.bisect_left(self._sorted, within), None):
            if not found.startswith(within):
                return
            yield found

    def _rows(self, items: Iterable[tuple[str, Any]], pointer: str, depth: int) -> Iterator[Html]:
        left_out = 0
        for key, item in items:
            below = f"{pointer}/{escape_pointer(key)}"
            if self._fields_left <= 0 and not self.holds_attachment(below):
                left_out += 1
                continue
            self._fields_left -= 1
            name, _ = excerpt(key, _KEY_CHARS_MAX)
            shown = self.value(item, below, depth)
            yield element("div", element("dt", name), element("dd", shown))
        if left_out:
            rest = f"{count_text(left_out, 'more value')} not shown"
            yield element("div", element("dd", rest, class_="cut"))


def escape_pointer(key: str) -> str:
    """One token of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def _above(pointer: str) -> Iterator[str]:
    """The pointers of everything that holds the value at `pointer`; "" is the whole."""
    while pointer:
        pointer = pointer.rpartition("/")[0]
        yield pointer


def _text_value(value: str) -> Html:
    shown, left_out = excerpt(value, TEXT_CHARS_MAX)
    more = element("span", f" … {left_out:,} more characters", class_="cut") if left_out else EMPTY
    return element("span", element("bdi", shown), more, class_="string")
