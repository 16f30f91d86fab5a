"""Limits: one below, at, and one above; and what a refusal may cost."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import zlib
from typing import Any

import pytest

from attachstore.admission import AdmissionPolicy, admit, examine
from attachstore.attachment import BytesContent
from attachstore.errors import AdmissionError
from tests.admission import documents
from tests.admission.pictures import DEFAULT_FORMATS, FURTHER_FORMATS, noise, png_chunk, saved

PNG = DEFAULT_FORMATS["png RGB (13, 11)"]()
TWO_PICTURES = DEFAULT_FORMATS["jpeg of two pictures (MPO)"]()
FILM = DEFAULT_FORMATS["gif animated"]()
ARCHIVE = documents.zip_of(["a", "b", "c"], body=b"x" * 10)
HEIC = FURTHER_FORMATS["heic of two pictures"]()  # 64 x 64 stored, 33 x 17 shown
GIF_COMMENT = saved(noise("L", (8, 8)), "GIF", comment=bytes(6000))
WEBP_XMP = saved(noise("RGB", (8, 8)), "WEBP", xmp=bytes(6000))
COMMENTED = PNG[:33] + png_chunk(b"tEXt", b"Comment\0" + bytes(1000)) + PNG[33:]

LIMITS = [
    ("bytes_max", len(PNG), PNG, "too-many-bytes"),
    ("pixels_max", 13 * 11, PNG, "too-many-pixels"),
    ("side_max", 13, PNG, "dimension-limit"),
    ("side_max", 33, DEFAULT_FORMATS["jpeg progressive grey"](), "dimension-limit"),
    ("frames_max", 4, FILM, "too-many-frames"),
    ("frames_max", 3, DEFAULT_FORMATS["apng"](), "too-many-frames"),
    ("frames_max", 3, DEFAULT_FORMATS["webp animated, lossless True"](), "too-many-frames"),
    ("frames_max", 2, FURTHER_FORMATS["avif animated"](), "too-many-frames"),
    ("frames_max", 2, FURTHER_FORMATS["tiff of two pages"](), "too-many-frames"),
    ("frames_pixels_max", 4 * 12 * 8, FILM, "too-many-pixels"),
    ("frames_pixels_max", 2 * 16 * 12, FURTHER_FORMATS["avif animated"](), "too-many-pixels"),
    ("frames_pixels_max", 2 * 16 * 12, TWO_PICTURES, "too-many-pixels"),
    ("pixels_max", 64 * 64, HEIC, "too-many-pixels"),
    ("side_max", 64, HEIC, "dimension-limit"),
    ("frames_max", 2, HEIC, "too-many-frames"),
    ("metadata_bytes_max", 1008, COMMENTED, "too-much-metadata"),
    ("metadata_bytes_max", 6000, GIF_COMMENT, "too-much-metadata"),
    ("metadata_bytes_max", 6000, WEBP_XMP, "too-much-metadata"),
    ("archive_entries_max", 3, ARCHIVE, "too-much-metadata"),
    ("archive_bytes_max", 30, ARCHIVE, "too-much-metadata"),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value", "data", "code"), LIMITS)
def test_a_limit_is_the_largest_value_still_admitted(
    field: str, value: int, data: bytes, code: str
) -> None:
    for allowed in (value, value + 1):
        admit(BytesContent(data), AdmissionPolicy.any(**{field: allowed}))
    with pytest.raises(AdmissionError) as caught:
        admit(BytesContent(data), AdmissionPolicy.any(**{field: value - 1}))
    assert caught.value.code == code


def test_every_limit_that_a_header_is_over_is_reported() -> None:
    policy = AdmissionPolicy(pixels_max=1, side_max=1, frames_pixels_max=1)

    findings = examine(BytesContent(PNG), policy).findings

    assert [finding.code for finding in findings] == [
        "too-many-pixels",
        "too-many-pixels",
        "dimension-limit",
    ]


def with_chunk(kind: bytes, body: bytes) -> bytes:
    return PNG[:33] + png_chunk(kind, body) + PNG[33:]


@pytest.mark.parametrize(
    "data",
    [
        with_chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(100_000))),
        with_chunk(b"iTXt", b"Comment\0\1\0\0\0" + zlib.compress(bytes(100_000))),
        with_chunk(b"iCCP", b"profile\0\0" + zlib.compress(bytes(100_000))),
        with_chunk(b"tEXt", b"Comment\0" + bytes(100_000)),
        saved(noise("RGB", (8, 8)), "JPEG", comment=bytes(60_000)),
        saved(noise("RGB", (8, 8)), "WEBP", xmp=bytes(60_000)),
        saved(noise("L", (8, 8)), "GIF", comment=bytes(60_000)),
    ],
)
def test_metadata_is_measured_unpacked(data: bytes) -> None:
    """100 kB of zeros are 120 bytes in the file; what counts is what a reader has to hold."""
    admit(BytesContent(data), AdmissionPolicy(metadata_bytes_max=110_000))
    with pytest.raises(AdmissionError) as caught:
        admit(BytesContent(data), AdmissionPolicy(metadata_bytes_max=50_000))
    assert caught.value.code == "too-much-metadata"


def test_a_text_chunk_that_does_not_unpack_costs_no_picture() -> None:
    """It is a comment; no viewer needs it."""
    admit(BytesContent(with_chunk(b"tEXt", b"no separator")), AdmissionPolicy())


BOMBS = {
    "30000 x 30000 PNG of nothing": "png(30000, 30000)",
    "PNG of 2 million sides": "png(2**31 - 1, 2**31 - 1)",
    "text chunk of 256 MiB": "png(8, 8, bytes_of_text=1 << 28)",
    "GIF with frames of 65535 x 65535": "gif(65535, 65535, 50)",
    "GIF of 100 000 frames": "gif(100, 100, 100_000)",
    "BMP": "b'BM' + bytes(12) + struct.pack('<LllHHLLllLL', 40, 60000, 60000, 1, 24, 0, *[0] * 5)",
    "JPEG of 65500 x 65500": "jpeg(65500)",
    "WebP of 16 million sides": "webp(2**24 - 1)",
    "TIFF of 60000 x 60000": "tiff(60000)",
    "HEIC of 60000 x 60000": "heic((60000, 60000))",
    "HEIC that hides one of 60000 x 60000": "heic((8, 8), (60000, 60000))",
    "ZIP that unpacks to 10 TiB": "archive()",
}

PRELUDE = """
import struct, sys, zlib, io, zipfile
from pathlib import Path
from attachstore.admission import AdmissionPolicy, admit, examine
from attachstore.attachment import BytesContent
from attachstore.errors import AdmissionError

def chunk(kind, body):
    return struct.pack(">L", len(body)) + kind + body + struct.pack(">L", zlib.crc32(kind + body))

def png(width, height, bytes_of_text=0):
    text = b""
    if bytes_of_text:
        packer = zlib.compressobj(9)
        packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(bytes_of_text >> 20))
        text = chunk(b"zTXt", b"k\\0\\0" + packed + packer.flush())
    head = struct.pack(">LLBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = chunk(b"IDAT", zlib.compress(bytes(1067)))
    return b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head) + text + pixels + chunk(b"IEND", b"")

def gif(width, height, count):
    frame = b"," + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\\x02\\x02\\x44\\x01\\x00"
    return b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0x80, 0, 0) + bytes(6) + frame * count + b";"

def jpeg(side):
    frame = b"\\xff\\xc0\\0\\x11\\x08" + struct.pack(">HH", side, side)
    return b"\\xff\\xd8" + frame + b"\\x03\\1\\x11\\0\\2\\x11\\0\\3\\x11\\0\\xff\\xd9"

def webp(side):
    canvas = b"VP8X" + struct.pack("<L", 10) + bytes(4) + side.to_bytes(3, "little") * 2
    return b"RIFF" + struct.pack("<L", 4 + len(canvas)) + b"WEBP" + canvas

def tiff(side):
    tags = b"".join(struct.pack("<HHLL", tag, 4, 1, value) for tag, value in (
        (256, side), (257, side), (258, 8), (259, 1), (262, 1), (273, 8), (278, side), (279, 9)))
    return b"II*\\0" + struct.pack("<LH", 8, 8) + tags + bytes(4)

def box(kind, *parts):
    body = b"".join(parts)
    return struct.pack(">L", 8 + len(body)) + kind + body

def heic(*sizes):
    store = box(b"ipco", *(box(b"ispe", bytes(4), struct.pack(">LL", *size)) for size in sizes))
    links = box(b"ipma", bytes(4), struct.pack(">LHBB", 1, 1, 1, 1))
    meta = box(b"meta", bytes(4), box(b"pitm", bytes(5), b"\\1"), box(b"iprp", store, links))
    return box(b"ftyp", b"heic", bytes(4), b"mif1heic") + meta + box(b"mdat", bytes(9))

def peak_kib():
    # Not getrusage: that one starts at the size of the process which started this one.
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])

def archive():
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as out:
        out.writestr("a", b"x")
    data = bytearray(target.getvalue())
    at = data.index(b"PK\\x01\\x02")
    data[at + 24 : at + 28] = struct.pack("<L", 0xFFFFFFF0)
    entry = bytes(data[at : data.index(b"PK\\x05\\x06")])
    end = struct.pack("<LHHHHLLH", 0x06054B50, 0, 0, 2560, 2560, len(entry) * 2560, at, 0)
    return bytes(data[:at]) + entry * 2560 + end

data = DATA
policy = AdmissionPolicy.any()
admit(BytesContent(png(32, 11)), policy)  # everything that is idle is loaded
before = peak_kib()
try:
    admit(BytesContent(data), policy)
except AdmissionError as error:
    print(error.code, (peak_kib() - before) // 1024)
"""


@pytest.mark.parametrize("name", BOMBS)
def test_refusing_a_bomb_costs_no_memory(name: str) -> None:
    """Decided before decoding: peak growth stays below 64 MiB (measured in its own process)."""
    script = textwrap.dedent(PRELUDE).replace("DATA", BOMBS[name])

    result = subprocess.run(  # the test's own interpreter
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )

    code, mebibytes = result.stdout.split()
    assert code in {"too-many-pixels", "too-many-frames", "too-much-metadata", "dimension-limit"}
    assert int(mebibytes) < 64


@pytest.mark.parametrize(
    "settings",
    [
        {"bytes_max": 0},
        {"pixels_max": -1},
        {"side_max": 1.5},
        {"frames_max": True},
        {"frames_max": "10"},
        {"media_types": "image/png"},
        {"media_types": 5},
        {"media_types": {"png"}},
        {"media_types": {"image/p*"}},
        {"media_types": {None}},
        {"text_utf8": 1},
    ],
)
def test_a_policy_that_makes_no_sense_is_a_wrong_call(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        AdmissionPolicy(**settings)


def test_an_archive_in_an_archive_is_not_unpacked() -> None:
    """Nesting costs nothing: what is inside is bytes, whatever it says of itself."""
    nested = ARCHIVE
    for _ in range(20):
        nested = documents.zip_of(["inner.zip"], body=nested)

    assert admit(BytesContent(nested), AdmissionPolicy()).header.media_type == "application/zip"


def test_a_policy_understands_patterns_and_aliases() -> None:
    policy = AdmissionPolicy(media_types=["IMAGE/JPG", "text/*"])  # type: ignore[arg-type] - any iterable does

    assert policy.media_types == frozenset({"image/jpeg", "text/*"})
    assert policy.allows("image/jpeg")
    assert policy.allows("text/csv")
    assert not policy.allows("image/png")
    assert AdmissionPolicy.any().allows("application/x-anything")
    assert AdmissionPolicy.any(side_max=5).side_max == 5
    assert AdmissionPolicy() == AdmissionPolicy()
    assert len({AdmissionPolicy(), AdmissionPolicy.any()}) == 2
