"""Pictures: previews of attachments for the page, within a budget.

An image becomes a small data: URI, a text its first lines. Each distinct object is previewed
once; the page's size does not grow with that of the session's pictures. SVG and HTML are never
drawn, only bytes that the thumbnail maker has decoded and encoded anew.
"""

from __future__ import annotations

import base64
import codecs
from collections.abc import Callable
from dataclasses import dataclass

from attachstore.digest import Digest
from attachstore.errors import AttachstoreError
from attachstore.reference import Reference

SIDE_MAX = 320
"""Longest side of a thumbnail in pixels: twice what the page draws, for dense screens."""
SIDE_MAX_WHEN_SCARCE = 128
BYTES_MAX = 12 << 20
"""Of all previews of a page together, as written."""
SOURCE_BYTES_MAX = 64 << 20
SOURCE_PIXELS_MAX = 100_000_000
EXCERPT_BYTES = 2048
EXCERPT_LINES_MAX = 5
_REMEMBERED_MAX = 100_000

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_ENCODED_TYPES = ((b"\x89PNG", "image/png"), (b"\xff\xd8", "image/jpeg"), (b"RIFF", "image/webp"))
_TEXT_TYPES = frozenset({"application/json", "application/x-ndjson"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What to show of an attachment: a picture, the front of a text, or why there is none."""

    data_uri: str | None = None
    excerpt: str | None = None
    same_as: str | None = None
    """The anchor at which this object was previewed before."""
    note: str | None = None


class Pictures:
    """Makes previews until the budget is used up."""

    def __init__(
        self,
        read: Callable[[Reference, int], bytes],
        thumbnail: Callable[[bytes, str, int], bytes],
        bytes_max: int,
    ) -> None:
        """`read(reference, n)`: the first n verified bytes; `thumbnail` as in admission."""
        self._read = read
        self._thumbnail = thumbnail
        self._bytes_max = bytes_max
        self._bytes_left = bytes_max
        self._anchors: dict[Digest, str] = {}
        self.left_out = 0
        """Previews that did not fit the budget."""

    def preview(self, reference: Reference, anchor: str) -> Preview:
        """A preview of an attachment known to be whole, drawn at `anchor`."""
        make = self._maker(reference.media_type)
        if make is None or not reference.size:
            return Preview()
        seen = self._anchors.get(reference.digest)
        if seen is not None:
            return Preview(same_as=seen) if make == self._picture else Preview()
        if self._bytes_left <= 0:
            self.left_out += 1
            return Preview(note="no preview: the page is full")
        if reference.size > SOURCE_BYTES_MAX or _pixels(reference) > SOURCE_PIXELS_MAX:
            return Preview(note="too large to preview")
        try:
            preview = make(reference)
        except AttachstoreError as error:
            return Preview(note=f"no preview: {error.code}")
        self._bytes_left -= len(preview.data_uri or preview.excerpt or "")
        if preview.note is None and len(self._anchors) < _REMEMBERED_MAX:
            self._anchors[reference.digest] = anchor
        return preview

    def _maker(self, media_type: str) -> Callable[[Reference], Preview] | None:
        if media_type.startswith("image/") and media_type != "image/svg+xml":
            return self._picture
        if media_type.startswith("text/") or media_type in _TEXT_TYPES:
            return self._excerpt
        return None

    def _picture(self, reference: Reference) -> Preview:
        scarce = self._bytes_left < self._bytes_max // 2
        side_max = SIDE_MAX_WHEN_SCARCE if scarce else SIDE_MAX
        data = self._read(reference, reference.size)
        small = self._thumbnail(data, reference.media_type, side_max)
        for signature, media_type in _ENCODED_TYPES:
            if small.startswith(signature):
                return Preview(
                    data_uri=f"data:{media_type};base64,{base64.b64encode(small).decode()}"
                )
        return Preview(note="no preview")

    def _excerpt(self, reference: Reference) -> Preview:
        front = self._read(reference, EXCERPT_BYTES)
        encoding = next((name for bom, name in _BOMS if front.startswith(bom)), "utf-8")
        lines = front.decode(encoding, errors="replace").lstrip("\ufeff").splitlines()
        if len(front) < reference.size and lines:
            lines[-1] = f"{lines[-1].rstrip(chr(0xFFFD))}…"
        return Preview(excerpt="\n".join(lines[:EXCERPT_LINES_MAX]))


def _pixels(reference: Reference) -> int:
    return (reference.width or 0) * (reference.height or 0)
