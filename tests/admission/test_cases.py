"""Files from public bug reports, and what becomes of them: one row, one promise.

The files are in tests/cases; the number in front is that of the report.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from attachstore.admission import AdmissionPolicy, admit
from attachstore.admission.media_type import DOCX
from attachstore.admission.probe import probe
from attachstore.attachment import BytesContent
from attachstore.errors import AdmissionError, MediaTypeMismatchError

CASES = Path(__file__).parents[1] / "cases"
DEFAULT = AdmissionPolicy()
EVERY = AdmissionPolicy.any()
SMALL = AdmissionPolicy(bytes_max=4096)
SHORT_FILM = AdmissionPolicy(frames_pixels_max=20_000_000)

# file, declared type, policy, outcome: "type [WxH [frames]]" or the code of the refusal.
TABLE = [
    # -- what the bytes are, and what they are called
    ("001-jpeg-named-png/screenshot.png", None, DEFAULT, "image/jpeg 64x48 1"),
    ("001-jpeg-named-png/screenshot.png", "image/png", DEFAULT, "media-type-mismatch image/jpeg"),
    ("003-webp-named-png/photo.png", None, DEFAULT, "image/webp 40x30 1"),
    ("004-image-jpg-alias/a.jpg", "image/jpg", DEFAULT, "image/jpeg 64x48 1"),
    ("005-type-parameters-and-case/a.png", "IMAGE/PNG", DEFAULT, "image/png 33x17 1"),
    (
        "005-type-parameters-and-case/a.png",
        "image/png; charset=binary",
        DEFAULT,
        "image/png 33x17 1",
    ),
    ("005-type-parameters-and-case/a.png", " image/png ", DEFAULT, "image/png 33x17 1"),
    ("007-svg-named-png/output.png", "image/png", DEFAULT, "media-type-mismatch image/svg+xml"),
    ("007-svg-named-png/output.png", None, DEFAULT, "unsupported-media-type"),
    ("007-svg-named-png/output.png", "text/plain", DEFAULT, "media-type-mismatch image/svg+xml"),
    ("007-svg-named-png/output.png", None, EVERY, "image/svg+xml"),
    (
        "008-html-error-page-named-jpg/cover.jpg",
        "image/jpeg",
        DEFAULT,
        "media-type-mismatch text/html",
    ),
    ("008-html-error-page-named-jpg/cover.jpg", None, DEFAULT, "text/html"),
    ("010-text-that-starts-like-an-image/p1.txt", "text/plain", DEFAULT, "text/plain"),
    ("010-text-that-starts-like-an-image/gif.txt", "text/plain", DEFAULT, "text/plain"),
    ("010-text-that-starts-like-an-image/bm.txt", "text/plain", DEFAULT, "text/plain"),
    ("010-text-that-starts-like-an-image/p1.txt", None, DEFAULT, "text/plain"),
    ("010-text-that-starts-like-an-image/gif.txt", None, DEFAULT, "text/plain"),
    ("010-text-that-starts-like-an-image/bm.txt", None, DEFAULT, "text/plain"),
    (
        "010-text-that-starts-like-an-image/p1.txt",
        "image/png",
        DEFAULT,
        "media-type-mismatch text/plain",
    ),
    (
        "010-text-that-starts-like-an-image/gif.txt",
        "image/png",
        DEFAULT,
        "media-type-mismatch text/plain",
    ),
    (
        "010-text-that-starts-like-an-image/bm.txt",
        "image/png",
        DEFAULT,
        "media-type-mismatch text/plain",
    ),
    ("058-formats-the-library-opens-by-accident/a.eps", None, DEFAULT, "unsupported-media-type"),
    ("058-formats-the-library-opens-by-accident/a.ppm", None, DEFAULT, "unsupported-media-type"),
    ("058-formats-the-library-opens-by-accident/a.tga", None, DEFAULT, "unsupported-media-type"),
    ("058-formats-the-library-opens-by-accident/a.xbm", None, DEFAULT, "text/plain"),
    (
        "058-formats-the-library-opens-by-accident/a.eps",
        "image/png",
        DEFAULT,
        "media-type-mismatch",
    ),
    (
        "058-formats-the-library-opens-by-accident/a.ppm",
        "image/png",
        DEFAULT,
        "media-type-mismatch",
    ),
    (
        "058-formats-the-library-opens-by-accident/a.tga",
        "image/png",
        DEFAULT,
        "media-type-mismatch",
    ),
    (
        "058-formats-the-library-opens-by-accident/a.xbm",
        "image/png",
        DEFAULT,
        "media-type-mismatch",
    ),
    # -- whole, or not
    ("011-jpeg-first-half/shot.jpg", "image/jpeg", DEFAULT, "truncated-image"),
    ("013-jpeg-zero-filled-tail/shot.jpg", None, DEFAULT, "truncated-image"),
    ("014-jpeg-half-plus-eoi/shot.jpg", None, DEFAULT, "truncated-image"),
    ("016-jpeg-trailing-bytes/cam.jpg", None, DEFAULT, "image/jpeg 48x36 1"),
    ("017-png-bad-deflate-good-crc/a.png", None, DEFAULT, "corrupt-image"),
    ("019-png-missing-end/cut4.png", None, DEFAULT, "truncated-image"),
    ("019-png-missing-end/cut12.png", None, DEFAULT, "truncated-image"),
    ("019-png-missing-end/cut20.png", None, DEFAULT, "truncated-image"),
    ("020-png-short-pixel-data/half.png", None, DEFAULT, "truncated-image"),
    ("022-png-bad-icc-chunk-crc/a.png", "image/png", DEFAULT, "corrupt-image"),
    ("023-png-no-idat/a.png", "image/png", DEFAULT, "corrupt-image"),
    ("025-gif-second-frame-cut/cut.gif", None, DEFAULT, "truncated-image"),
    ("026-gif-no-trailer/a.gif", None, DEFAULT, "truncated-image"),
    ("026-gif-no-trailer/two-of-three.gif", None, DEFAULT, "truncated-image"),
    ("028-webp-second-frame-corrupt/a.webp", None, DEFAULT, "corrupt-image"),
    ("029-bmp-truncated/a.bmp", None, EVERY, "truncated-image"),
    ("029-bmp-truncated/a.bmp", None, DEFAULT, "unsupported-media-type"),
    ("031-avif-minus-one-byte/a.avif", None, EVERY, "truncated-image"),
    ("031-avif-minus-one-byte/a.avif", None, DEFAULT, "unsupported-media-type"),
    # -- limits
    ("032-png-900-megapixels/bomb.png", None, DEFAULT, "too-many-pixels"),
    ("034-gif-frame-larger-than-canvas/frame1.gif", None, DEFAULT, "too-many-pixels"),
    ("034-gif-frame-larger-than-canvas/frame2.gif", None, DEFAULT, "too-many-pixels"),
    ("035-side-8001/tall.png", None, DEFAULT, "dimension-limit"),
    ("035-side-8001/ok.png", None, DEFAULT, "image/png 10x8000 1"),
    ("037-byte-limit-exact/at.txt", None, SMALL, "text/plain"),
    ("037-byte-limit-exact/over.txt", None, SMALL, "too-many-bytes"),
    ("038-gif-200-frames/long.gif", None, DEFAULT, "image/gif 400x300 200"),
    ("038-gif-200-frames/long.gif", None, SHORT_FILM, "too-many-pixels"),
    # -- unusual, and good
    ("041-exif-orientation-6/o6.jpg", None, DEFAULT, "image/jpeg 60x40 1"),
    ("041-exif-orientation-6/o6.png", None, DEFAULT, "image/png 60x40 1"),
    ("041-exif-orientation-6/o6.webp", None, DEFAULT, "image/webp 60x40 1"),
    ("043-avif-rotation/rot.avif", None, EVERY, "image/avif 60x40 1"),
    ("043-avif-rotation/rot.avif", None, DEFAULT, "unsupported-media-type"),
    ("044-mpo-is-jpeg/cam.jpg", "image/jpeg", DEFAULT, "image/jpeg 64x48 2"),
    ("046-animated-gif-and-webp/a.gif", None, DEFAULT, "image/gif 32x24 3"),
    ("046-animated-gif-and-webp/a.webp", None, DEFAULT, "image/webp 40x30 3"),
    ("047-heic/photo.heic", None, DEFAULT, "unsupported-media-type"),
    ("047-heic/photo.heic", "image/heic", DEFAULT, "unsupported-media-type"),
    ("049-avif-plain/a.avif", None, DEFAULT, "unsupported-media-type"),
    ("049-avif-plain/a.avif", None, EVERY, "image/avif 64x48 1"),
    ("050-avif-mif1-brand/a.avif", None, EVERY, "image/avif 64x48 1"),
    ("052-cmyk-jpeg/cmyk.jpg", None, DEFAULT, "image/jpeg 64x48 1"),
    ("053-png-unusual-modes/i16.png", None, DEFAULT, "image/png 20x15 1"),
    ("053-png-unusual-modes/pal.png", None, DEFAULT, "image/png 20x15 1"),
    ("053-png-unusual-modes/bit.png", None, DEFAULT, "image/png 20x15 1"),
    ("053-png-unusual-modes/la.png", None, DEFAULT, "image/png 20x15 1"),
    ("055-bmp-top-down/a.bmp", None, DEFAULT, "unsupported-media-type"),
    ("055-bmp-top-down/topdown.bmp", None, DEFAULT, "unsupported-media-type"),
    ("055-bmp-top-down/a.bmp", None, EVERY, "image/bmp 30x20 1"),
    ("055-bmp-top-down/topdown.bmp", None, EVERY, "image/bmp 30x20 1"),
    ("056-gif-screen-smaller-than-frame/s10.gif", None, DEFAULT, "image/gif 32x24 1"),
    ("056-gif-screen-smaller-than-frame/s0.gif", None, DEFAULT, "image/gif 32x24 1"),
    # -- documents, text, audio
    ("059-docx-seen-as-zip/usual.docx", None, DEFAULT, DOCX),
    ("059-docx-seen-as-zip/docprops-first.docx", DOCX, DEFAULT, DOCX),
    ("059-docx-seen-as-zip/trash-first.docx", DOCX, DEFAULT, DOCX),
    ("059-docx-seen-as-zip/media-second.docx", None, DEFAULT, DOCX),
    ("059-docx-seen-as-zip/media-second.docx", "application/zip", DEFAULT, "application/zip"),
    ("061-csv-and-prose/comma.csv", "text/csv", DEFAULT, "text/csv"),
    ("061-csv-and-prose/semicolon.csv", "text/csv", DEFAULT, "text/csv"),
    ("061-csv-and-prose/prose.txt", "text/plain", DEFAULT, "text/plain"),
    ("061-csv-and-prose/comma.csv", None, DEFAULT, "text/plain"),
    ("061-csv-and-prose/prose.txt", None, DEFAULT, "text/plain"),
    ("062-mp3-not-recognised/bare.mp3", "audio/mpeg", DEFAULT, "audio/mpeg"),
    ("062-mp3-not-recognised/id3.mp3", "audio/mpeg", DEFAULT, "audio/mpeg"),
    ("062-mp3-not-recognised/id3-junk.mp3", "audio/mpeg", DEFAULT, "audio/mpeg"),
    ("062-mp3-not-recognised/id3-wrong-length.mp3", "audio/mpeg", DEFAULT, "audio/mpeg"),
    ("005-type-parameters-and-case/a.png", "audio/mpeg", DEFAULT, "media-type-mismatch image/png"),
    ("064-pdf-false-password-alarm/plain.pdf", "application/pdf", DEFAULT, "application/pdf"),
    ("065-pdf-encrypted/locked.pdf", "application/pdf", DEFAULT, "encrypted-document"),
    ("067-pdf-truncated/cut.pdf", "application/pdf", DEFAULT, "invalid-document"),
    ("069-empty-text/out.txt", "text/plain", DEFAULT, "text/plain"),
    ("069-empty-text/out.txt", None, DEFAULT, "empty-content"),
    ("069-empty-text/out.txt", "image/png", DEFAULT, "empty-content"),
    ("070-text-with-binary-after-64k/mixed.txt", "text/plain", DEFAULT, "text/plain"),
    ("072-one-character-text/a.txt", "text/plain", DEFAULT, "text/plain"),
    ("072-one-character-text/nl.txt", "text/plain", DEFAULT, "text/plain"),
    ("080-same-bytes-two-names/a.yaml", None, DEFAULT, "text/plain"),
]


def outcome_of(data: bytes, declared: str | None, policy: AdmissionPolicy) -> str:
    """The outcome as the table writes it; a refusal with what was found, where it says so."""
    try:
        admitted = admit(BytesContent(data), policy, declared=declared)
    except MediaTypeMismatchError as error:
        return f"{error.code} {error.found}"
    except AdmissionError as error:
        return error.code
    header = admitted.header
    assert probe(data, header.media_type) == header, "a read must find what admission found"
    if header.width is None:
        return header.media_type
    return f"{header.media_type} {header.width}x{header.height} {admitted.frames}"


@pytest.mark.parametrize(("file", "declared", "policy", "expected"), TABLE)
def test_reported_file(
    file: str, declared: str | None, policy: AdmissionPolicy, expected: str
) -> None:
    outcome = outcome_of((CASES / file).read_bytes(), declared, policy)

    assert outcome == expected or outcome.split()[0] == expected


def test_every_file_in_the_folder_has_a_row() -> None:
    """A case that nobody asks about proves nothing; names and log cases are tested elsewhere."""
    rows = {row[0] for row in TABLE}
    elsewhere = {"names.json", "seed.png", "seed.jpg", "seed.gif", "seed.webp", "b.yaml"}

    files = {
        f"{path.parent.name}/{path.name}"
        for path in CASES.glob("0[0-8]*/*")
        if path.name not in elsewhere and path.parent.name[:3] <= "088"
    }

    assert files - rows == set()
