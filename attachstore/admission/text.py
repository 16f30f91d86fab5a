"""Text: which bytes are text, and the few kinds of text that have a type of their own.

A text type is a label, not a promise about an encoding (docs/reference/admission.md): bytes are
kept as they are. So these rules decide only what undeclared bytes are called, and what a
declared text may not be: SVG.
"""

from __future__ import annotations

import codecs
import re

import msgspec

from attachstore.admission.media_type import JSON, NDJSON, PLAIN, SVG
from attachstore.admission.reading import Reader, size_of

FRONT_BYTES = 64 << 10
JSON_BYTES_MAX = 16 << 20
"""Undeclared JSON above this is text/plain: to be sure, all of it would have to be in memory."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROLS = bytes({*range(32), 127} - {7, 8, 9, 10, 12, 13, 27})
"""Control characters that no text holds; bell, backspace and escape are in terminal output."""
_MARKS = tuple(bom for bom, _ in _BOMS)
_BLANKS = bytes(byte for byte in range(256) if chr(byte).isspace())
"""Of Latin-1, which text without a byte order mark is read as."""
_NEAR_BYTES = 256
_SPACE = b" \t\r\n\f"
_PROLOG = re.compile(
    # Possessive (++, *+): on hostile input nothing is tried twice.
    r"\s*+(?:<\?.*?\?>|<!--.*?-->"
    r"|<!DOCTYPE\s++(?P<root>[^\s>\[]++)[^\[>]*+(?:\[.*?\]\s*+)?>)",
    re.DOTALL | re.IGNORECASE,
)
_ROOT = re.compile(r"\s*+<(?:[A-Za-z_][\w.-]*:)?(?P<name>[A-Za-z][\w.-]*)[\s/>]", re.ASCII)
_HTML_ROOTS = frozenset({"html", "head", "body", "title", "script", "style", "table", "div"})


def kind(reader: Reader) -> str | None:
    """text/plain, text/html, JSON, NDJSON or SVG for bytes that are text; None for binary."""
    front = reader.read(FRONT_BYTES)
    if not is_text(front, whole=len(front) < FRONT_BYTES):
        return None
    marked = markup(front)
    if marked is not None:
        return marked
    if (
        front.removeprefix(codecs.BOM_UTF8).lstrip(_SPACE)[:1] in {b"{", b"["}
        and size_of(reader) <= JSON_BYTES_MAX
    ):
        reader.seek(0)
        return _json_kind(reader.read()) or PLAIN
    return PLAIN


def is_svg(reader: Reader) -> bool:
    """Whether the root element is svg: behind a byte order mark, comments and declarations."""
    front = reader.read(FRONT_BYTES)
    return markup(front) == SVG


def is_text(front: bytes, *, whole: bool) -> bool:
    """Whether these bytes, the first or all of a file, look like text in some encoding."""
    for bom, encoding in _BOMS:
        if front.startswith(bom):
            return encoding == "utf-8" or _decodes(front[len(bom) :], encoding, whole=whole)
    if not front or front.translate(None, _CONTROLS) != front:
        return False
    if _decodes(front, "utf-8", whole=whole):
        return True
    # Some single-byte encoding: a text in it has ASCII too, spaces at the least.
    return len(front) >= 4 and any(byte < 128 for byte in front[4:])


def markup(front: bytes) -> str | None:
    """text/html or image/svg+xml by the root element, None for anything else."""
    if _first(front) not in {b"", b"<"}:
        return None
    text = _decoded(front)
    at = 0
    if text.lstrip()[:1] != "<":
        return None
    while found := _PROLOG.match(text, at):
        root = (found["root"] or "").lower()
        if root == "html":
            return "text/html"
        at = found.end()
    found = _ROOT.match(text, at)
    name = found["name"].lower() if found else ""
    if name == "svg":
        return SVG
    return "text/html" if name in _HTML_ROOTS else None


def check_utf8(reader: Reader) -> tuple[int, str] | None:
    """Offset in bytes and reason of the first thing that is not UTF-8; None if all of it is."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    offset = 0
    while True:
        block = reader.read(FRONT_BYTES)
        pending = len(decoder.getstate()[0])
        try:
            decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            return offset - pending + error.start, error.reason
        if not block:
            return None
        offset += len(block)


def _json_kind(data: bytes) -> str | None:
    data = data.removeprefix(codecs.BOM_UTF8)
    if _is_json(data):
        return JSON
    lines = [line for line in data.split(b"\n") if line.strip(_SPACE)]
    if len(lines) > 1 and all(
        line.lstrip(_SPACE)[:1] in b"{[" and _is_json(line) for line in lines
    ):
        return NDJSON
    return None


def _is_json(data: bytes) -> bool:
    try:
        # Raw: checked to the end, but nothing is built.
        msgspec.json.decode(data, type=msgspec.Raw)
        data.decode("utf-8")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _decodes(data: bytes, encoding: str, *, whole: bool) -> bool:
    try:
        codecs.getincrementaldecoder(encoding)().decode(data, final=whole)
    except UnicodeDecodeError:
        return False
    return True


def _first(front: bytes) -> bytes:
    """The first character that is not blank, if it is one byte long and near; else nothing.

    Most text is no markup, and need not be decoded to see that.
    """
    near = front[:_NEAR_BYTES]
    return b"" if near.startswith(_MARKS) else near.lstrip(_BLANKS)[:1]


def _decoded(front: bytes) -> str:
    for bom, encoding in _BOMS:
        if front.startswith(bom):
            return front[len(bom) :].decode(encoding, "replace")
    return front.decode("latin-1")
