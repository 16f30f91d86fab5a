"""Whole pictures come in, whatever their mode; anything less does not."""

from __future__ import annotations

import io
import struct

import pytest
from PIL import Image

from attachstore.admission import AdmissionPolicy, admit, decoding
from attachstore.admission.probe import probe
from attachstore.attachment import Attachment, BytesContent
from attachstore.errors import (
    AdmissionError,
    CorruptImageError,
    MissingDependencyError,
    TruncatedImageError,
)
from tests.admission.pictures import DEFAULT_FORMATS, FURTHER_FORMATS, noise, saved

EVERY = AdmissionPolicy.any()


def admitted(data: bytes, declared: str | None = None) -> Attachment | None:
    try:
        return admit(BytesContent(data), EVERY, declared=declared)
    except AdmissionError:
        return None


def size_of(attachment: Attachment) -> tuple[int | None, int | None]:
    return attachment.header.width, attachment.header.height


PILLOWS = {
    name: make
    for name, make in {**DEFAULT_FORMATS, **FURTHER_FORMATS}.items()
    if not name.startswith("heic")  # not among Pillow's own: test_heif.py
}


@pytest.mark.parametrize("name", PILLOWS)
def test_a_valid_picture_is_admitted_with_the_size_that_pillow_sees(name: str) -> None:
    """Our own header parsers stand in for Pillow's on every read, so they must agree with it."""
    data = PILLOWS[name]()

    attachment = admit(BytesContent(data), EVERY)

    with Image.open(io.BytesIO(data)) as opened:
        # Pillow turns a TIFF by its orientation tag; the reference holds the stored pixels.
        expected = opened.size[::-1] if name == "tiff turned" else opened.size
        frames = getattr(opened, "n_frames", 1)
    assert size_of(attachment) == expected
    assert attachment.frames == frames or name.startswith("ico")
    assert probe(data, attachment.header.media_type) == attachment.header


def test_there_are_more_than_50_pictures_of_the_default_formats() -> None:
    assert len(DEFAULT_FORMATS) > 50


@pytest.mark.parametrize("name", DEFAULT_FORMATS)
def test_a_picture_cut_at_any_byte_is_refused(name: str) -> None:
    """Also at the last one: each of the four formats has an end of its own."""
    data = DEFAULT_FORMATS[name]()
    media_type = admit(BytesContent(data), EVERY).header.media_type

    accepted = [cut for cut in range(len(data)) if admitted(data[:cut], media_type)]

    assert accepted == []


@pytest.mark.parametrize("name", [name for name in FURTHER_FORMATS if "two pages" not in name])
def test_a_picture_of_a_further_format_cut_anywhere_is_refused(name: str) -> None:
    data = FURTHER_FORMATS[name]()
    media_type = admit(BytesContent(data), EVERY).header.media_type

    accepted = [cut for cut in range(0, len(data), 7) if admitted(data[:cut], media_type)]

    assert accepted == []


@pytest.mark.parametrize("name", [name for name in DEFAULT_FORMATS if "webp" not in name])
def test_a_tail_of_zeros_is_refused(name: str) -> None:
    """What a power cut leaves: the right length, and zeros from some block on."""
    data = DEFAULT_FORMATS[name]()
    media_type = admit(BytesContent(data), EVERY).header.media_type
    last = len(data) - 1

    accepted = [
        cut
        for cut in range(12, last, 5)
        if any(data[cut:]) and admitted(data[:cut] + bytes(len(data) - cut), media_type)
    ]

    assert accepted == []


@pytest.mark.parametrize(
    "name", ["png RGB (13, 11)", "png P (13, 11)", "png interlaced (3, 2)", "apng", "png icc"]
)
def test_any_flipped_bit_of_a_png_is_refused_or_changes_nothing(name: str) -> None:
    """Every byte of a PNG is under a checksum or fixed."""
    data = DEFAULT_FORMATS[name]()
    whole = admit(BytesContent(data), EVERY)

    for bit in range(0, len(data) * 8, 3 if len(data) < 1200 else 11):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        attachment = admitted(bytes(damaged), "image/png")
        assert attachment is None or size_of(attachment) == size_of(whole), bit


def chunks(data: bytes) -> list[tuple[int, int]]:
    """Start and end of each chunk of a PNG."""
    found: list[tuple[int, int]] = []
    at = 8
    while at < len(data):
        end = at + 12 + int.from_bytes(data[at : at + 4], "big")
        found.append((at, end))
        at = end
    return found


@pytest.mark.parametrize("name", [name for name in DEFAULT_FORMATS if "png" in name])
def test_each_damaged_chunk_of_a_png_is_noticed(name: str) -> None:
    """In its data, in its checksum, and if it is a critical one also by its absence."""
    data = DEFAULT_FORMATS[name]()

    for start, end in chunks(data):
        kind = data[start + 4 : start + 8]
        for offset in {start + 8, end - 5, end - 4, end - 1}:
            if offset >= start + 8:
                damaged = bytearray(data)
                damaged[offset] ^= 0x10
                assert admitted(bytes(damaged), "image/png") is None, (kind, offset)
        if kind in {b"IHDR", b"IEND"} or (kind == b"IDAT" and data.count(b"IDAT") == 1):
            assert admitted(data[:start] + data[end:], "image/png") is None, kind


@pytest.mark.parametrize("name", [name for name in DEFAULT_FORMATS if "jpeg" in name])
def test_each_missing_segment_of_a_jpeg_is_refused_or_changes_no_size(name: str) -> None:
    data = DEFAULT_FORMATS[name]()
    whole = admit(BytesContent(data), EVERY)
    at = 2

    while data[at + 1] != 0xDA:
        (length,) = struct.unpack(">H", data[at + 2 : at + 4])
        without = data[:at] + data[at + 2 + length :]
        attachment = admitted(without, "image/jpeg")
        essential = data[at + 1] in {0xC0, 0xC2}  # without tables, the standard ones hold
        assert attachment is None or not essential, hex(data[at + 1])
        assert attachment is None or size_of(attachment) == size_of(whole)
        at += 2 + length


def test_bytes_behind_the_end_are_no_damage() -> None:
    """Cameras append films, tools append signatures; every viewer shows the picture."""
    for name in ("jpeg RGB (17, 9)", "png RGB (13, 11)", "gif L", "webp RGB"):
        data = DEFAULT_FORMATS[name]()
        longer = admit(BytesContent(data + b"\xff\xd8 trailing"), EVERY)
        assert longer.header == admit(BytesContent(data), EVERY).header
        assert longer.content.size == len(data) + 11


def test_the_second_picture_of_an_mpo_is_looked_at() -> None:
    """An index of two pictures promises two: a file cut behind the first is not whole."""
    data = DEFAULT_FORMATS["jpeg of two pictures (MPO)"]()
    second = data.rindex(b"\xff\xd8\xff")

    with pytest.raises(TruncatedImageError, match="further picture"):
        admit(BytesContent(data[:second]), EVERY)
    with pytest.raises(TruncatedImageError):
        admit(BytesContent(data[: second + 50] + bytes(len(data) - second - 50)), EVERY)


def test_a_gif_without_its_trailer_is_refused_even_if_all_frames_are_there() -> None:
    """Without it nobody can tell a whole film from one that lost its second half."""
    data = DEFAULT_FORMATS["gif animated"]()

    with pytest.raises(TruncatedImageError, match="trailer"):
        admit(BytesContent(data[:-1]), EVERY)


def test_an_apng_with_a_missing_frame_is_refused() -> None:
    """Pillow silently shows the frames that are left."""
    data = DEFAULT_FORMATS["apng"]()
    pieces = chunks(data)
    last_frame = [piece for piece in pieces if data[piece[0] + 4 : piece[0] + 8] == b"fcTL"][-1]
    end = pieces[-1][0]

    with pytest.raises(TruncatedImageError, match="2 of 3 frames"):
        admit(BytesContent(data[: last_frame[0]] + data[end:]), EVERY)


def test_a_header_that_the_decoder_does_not_confirm_is_refused() -> None:
    """The reference says what the header says, so the pixels must be of that size."""
    data = bytearray(saved(noise("RGB", (16, 16)), "WEBP", exif=b"Exif\0\0II*\0\x08\0\0\0\0\0"))
    data[24] ^= 1  # the canvas of the VP8X chunk; the picture inside is of another size

    with pytest.raises(CorruptImageError, match="size"):
        admit(BytesContent(bytes(data)), EVERY)


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("size", [(64, 48), (400, 300)])
def test_a_jpeg_whose_scan_was_cut_and_closed_again_is_refused(
    size: tuple[int, int], progressive: bool
) -> None:
    """A "repaired" picture: libjpeg paints the missing part grey and tells nobody (case 014).

    The last few bytes of a scan may be padding, so those are left alone.
    """
    picture = Image.effect_noise(size, 60).convert("RGB")
    data = saved(picture, "JPEG", progressive=progressive, quality=70)
    scan, end = data.rindex(b"\xff\xda") + 12, data.rindex(b"\xff\xd9")

    assert admitted(data) is not None
    for part in range(20):
        cut = scan + (end - 12 - scan) * part // 19
        assert admitted(data[:cut] + data[end:]) is None, part


def test_a_decoder_that_cannot_be_loaded_is_no_damage_of_the_picture(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An installation with a hole, or no descriptors left to import with: sending the picture
    again, as `corrupt-image` asks for, would not help."""

    def broken() -> None:
        raise ModuleNotFoundError("No module named 'fractions'")

    monkeypatch.setattr(decoding, "pillow", broken)

    with pytest.raises(MissingDependencyError, match="fractions"):
        admitted(saved(noise("RGB", (3, 2)), "PNG"))
