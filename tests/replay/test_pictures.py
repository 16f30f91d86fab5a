"""Previews: what is decoded for the page at all, and what never is."""

import dataclasses
from typing import Any

import pytest

from attachstore.digest import Digest
from attachstore.errors import CorruptImageError, ObjectCorruptError
from attachstore.reference import Reference
from attachstore.replay import pictures
from attachstore.replay.pictures import Pictures, Preview

SMALL = b"RIFF\0\0\0\0WEBP"


def reference(media_type: str, size: int = 9, **fields: Any) -> Reference:
    return Reference(digest=Digest("0" * 64), size=size, media_type=media_type, **fields)


class Maker:
    """Reads and shrinks whatever it is asked for, and remembers."""

    def __init__(self, data: bytes = b"line\n" * 9) -> None:
        self.data = data
        self.read: list[Reference] = []
        self.shrunk: list[str] = []
        self.pictures = Pictures(self._read, self._thumbnail, 1 << 20)

    def _read(self, wanted: Reference, size_bytes: int) -> bytes:
        self.read.append(wanted)
        return self.data[:size_bytes]

    def _thumbnail(self, data: bytes, media_type: str, side_max: int) -> bytes:
        self.shrunk.append(media_type)
        return SMALL


@pytest.mark.parametrize("media_type", ["image/svg+xml", "application/pdf", "audio/wav"])
def test_what_is_no_picture_and_no_text_is_not_even_read(media_type: str) -> None:
    """SVG least of all: it is a program."""
    maker = Maker()

    assert maker.pictures.preview(reference(media_type), "e1") == Preview()
    assert maker.read == []


def test_html_is_a_text() -> None:
    maker = Maker(b"<h1>hello</h1>")

    assert maker.pictures.preview(reference("text/html", 14), "e1").excerpt == "<h1>hello</h1>"
    assert maker.shrunk == []


@pytest.mark.parametrize(
    "changes",
    [{"size": pictures.SOURCE_BYTES_MAX + 1}, {"width": 20_000, "height": 20_000}],
)
def test_what_is_too_large_is_not_decoded(changes: dict[str, int]) -> None:
    """A page is no reason to hold gigabytes of pixels."""
    maker = Maker()
    large = dataclasses.replace(reference("image/png"), **changes)

    assert maker.pictures.preview(large, "e1") == Preview(note="too large to preview")
    assert maker.read == []


@pytest.mark.parametrize(
    "error",
    [
        CorruptImageError(where="x", media_type="image/png", reason="?"),
        ObjectCorruptError(where="x", digest="d", actual="a", size_bytes=1),
    ],
)
def test_a_preview_that_fails_costs_only_itself(error: Exception) -> None:
    """The attachment was verified; that it cannot be drawn is no fault of the store."""

    class Failing(Maker):
        def _thumbnail(self, data: bytes, media_type: str, side_max: int) -> bytes:
            raise error

    made = Failing().pictures.preview(reference("image/png"), "e1")

    assert made.note is not None
    assert made.note.startswith("no preview: ")


def test_a_thumbnail_of_unknown_make_is_not_embedded() -> None:
    """The page's policy takes images; what they are is decided here, by their own bytes."""

    class Drawing(Maker):
        def _thumbnail(self, data: bytes, media_type: str, side_max: int) -> bytes:
            return b"<svg>"

    made = Drawing().pictures.preview(reference("image/png"), "e1")

    assert made == Preview(note="no preview")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"one\ntwo", "one\ntwo"),
        ("ä".encode("utf-16"), "ä"),
        (b"\xef\xbb\xbfone", "one"),
        (b"\xff\xfeo\0", "o"),
        (b"caf\xe9", "caf\ufffd"),
        (b"a\0b", "a\0b"),
        (b"1\n2\n3\n4\n5\n6\n7", "1\n2\n3\n4\n5"),
    ],
)
def test_a_text_is_shown_by_its_first_lines(data: bytes, expected: str) -> None:
    """Whatever its encoding: text is a label, not a promise."""
    made = Maker(data).pictures.preview(reference("text/plain", len(data)), "e1")

    assert made.excerpt == expected


def test_a_cut_character_does_not_show() -> None:
    data = b"x" + "ä".encode() * 3000
    made = Maker(data).pictures.preview(reference("text/plain", len(data)), "e1")

    assert made.excerpt is not None
    assert made.excerpt.endswith("ä…")
