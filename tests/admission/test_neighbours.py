"""Neighbours of valid pictures: each piece of the structure missing, renamed, or of a wrong length.

What a piece may hide is a picture that is less than it says. So a neighbour is refused, or it has
the size of the whole one and its own probe agrees.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from attachstore.admission import AdmissionPolicy, admit
from attachstore.admission.probe import probe
from attachstore.attachment import BytesContent
from attachstore.errors import AdmissionError
from tests.admission.pictures import DEFAULT_FORMATS, FURTHER_FORMATS

EVERY = AdmissionPolicy.any()
PICTURES = {**DEFAULT_FORMATS, **FURTHER_FORMATS}
_CONTAINERS = frozenset({b"meta", b"iprp", b"ipco", b"moov", b"trak"})
Piece = tuple[bytes, int, int]


def riff_chunks(data: bytes) -> Iterator[Piece]:
    """Name, start and end of each chunk of a WebP."""
    at = 12
    while at < len(data):
        length = int.from_bytes(data[at + 4 : at + 8], "little")
        yield data[at : at + 4], at, at + 8 + length + length % 2
        at += 8 + length + length % 2


def boxes(data: bytes, at: int, end: int) -> Iterator[Piece]:
    """Name, start and end of each box of an AVIF or HEIC, with those inside."""
    while at < end:
        length, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        yield kind, at, at + length
        if kind in _CONTAINERS:
            yield from boxes(data, at + (12 if kind == b"meta" else 8), at + length)
        at += length


def gif_blocks(data: bytes) -> Iterator[Piece]:
    """Extensions and pictures of a GIF."""
    at = 13 + (3 << (data[10] & 7) + 1 if data[10] & 0x80 else 0)
    while data[at : at + 1] != b";":
        start, kind = at, data[at : at + 1]
        if kind == b",":
            at += 11 + (3 << (data[at + 9] & 7) + 1 if data[at + 9] & 0x80 else 0)
        else:
            at += 2
        while data[at]:
            at += 1 + data[at]
        at += 1
        yield kind, start, at


def check(data: bytes, whole: bytes, media_type: str, what: object) -> bool:
    """Whether it is admitted; it may not be less than it says."""
    try:
        found = admit(BytesContent(data), EVERY, declared=media_type).header
    except AdmissionError:
        return False
    assert found == admit(BytesContent(whole), EVERY).header, what
    assert probe(data, media_type) == found, what
    return True


@pytest.mark.parametrize("name", [name for name in PICTURES if "webp" in name])
def test_each_chunk_of_a_webp(name: str) -> None:
    data = PICTURES[name]()

    for kind, start, end in riff_chunks(data):
        shorter = len(data) - 8 - (end - start)
        resized = b"RIFF" + shorter.to_bytes(4, "little") + data[8:start] + data[end:]
        needed = kind in {b"VP8 ", b"VP8L"}
        assert not check(data[:start] + data[end:], data, "image/webp", kind)
        assert not (check(resized, data, "image/webp", kind) and needed)
        for change in (1, 2, 0x80):
            wrong = bytearray(data)
            wrong[start + 4] ^= change
            assert not (check(bytes(wrong), data, "image/webp", (kind, change)) and needed)
        renamed = data[:start] + b"JUNK" + data[start + 4 :]
        assert not (check(renamed, data, "image/webp", kind) and needed)


@pytest.mark.parametrize("name", [name for name in PICTURES if "gif" in name])
def test_each_block_of_a_gif(name: str) -> None:
    data = PICTURES[name]()
    blocks = list(gif_blocks(data))
    only = sum(kind == b"," for kind, _, _ in blocks) == 1

    for kind, start, end in blocks:
        without = check(data[:start] + data[end:], data, "image/gif", kind)
        assert not (without and kind == b"," and only)
        for offset in range(start, min(end, start + 14)):
            wrong = bytearray(data)
            wrong[offset] ^= 0x04
            if not (kind == b"," and start < offset < start + 9):  # position and size of a frame
                check(bytes(wrong), data, "image/gif", (kind, offset - start))


@pytest.mark.parametrize("name", [name for name in PICTURES if name.startswith(("avif", "heic"))])
def test_each_box_of_an_avif_and_a_heic(name: str) -> None:
    data = PICTURES[name]()
    media_type = f"image/{name[:4]}"

    needed = {b"ftyp", b"meta", b"mdat", b"pitm", b"iloc", b"ipma"}
    if "animated" in name:
        needed.remove(b"iloc")  # its pictures are found by way of a track

    for kind, start, end in boxes(data, 0, len(data)):
        if kind == b"ispe":
            continue  # its own statement; test_heif has it
        without = data[:start] + data[end:]
        renamed = data[: start + 4] + b"junk" + data[start + 8 :]
        longer = data[:start] + (end - start + 9).to_bytes(4, "big") + data[start + 4 :]
        for changed in (without, renamed, longer):
            whole = check(changed, data, media_type, kind)
            assert not (whole and kind in needed), kind
