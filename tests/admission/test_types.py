"""What bytes are, and which claims about them hold."""

from __future__ import annotations

import codecs
import importlib
from types import ModuleType

import pytest

from attachstore.admission import AdmissionPolicy, admit, examine
from attachstore.admission.media_type import DOCX, PPTX, SVG, XLSX, normalise
from attachstore.attachment import BytesContent
from attachstore.errors import (
    AdmissionError,
    InvalidMediaTypeError,
    MediaTypeMismatchError,
    MissingDependencyError,
    UnsupportedMediaTypeError,
)
from tests.admission import documents
from tests.admission.pictures import DEFAULT_FORMATS, FURTHER_FORMATS

EVERY = AdmissionPolicy.any()

REAL = {
    "image/jpeg": DEFAULT_FORMATS["jpeg RGB (17, 9)"](),
    "image/png": DEFAULT_FORMATS["png RGB (13, 11)"](),
    "image/gif": DEFAULT_FORMATS["gif L"](),
    "image/webp": DEFAULT_FORMATS["webp RGB"](),
    "image/bmp": FURTHER_FORMATS["bmp RGB"](),
    "image/tiff": FURTHER_FORMATS["tiff RGB None"](),
    "image/avif": FURTHER_FORMATS["avif"](),
    "image/heic": FURTHER_FORMATS["heic"](),
    "image/vnd.microsoft.icon": FURTHER_FORMATS["ico"](),
    SVG: documents.SVG,
    "application/pdf": documents.pdf(),
    "application/zip": documents.zip_of(["a.txt"]),
    DOCX: documents.office(DOCX),
    XLSX: documents.office(XLSX),
    PPTX: documents.office(PPTX),
    "audio/mpeg": documents.mp3(),
    "audio/wav": documents.wav(),
    "audio/flac": documents.flac(),
    "audio/ogg": documents.ogg(),
    "audio/mp4": documents.m4a(),
    "text/plain": b"hello, world\n",
    "text/html": documents.HTML,
    "application/json": b'{"a": [1, 2]}\n',
    "application/x-ndjson": b'{"a": 1}\n{"a": 2}\n',
}
TEXTS = {"text/plain", "text/html", "application/json", "application/x-ndjson"}


def found(data: bytes, declared: str | None = None, policy: AdmissionPolicy = EVERY) -> str:
    return admit(BytesContent(data), policy, declared=declared).header.media_type


@pytest.mark.parametrize("real", REAL)
def test_undeclared_bytes_are_called_what_they_are(real: str) -> None:
    assert found(REAL[real]) == real


@pytest.mark.parametrize("real", REAL)
def test_every_claim_against_every_type(real: str) -> None:
    """A claim holds if it is the truth, a text for a text, or ZIP for what is a ZIP inside."""
    for declared in REAL:
        holds = (
            declared == real
            or (declared in TEXTS and real in TEXTS)
            or (declared == "application/zip" and real in {DOCX, XLSX, PPTX})
        )
        if holds:
            assert found(REAL[real], declared) == declared
        else:
            with pytest.raises(MediaTypeMismatchError) as caught:
                found(REAL[real], declared)
            assert caught.value.declared == declared
            assert caught.value.found in ({real} if real not in TEXTS else TEXTS), declared


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("IMAGE/PNG", "image/png"),
        ("image/png; charset=binary", "image/png"),
        (" image/png ;x=y", "image/png"),
        ("image/jpg", "image/jpeg"),
        ("audio/mp3", "audio/mpeg"),
        ("audio/x-wav", "audio/wav"),
        ("application/x-zip-compressed", "application/zip"),
        ("text/x-markdown", "text/markdown"),
        ("application/vnd.api+json", "application/vnd.api+json"),
    ],
)
def test_a_claim_is_normalised(written: str, meant: str) -> None:
    assert normalise(written) == meant


@pytest.mark.parametrize(
    "written",
    ["", "image", "image/", "/png", "*/*", "image/*", "image/png,image/gif", "a b/c", "image/p\0ng",
     "image/pñg", "x" * 128 + "/y", "image//png", "\n"],
)  # fmt: skip
def test_what_is_no_media_type_is_refused_as_such(written: str) -> None:
    with pytest.raises(InvalidMediaTypeError):
        normalise(written)


def test_the_order_of_the_checks_decides_which_refusal_wins() -> None:
    """Bytes limit, claim well-formed, claim allowed, claim against bytes, found type allowed."""
    png = REAL["image/png"]

    def code(policy: AdmissionPolicy, declared: str | None, data: bytes = png) -> str:
        with pytest.raises(AdmissionError) as caught:
            found(data, declared, policy)
        return caught.value.code

    only_gif = AdmissionPolicy(media_types=frozenset({"image/gif", "image/png"}), side_max=1)
    assert code(AdmissionPolicy(bytes_max=9), "no type") == "too-many-bytes"
    assert code(only_gif, "no type") == "invalid-media-type"
    assert code(only_gif, "image/webp") == "unsupported-media-type"
    assert code(only_gif, "image/gif") == "media-type-mismatch"
    assert code(only_gif, None, REAL["image/jpeg"]) == "unsupported-media-type"
    assert code(only_gif, "image/png") == "dimension-limit"
    assert code(only_gif, "image/png", png[:-1]) == "dimension-limit"


@pytest.mark.parametrize(
    "text",
    [
        "Grüße, Straße, 日本語\n".encode(),
        codecs.BOM_UTF8 + "Grüße".encode(),
        "Grüße".encode("utf-16"),
        codecs.BOM_UTF16_BE + "Grüße".encode("utf-16-be"),
        "Gr\u00fc\u00dfe aus K\u00f6ln".encode("latin-1"),
        "a \u201cquote\u201d".encode("cp1252"),
        "Привет, мир".encode("koi8-r"),
        b"\x1b[31mred\x1b[0m terminal output\x07\n",
        b"a",
        b"\n",
        b"BMW sales rose; BM is a code",
        b"GIF89a is a fun format, and so on",
        b"GIF89a, 2020s, and a comma where a frame starts: nothing else fits",
        b"P1 is the first step",
        b"ID3 tags are old",
        b"OggS is a capture pattern",
        b"RIFF is a container, WAVE is inside",
        b"%PDF-1.4 is the header of a document",
        b"PK\x20is short for Phil Katz",
        b"II* and MM* are byte orders",
        b"import os\nprint(os.name)\n",
        b"const x: number = 1;\nexport default x;\n",
        b"From: a@b.c\nSubject: hello\n\ntext\n",
        b"one, two\nthree, four\nfive, six\n",
        b"{not json}",
        b'{"a": NaN}',
        b"123",
        b"[1, 2",
        b"<p>no root element that we know</p>",
        b"{" * 100_000,
    ],
)  # fmt: skip
def test_undeclared_text_is_plain_text(text: bytes) -> None:
    """Whatever libmagic would call it: a label must not turn prose into CSV or source away."""
    assert found(text) == "text/plain"


@pytest.mark.parametrize(
    "data",
    [
        b"stray \0 nul",
        b"\xff\xfe broken utf-16",
        b"\xc3\x28 broken utf-8",
        bytes(100),
        bytes(range(256)),
        b"GIF89a is a fun format",
    ],
)
def test_a_declared_text_is_taken_for_any_bytes_that_are_nothing_else(data: bytes) -> None:
    """Text is a label, not a promise about an encoding: bytes are kept as they are."""
    for declared in ("text/plain", "text/csv", "text/markdown", "application/json"):
        assert found(data, declared, AdmissionPolicy()) == declared


@pytest.mark.parametrize(
    "svg",
    [
        b"<svg/>",
        b"<svg xmlns='x'></svg>",
        codecs.BOM_UTF8 + b"<svg></svg>",
        b"  \n<!-- comment --><svg></svg>",
        b'<?xml version="1.0"?><!DOCTYPE svg PUBLIC "a" "b" [<!ENTITY x "y">]><svg></svg>',
        b"<svg:svg xmlns:svg='x'></svg:svg>",
        '<?xml version="1.0" encoding="utf-16"?><svg></svg>'.encode("utf-16"),
        b"<!--" + b"x" * 5000 + b"--><svg></svg>",
    ],
)
def test_svg_is_svg_wherever_its_root_element_hides(svg: bytes) -> None:
    """It runs scripts: it must never come in as text or HTML."""
    assert found(svg) == SVG
    for declared in ("text/plain", "text/html", "text/xml", "image/png"):
        with pytest.raises(MediaTypeMismatchError) as caught:
            found(svg, declared)
        assert caught.value.found == SVG
    with pytest.raises(UnsupportedMediaTypeError):
        found(svg, None, AdmissionPolicy())


@pytest.mark.parametrize(
    "html",
    [
        b"<!doctype html><p>x",
        b"<HTML><BODY>x",
        b"\n <!-- x -->\n<html lang=en>",
        codecs.BOM_UTF8 + b"<!DOCTYPE HTML PUBLIC 'x'>\n<html>",
        b"<?xml version='1.0'?><!DOCTYPE html><html xmlns='x'/>",
        b"<head><title>x",
        b"<!DOCTYPE html><svg></svg>",
    ],
)
def test_html_is_html(html: bytes) -> None:
    assert found(html) == "text/html"


def test_a_long_declaration_is_read_in_linear_time() -> None:
    """Hostile markup must not make the pattern try everything twice."""
    for hostile in (
        b"<!DOCTYPE " + b"a" * 70_000,
        b"<!DOCTYPE a[" + b"] " * 35_000,
        b"<!--" * 16_000,
    ):
        assert found(hostile) == "text/plain"


def test_only_whole_json_is_json() -> None:
    assert found(b'{"a": 1}') == "application/json"
    assert found(codecs.BOM_UTF8 + b"[1]") == "application/json"
    assert found(b'{"a": 1}\n{"b": 2}\n\n') == "application/x-ndjson"
    assert found(b'{"a": 1}\n{"b": ') == "text/plain"
    assert found(b'{"a": "\xff"}') == "text/plain"
    assert found(b"[" * 5000 + b"]" * 5000) in {"text/plain", "application/json"}


def test_zip_inside_is_told_apart_whatever_the_order_of_its_parts() -> None:
    assert found(documents.open_document()) == "application/vnd.oasis.opendocument.text"
    parts = [
        "word/media/a.png",
        "unknown.bin",
        "xl.txt",
        "[Content_Types].xml",
        "word/document.xml",
    ]
    assert found(documents.zip_of(parts)) == DOCX
    assert found(documents.zip_of(parts[::-1])) == DOCX
    assert found(documents.zip_of(["word/document.xml"])) == "application/zip"
    with_macros = [*parts, "word/vbaProject.bin"]
    assert found(documents.zip_of(with_macros)).endswith("macroenabled.12")
    with pytest.raises(MediaTypeMismatchError):
        found(documents.zip_of(with_macros), DOCX)


def test_sound_and_film_are_told_apart_by_their_tracks() -> None:
    assert found(documents.m4a(b"isom")) == "audio/mp4"
    assert found(documents.m4a(b"isom", b"vide")) == "video/mp4"
    assert found(documents.m4a(b"isom", b"vide"), "video/mp4") == "video/mp4"
    assert found(documents.ogg(b"\x80theora" + bytes(9))) == "video/ogg"
    with pytest.raises(MediaTypeMismatchError):
        found(documents.m4a(b"isom", b"vide"), "audio/mp4")


def test_unknown_bytes_do_not_contradict_a_claim_without_a_signature() -> None:
    for declared in ("application/x-thing", "video/x-matroska", "application/octet-stream"):
        assert found(b"\0\1\2\3 unknown", declared) == declared
    with pytest.raises(MediaTypeMismatchError):
        found(REAL["image/png"], "application/x-thing")
    for declared in ("image/x-thing", "image/heic", "application/pdf", "audio/mpeg"):
        with pytest.raises(MediaTypeMismatchError):
            found(b"\0\1\2\3 unknown", declared)


def test_a_type_that_only_libmagic_knows_needs_libmagic(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel does not bring the library; the error says the one command that does."""

    def missing(name: str, package: str | None = None) -> ModuleType:
        if name == "magic":
            raise ImportError("failed to find libmagic.  Check your installation")
        return real(name, package)

    real = importlib.import_module
    monkeypatch.setattr(importlib, "import_module", missing)

    for real_type, data in REAL.items():
        assert found(data) == real_type, "ours need no libmagic"
    unread = b"\x7fELF\2\1\1" + bytes(60)
    with pytest.raises(MissingDependencyError, match="apt-get install libmagic1"):
        found(unread)
    findings = examine(BytesContent(unread), EVERY).findings
    assert [finding.code for finding in findings] == ["missing-dependency"]


def test_libmagic_names_what_we_do_not_read() -> None:
    assert found(b"\x7fELF\2\1\1\0" + bytes(8) + b"\3\0\x3e\0\1\0\0\0" + bytes(100)).startswith(
        "application/x-"
    )
    assert found(bytes(range(255, 0, -1))) == "application/octet-stream"


def test_two_letters_do_not_make_a_picture_of_binary_data() -> None:
    """One file of noise in 65 536 begins with "BM"; it is no damaged bitmap."""
    noise = b"BM" + bytes(range(255, 0, -1)) * 4

    assert found(noise) == "application/octet-stream"
