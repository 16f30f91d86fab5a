"""Html: text that is safe to write into the page, and the only ways to get some.

A plain `str` is somebody's text and is escaped wherever it goes in; an `Html` was made here.
Joining two `Html` with `+` gives a plain `str` again, so a mistake shows up as visible tags and
never as a hole.

Characters that would act rather than show (controls, bidi overrides, lone surrogates) are
written out, so that a name cannot hide its end and the page is always valid UTF-8.
"""

from __future__ import annotations

import html
from collections.abc import Iterable

_NEWLINES = frozenset("\n\t")
_BIDI = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_OTHER_INVISIBLE = (*range(0x80, 0xA0), 0x2028, 0x2029, 0xFEFF, *range(0xFFF9, 0xFFFC))
_SHOWN = (
    {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in _NEWLINES}
    | {0x7F: "\u2421"}
    | {code: f"\\u{code:04x}" for code in (*_BIDI, *_OTHER_INVISIBLE, *range(0xD800, 0xE000))}
)
_VOID = frozenset({"br", "img", "input", "meta", "wbr"})


class Html(str):
    """Markup that may be written as it is."""

    __slots__ = ()


EMPTY = Html("")


def text(value: str) -> Html:
    """`value` as visible text, for content and for attributes."""
    return Html(html.escape(value.translate(_SHOWN), quote=True))


def join(parts: Iterable[str], separator: str = "") -> Html:
    """One after the other, plain strings escaped."""
    return Html(_html(separator).join(map(_html, parts)))


def element(name: str, *children: str, **attributes: str | int | bool | None) -> Html:
    """`<name …>children</name>`. An attribute that is None or False is left out.

    `class_` and `for_` are written without the underscore; underscores inside become dashes.
    """
    written = [_attribute(key, value) for key, value in attributes.items()]
    start = f"<{name}{''.join(written)}>"
    return Html(start if name in _VOID else f"{start}{join(children)}</{name}>")


def _html(value: str) -> str:
    return value if isinstance(value, Html) else text(value)


def _attribute(key: str, value: str | int | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{text(str(value))}"'


def icon(name: str) -> Html:
    """One of the page's own drawings, `page.html` holds them."""
    use = element("use", href=f"#icon-{name}")
    return element("svg", use, class_="icon", aria_hidden="true", focusable="false")


# -- numbers -----------------------------------------------------------------------------------

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def size_text(size_bytes: int) -> str:
    """`512 bytes`, `1.5 KiB`, `12.0 MiB`."""
    if size_bytes < 1024:  # noqa: PLR2004 - the unit itself
        return count_text(size_bytes, "byte")
    value = float(size_bytes)
    unit = ""
    for unit in _UNITS:  # noqa: B007 - the last one stays
        value /= 1024
        if value < 1023.95:  # noqa: PLR2004 - would be shown as 1024.0
            break
    return f"{value:.1f} {unit}"


def count_text(count: int, noun: str, plural: str | None = None) -> str:
    """`1 event`, `1,200 events`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def excerpt(value: str, chars_max: int) -> tuple[str, int]:
    """The front of `value`, and how many characters are left out.

    Cut at a space or line end near the limit, where there is one.
    """
    if len(value) <= chars_max:
        return value, 0
    front = value[:chars_max]
    near_end = max(front.rfind(" ", chars_max - 40), front.rfind("\n", chars_max - 40))
    kept = front[:near_end] if near_end > 0 else front
    return kept, len(value) - len(kept)
