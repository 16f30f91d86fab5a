"""HEIC: decoded in full with the extra `heif`, and what is said of it without."""

from __future__ import annotations

import importlib.util
import io
import struct
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pillow_heif
import pytest
from PIL import Image

from attachstore import Store
from attachstore.admission import AdmissionPolicy, admit, examine, heif, thumbnail
from attachstore.admission.probe import differences, probe
from attachstore.attachment import Attachment, BytesContent
from attachstore.errors import (
    AttachstoreError,
    CorruptImageError,
    MissingDependencyError,
    UnsupportedMediaTypeError,
)
from attachstore.objects.memory import MemoryBackend
from attachstore.objects.store import ObjectStore
from attachstore.reference import Reference
from tests.admission.pictures import FURTHER_FORMATS, heic
from tests.admission.test_cases import CASES

HEIC = {name: make() for name, make in FURTHER_FORMATS.items() if name.startswith("heic")}
PLAIN = HEIC["heic"]
EVERY = AdmissionPolicy.any()
NAMED = AdmissionPolicy(media_types=frozenset({"image/heic", "image/heif"}))
SKELETON = (CASES / "047-heic/photo.heic").read_bytes()


@pytest.fixture
def without_extra(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process as it is where pillow-heif was never installed."""
    found = importlib.util.find_spec

    def found_but_one(name: str) -> ModuleSpec | None:
        return None if name == "pillow_heif" else found(name)

    heif._loaded.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(importlib.util, "find_spec", found_but_one)
        yield
    heif._loaded.cache_clear()


def refusal(data: bytes, policy: AdmissionPolicy = EVERY) -> str | None:
    try:
        admit(BytesContent(data), policy)
    except AttachstoreError as error:
        return error.code
    return None


def reference_of(attachment: Attachment) -> Reference:
    return ObjectStore(MemoryBackend()).commit(attachment).reference


@pytest.mark.parametrize(
    ("name", "stored", "frames"),
    [
        ("heic", (64, 64), 1),
        ("heic grey", (64, 64), 1),
        ("heic transparent", (64, 64), 1),
        ("heic turned", (64, 64), 1),
        ("heic of two pictures", (64, 64), 2),
        ("heic in tiles", (150, 100), 1),
    ],
)
def test_a_heic_has_the_size_of_its_stored_pixels(
    name: str, stored: tuple[int, int], frames: int
) -> None:
    """Before crop and rotation, as for every other format; the decoder's size is checked."""
    attachment = admit(BytesContent(HEIC[name]), NAMED)

    assert attachment.header.media_type == "image/heic"
    assert (attachment.header.width, attachment.header.height) == stored
    assert attachment.frames == frames


def test_a_heic_cut_anywhere_is_refused() -> None:
    for at in range(40, len(PLAIN)):  # shorter ones lack the signature
        assert refusal(PLAIN[:at], NAMED) is not None, at


def test_a_heic_with_any_flipped_bit_is_refused_or_keeps_its_promises() -> None:
    """Its pixels carry no checksum; what it says of itself has to stay consistent."""
    for at in range(0, len(PLAIN) * 8, 5):
        flipped = bytearray(PLAIN)
        flipped[at // 8] ^= 1 << at % 8
        data = bytes(flipped)
        found = examine(BytesContent(data), EVERY)
        assert found.header is None or probe(data, found.header.media_type) == found.header


def test_a_crop_is_read_as_the_decoder_reads_it() -> None:
    """Also one that was changed, or taken out: both sides say what is shown."""
    wider = PLAIN.replace(struct.pack(">LL", 33, 1), struct.pack(">LL", 35, 1), 1)

    assert wider != PLAIN
    for data in (wider, PLAIN.replace(b"clap", b"free", 1)):
        assert refusal(data) is None
    assert refusal(HEIC["heic turned"].replace(b"irot", b"free", 1)) is None


def test_a_size_that_the_decoder_does_not_confirm_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def shown(_reader: object) -> frozenset[tuple[int, int]]:
        return frozenset({(33, 18), (34, 17)})

    monkeypatch.setattr(heif.isobmff, "shown_sizes", shown)

    with pytest.raises(CorruptImageError, match="says 64x64, the decoder finds 33x17"):
        admit(BytesContent(PLAIN), EVERY)


def test_what_a_crop_hides_counts_too() -> None:
    """1 x 1 pixel is shown, 64 x 64 are decoded: limits are for those."""
    assert refusal(PLAIN, AdmissionPolicy.any(pixels_max=64 * 64)) is None
    assert refusal(PLAIN, AdmissionPolicy.any(pixels_max=64 * 64 - 1)) == "too-many-pixels"
    assert refusal(PLAIN, AdmissionPolicy.any(side_max=63)) == "dimension-limit"
    two = HEIC["heic of two pictures"]
    assert refusal(two, AdmissionPolicy.any(frames_max=1)) == "too-many-frames"
    large = heic("RGB", (16, 12), (200, 100))  # the second picture is the large one
    assert refusal(large, AdmissionPolicy.any(side_max=199)) == "dimension-limit"


def test_a_container_without_a_picture_is_no_picture() -> None:
    assert refusal(SKELETON) == "corrupt-image"
    assert refusal(SKELETON, AdmissionPolicy()) == "unsupported-media-type"


def test_what_this_libheif_cannot_do_is_no_damage() -> None:
    """A kind of HEIC that it does not take: other programs may open it."""
    scalable = PLAIN.replace(b"mif1heic", b"hevshevs", 1).replace(b"heic", b"hevs", 1)

    (finding,) = examine(BytesContent(scalable), EVERY).findings

    assert finding.code == "decoder-failed"
    assert str(finding).isprintable()


def test_the_hosts_settings_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    library: Any = pillow_heif.options
    monkeypatch.setattr(library, "PREFERRED_DECODER", {"HEIF": "no such decoder"})
    monkeypatch.setattr(library, "DECODE_THREADS", 1000)

    assert refusal(PLAIN) is None
    assert "HEIF" not in Image.registered_extensions().values()  # and ours do not leak either


def test_a_thumbnail_is_upright_and_cropped() -> None:
    picture = Image.open(io.BytesIO(thumbnail(HEIC["heic turned"], "image/heic", 66)))

    assert picture.size == (17, 33)


@pytest.mark.usefixtures("without_extra")
def test_without_the_extra_a_policy_that_names_the_type_says_what_is_missing() -> None:
    """It asked for whole pictures, and nobody here can say whether this is one."""
    with pytest.raises(MissingDependencyError, match=r"attachstore\[heif\]"):
        admit(BytesContent(PLAIN), NAMED)
    for data in (PLAIN, SKELETON):
        found = examine(BytesContent(data), NAMED)
        assert [finding.code for finding in found.findings] == ["missing-dependency"]


def test_an_extra_that_does_not_load_is_one_that_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An installation with a hole is no damage of the picture."""
    heif._loaded.cache_clear()
    monkeypatch.setitem(sys.modules, f"{heif._PRIVATE_NAME}.constants", None)

    with pytest.raises(MissingDependencyError, match="cannot be loaded"):
        admit(BytesContent(PLAIN), NAMED)


@pytest.mark.usefixtures("without_extra")
def test_without_the_extra_it_is_stored_unopened_where_everything_is_allowed() -> None:
    for data in (PLAIN, SKELETON):
        for policy in (EVERY, AdmissionPolicy(media_types=frozenset({"image/*"}))):
            attachment = admit(BytesContent(data), policy)
            assert (attachment.header.width, attachment.header.height) == (None, None)
            assert attachment.frames is None
    assert refusal(PLAIN, AdmissionPolicy.any(side_max=63)) == "dimension-limit"
    with pytest.raises(UnsupportedMediaTypeError):
        thumbnail(PLAIN, "image/heic", 32)


def test_a_reference_stays_true_when_the_extra_comes_or_goes(
    request: pytest.FixtureRequest,
) -> None:
    """The probe asks no library; a reference without dimensions says nothing about them."""
    with_extra = reference_of(admit(BytesContent(PLAIN), EVERY))
    request.getfixturevalue("without_extra")
    unopened = reference_of(admit(BytesContent(PLAIN), EVERY))
    broken = reference_of(admit(BytesContent(SKELETON), EVERY))

    assert (with_extra.width, unopened.width) == (64, None)
    for reference, data in ((with_extra, PLAIN), (unopened, PLAIN), (broken, SKELETON)):
        assert differences(reference, len(data), probe(data, "image/heic")) == ()


def test_wrong_dimensions_of_a_heic_are_still_a_mismatch() -> None:
    reference = Reference(
        digest=BytesContent(PLAIN).digest,
        size=len(PLAIN),
        media_type="image/heic",
        width=33,
        height=64,
    )

    assert differences(reference, len(PLAIN), probe(PLAIN, "image/heic")) == (
        ("width", "33", "64"),
    )
    half = Reference(
        digest=reference.digest, size=len(PLAIN), media_type="image/heic", width=None, height=None
    )
    assert differences(half, len(PLAIN), probe(b"\xff\xd8\xff" + PLAIN, "image/heic")) != ()


async def test_a_store_keeps_its_promises_when_the_extra_comes_or_goes(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Reading, logging, replaying and scanning all ask the same probe."""
    async with Store.open(tmp_path, policy=EVERY, decode_in_process=True) as store:
        session = await store.sessions.create("s-1")
        with_extra = await store.attach(PLAIN)
        await session.append("message", {"file": with_extra})
        request.getfixturevalue("without_extra")
        unopened = await store.attach(PLAIN)
        broken = await store.attach(SKELETON)
        await session.append("message", {"files": [unopened, broken]})
    assert (with_extra.width, unopened.width, broken.width) == (64, None, None)

    async with Store.open(tmp_path, policy=EVERY, decode_in_process=True) as store:
        for reference in (with_extra, unopened, broken):
            await store.read(reference)
        session = await store.sessions.load("s-1")
        await session.append("message", {"again": [with_extra, unopened, broken]})
        assert len([step async for step in store.replay("s-1")]) == 3
        report = await store.scan()
    assert report.clean, report
