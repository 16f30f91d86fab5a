"""Documents and audio: opened or walked to their end, never unpacked or played."""

from __future__ import annotations

import struct

import pytest

from attachstore.admission import AdmissionPolicy, admit, examine
from attachstore.admission.media_type import DOCX
from attachstore.attachment import BytesContent
from attachstore.errors import (
    AdmissionError,
    EncryptedDocumentError,
    InvalidDocumentError,
    InvalidTextError,
    MediaTypeMismatchError,
)
from tests.admission import documents
from tests.admission.test_cases import CASES

DEFAULT = AdmissionPolicy()
LENIENT = AdmissionPolicy(broken_documents=True, encrypted_documents=True)


def code(data: bytes, declared: str | None = None, policy: AdmissionPolicy = DEFAULT) -> str:
    try:
        return admit(BytesContent(data), policy, declared=declared).header.media_type
    except AdmissionError as error:
        return error.code


@pytest.mark.parametrize("pages", [1, 2, 7])
def test_the_pages_of_a_pdf_are_counted(pages: int) -> None:
    assert admit(BytesContent(documents.pdf(pages)), DEFAULT).pages == pages


def test_a_pdf_without_pages_is_no_document() -> None:
    with pytest.raises(InvalidDocumentError, match="no pages"):
        admit(BytesContent(documents.pdf(0)), DEFAULT)


def test_a_pdf_cut_anywhere_is_refused() -> None:
    """But for its last line end, which nobody needs."""
    data = documents.pdf(2)

    accepted = [
        cut
        for cut in range(len(data) - 1)
        if code(data[:cut], "application/pdf") == "application/pdf"
    ]

    assert [cut for cut in accepted if cut < data.rindex(b"startxref")] == []


def test_junk_in_front_of_a_pdf_is_what_readers_accept() -> None:
    data = b"HTTP/1.1 200 OK\r\n\r\n" + documents.pdf()
    assert code(data, "application/pdf") in {"application/pdf", "invalid-document"}
    assert code(bytes(2000) + documents.pdf(), "application/pdf") == "media-type-mismatch"


def test_what_is_refused_by_default_comes_in_on_request() -> None:
    locked = (CASES / "065-pdf-encrypted/locked.pdf").read_bytes()
    cut = (CASES / "067-pdf-truncated/cut.pdf").read_bytes()

    with pytest.raises(EncryptedDocumentError):
        admit(BytesContent(locked), DEFAULT)
    for data in (locked, cut):
        attachment = admit(BytesContent(data), LENIENT)
        assert attachment.header.media_type == "application/pdf"
        assert attachment.pages is None


def test_a_zip_cut_anywhere_is_refused() -> None:
    data = documents.office(DOCX)

    for cut in range(4, len(data)):
        assert code(data[:cut], DOCX) == "invalid-document", cut
        assert code(data[:cut]) == "invalid-document", cut


def test_a_zip_whose_entries_are_not_where_it_says_is_refused() -> None:
    data = bytearray(documents.zip_of(["a", "b"]))
    at = data.index(b"PK\1\2")
    data[at + 42 : at + 46] = struct.pack("<L", 7)
    assert code(bytes(data)) == "invalid-document"


def test_a_zip_with_something_in_front_or_behind_is_whole() -> None:
    """Self-extractors have a program in front, signed archives a signature behind."""
    data = documents.zip_of(["a", "b"])
    comment = data[:-2] + struct.pack("<H", 5) + b"hello"
    assert code(comment) == "application/zip"
    assert code(data + b"\0" * 40) in {"application/zip", "invalid-document"}


def test_an_encrypted_zip_needs_a_password() -> None:
    data = bytearray(documents.zip_of(["a"]))
    data[data.index(b"PK\1\2") + 8] |= 1
    assert code(bytes(data)) == "encrypted-document"
    assert code(bytes(data), policy=LENIENT) == "application/zip"


@pytest.mark.parametrize(
    ("media_type", "data", "from_byte"),
    [
        ("audio/wav", documents.wav(), 1),
        ("audio/flac", documents.flac(), 1),
        ("audio/ogg", documents.ogg(), 1),
        ("audio/mp4", documents.m4a(), 1),
    ],
)
def test_audio_cut_anywhere_is_refused(media_type: str, data: bytes, from_byte: int) -> None:
    """Except between the pages of an Ogg and inside FLAC frames, where no length is written."""
    boundaries = {at for at in range(len(data)) if data[at : at + 4] == b"OggS"}
    end = len(data) if media_type != "audio/flac" else data.index(b"\xff\xf8") + 2

    accepted = {cut for cut in range(from_byte, end) if code(data[:cut], media_type) == media_type}

    assert accepted <= boundaries


def test_sound_from_a_pipe_has_no_length_and_is_whole() -> None:
    """ffmpeg cannot seek back in a pipe: it leaves all ones, or zero."""
    data = bytearray(documents.wav())
    for unknown in (b"\xff\xff\xff\xff", bytes(4)):
        data[40:44] = unknown
        assert code(bytes(data)) == "audio/wav"


def test_an_mp3_is_found_behind_its_tag_whatever_the_tag_says() -> None:
    def tag(length: int) -> bytes:
        return b"ID3\4\0\0" + bytes((length >> shift) & 0x7F for shift in (21, 14, 7, 0))

    assert code(documents.mp3(tag=tag(20) + bytes(20))) == "audio/mpeg"
    assert code(documents.mp3(tag=tag(5) + bytes(20))) == "audio/mpeg"
    assert code(documents.mp3(tag=tag(9999) + bytes(20))) == "audio/mpeg"
    assert code(documents.mp3(1)) == "audio/mpeg"
    assert code(tag(20) + bytes(3000), "audio/mpeg") == "invalid-document"
    assert code(b"\xff\xfb\x90\x00" + b"\xff" * 5000, "audio/mpeg") == "media-type-mismatch"


def test_text_may_be_asked_to_be_utf8() -> None:
    strict = AdmissionPolicy(text_utf8=True)

    assert code("Grüße\n".encode(), policy=strict) == "text/plain"
    for data, offset in (
        (b"abc\xff", 3),
        (b"x" * 65_535 + "ü".encode() + b"\xc3", 65_537),
        (b"x" * 65_535 + b"\xc3(", 65_535),
        (("ü" * 40_000).encode() + b"\x80", 80_000),
    ):
        with pytest.raises(InvalidTextError) as caught:
            admit(BytesContent(data), strict, declared="text/plain")
        assert caught.value.offset_bytes == offset
        assert code(data, "text/plain") == "text/plain"


def test_all_findings_are_reported_not_only_the_first() -> None:
    """`attachstore check` says everything at once, so that a file is mended once."""
    png = (CASES / "022-png-bad-icc-chunk-crc/a.png").read_bytes()
    policy = AdmissionPolicy(bytes_max=10, media_types=frozenset({"image/gif"}))

    examination = examine(BytesContent(png), policy, declared="image/jpeg", name="x" * 2000)

    assert [finding.code for finding in examination.findings] == [
        "too-many-bytes",
        "invalid-name",
        "unsupported-media-type",
        "media-type-mismatch",
        "unsupported-media-type",
        "corrupt-image",
    ]
    assert not examination.admissible
    assert isinstance(examination.findings[3], MediaTypeMismatchError)


def test_an_examination_of_a_good_file_says_what_admission_would_store() -> None:
    png = (CASES / "005-type-parameters-and-case/a.png").read_bytes()

    examination = examine(BytesContent(png), DEFAULT)

    assert examination.admissible
    assert examination.header == admit(BytesContent(png), DEFAULT).header
    assert examination.frames == 1


def test_a_document_without_a_header_is_one_finding() -> None:
    """The check and the probe see the same fault; it is told once."""
    for data in (documents.wav()[:14], b"OggS" + bytes(3), b"fLaC\0\0\0", b"ID3\3\0\0\0\0\0\x14"):
        findings = examine(BytesContent(data), AdmissionPolicy.any()).findings
        assert [finding.code for finding in findings] == ["invalid-document"], data
        with pytest.raises(InvalidDocumentError):
            admit(BytesContent(data), LENIENT)
