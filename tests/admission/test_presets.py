"""What may be sent, decided from references: one below, at and above each provider's limits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PIL import Image

from attachstore.admission import AdmissionPolicy, admit
from attachstore.admission.decoders import IN_PROCESS
from attachstore.admission.pool import ProcessPool
from attachstore.admission.presets import PRESETS, anthropic, base64_bytes, gemini, openai
from attachstore.attachment import BytesContent
from attachstore.digest import Digest
from attachstore.errors import (
    AdmissionError,
    InvalidTextError,
    TooManyBytesError,
    TooManyFramesError,
)
from attachstore.reference import Reference
from tests.admission import documents
from tests.admission.pictures import DEFAULT_FORMATS, saved

POOL = ProcessPool(processes_max=1)
PICTURE = Reference(
    digest=Digest.of(b""), size=1000, media_type="image/png", width=100, height=100, frames=1
)
DOCUMENT = Reference(digest=Digest.of(b""), size=1000, media_type="application/pdf", pages=10)


def rules(policy: AdmissionPolicy, reference: Reference, *beside: Reference) -> list[str]:
    return [objection.rule for objection in policy.check(reference, beside=beside)]


@pytest.mark.parametrize("preset", PRESETS)
def test_an_ordinary_picture_and_document_may_be_sent(preset: str) -> None:
    policy = PRESETS[preset]()

    assert rules(policy, PICTURE, PICTURE, DOCUMENT) == []
    assert rules(policy, DOCUMENT, PICTURE, DOCUMENT) == []
    for name in ("png RGB (13, 11)", "jpeg RGB (17, 9)", "webp RGB"):
        admit(BytesContent(DEFAULT_FORMATS[name]()), policy)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"media_type": "image/bmp"}, "media_types"),
        ({"size": 101 << 20}, "bytes_max"),
        ({"width": 8001, "height": 1}, "side_max"),
        ({"width": 8000, "height": 8000}, "pixels_max"),
        ({"frames": 1001}, "frames_max"),
        ({"width": 7000, "height": 7000, "frames": 5}, "frames_pixels_max"),
    ],
)
def test_every_policy_decides_by_its_own_limits(change: dict[str, int], rule: str) -> None:
    assert rules(AdmissionPolicy(), replace(PICTURE, **change)) == [rule]


def test_base64_is_what_counts() -> None:
    """5 MiB of base64 are 3.75 MiB of picture: a file below 5 MB may be too large."""
    at = replace(PICTURE, size=(5 << 20) // 4 * 3)
    assert base64_bytes(at.size) == 5 << 20
    assert rules(anthropic(), at) == []
    assert rules(anthropic(), replace(at, size=at.size + 1)) == ["image_base64_bytes_max"]
    assert [base64_bytes(size) for size in (0, 1, 2, 3, 4)] == [0, 4, 4, 4, 8]


def test_many_pictures_have_to_be_smaller() -> None:
    large = replace(PICTURE, width=2001)
    assert rules(anthropic(), large, *[PICTURE] * 19) == []
    assert rules(anthropic(), large, *[PICTURE] * 20) == ["many_images_side_max"]
    assert rules(anthropic(), replace(large, width=2000), *[PICTURE] * 20) == []


@pytest.mark.parametrize(
    ("preset", "most"), [("anthropic", 100), ("openai", 500), ("gemini", 3600)]
)
def test_pictures_are_counted(preset: str, most: int) -> None:
    policy = PRESETS[preset]()
    assert rules(policy, PICTURE, *[PICTURE] * (most - 1)) == []
    assert rules(policy, PICTURE, *[PICTURE] * most) == ["images_max"]
    assert rules(policy, DOCUMENT, *[PICTURE] * most) == []


@pytest.mark.parametrize(
    ("preset", "total"), [("anthropic", 32_000_000), ("openai", 50_000_000), ("gemini", 20_000_000)]
)
def test_a_request_has_a_size(preset: str, total: int) -> None:
    policy = PRESETS[preset]()
    half = replace(DOCUMENT, size=total // 8 * 3)
    assert rules(policy, half, half) == []
    assert rules(policy, replace(half, size=half.size + 3), half) == ["request_bytes_max"]
    alone = replace(DOCUMENT, size=policy.bytes_max)
    assert rules(policy, alone) == []
    assert rules(policy, replace(alone, size=alone.size + 1)) == ["bytes_max", "request_bytes_max"]


@pytest.mark.parametrize(("preset", "most"), [("anthropic", 100), ("gemini", 1000)])
def test_pages_are_counted_over_all_documents(preset: str, most: int) -> None:
    policy = PRESETS[preset]()
    assert rules(policy, replace(DOCUMENT, pages=most - 10), DOCUMENT) == []
    assert rules(policy, replace(DOCUMENT, pages=most - 9), DOCUMENT) == ["pages_max"]


def test_a_film_is_no_picture_for_some() -> None:
    """An MPO, two pictures in a JPEG, does not move."""
    film = replace(PICTURE, media_type="image/gif", frames=2)
    assert rules(anthropic(), film) == []
    assert rules(openai(), film) == ["films"]
    assert rules(gemini(), film) == ["media_types", "films"]
    assert rules(openai(), replace(PICTURE, media_type="image/jpeg", frames=2)) == []


def test_providers_want_utf8() -> None:
    for preset in PRESETS.values():
        with pytest.raises(InvalidTextError):
            admit(BytesContent(b"Gr\xfc\xdfe aus K\xf6ln"), preset())


def test_a_preset_can_be_changed() -> None:
    assert anthropic(side_max=1568).side_max == 1568
    with pytest.raises(ValueError, match="side_max"):
        anthropic(side_max=0)
    with pytest.raises(AdmissionError):
        admit(BytesContent(DEFAULT_FORMATS["png RGB (13, 11)"]()), openai(side_max=12))


def test_what_could_never_be_sent_is_not_admitted() -> None:
    """A limit that does not depend on the rest of the request holds when the file is attached."""
    large = saved(Image.effect_noise((2100, 2100), 90), "PNG", compress_level=0)
    assert (5 << 20) // 4 * 3 < len(large) < 5 << 20
    admit(BytesContent(large), openai())
    for decoders in (IN_PROCESS, POOL):
        with pytest.raises(TooManyBytesError) as too_large:
            admit(BytesContent(large), anthropic(), decoders=decoders)
        assert too_large.value.bytes_max == (5 << 20) // 4 * 3
        for name in ("gif animated", "apng", "webp animated, lossless True"):
            film = DEFAULT_FORMATS[name]()
            assert (admit(BytesContent(film), anthropic(), decoders=decoders).frames or 0) > 1
            with pytest.raises(TooManyFramesError):
                admit(BytesContent(film), openai(), decoders=decoders)
        two = DEFAULT_FORMATS["jpeg of two pictures (MPO)"]()
        assert admit(BytesContent(two), openai(), decoders=decoders).frames == 2
    POOL.close()


def test_a_long_document_is_kept_and_not_sent_whole() -> None:
    """It can be sent in parts; what counts its pages is the reference."""
    attachment = admit(BytesContent(documents.pdf(101)), anthropic())
    reference = Reference(
        digest=attachment.content.digest,
        size=attachment.content.size,
        media_type=attachment.header.media_type,
        pages=attachment.pages,
    )

    assert [objection.rule for objection in anthropic().check(reference)] == ["pages_max"]
    assert gemini().check(reference) == ()
