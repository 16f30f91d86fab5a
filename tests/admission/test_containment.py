"""Nothing but our own errors comes out, whatever goes in and whatever the host does to Pillow."""

from __future__ import annotations

import io
import random
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import GifImagePlugin, Image, ImageFile

from attachstore.admission import AdmissionPolicy, admit, examine, thumbnail
from attachstore.admission.media_type import DOCX, SVG
from attachstore.admission.probe import probe
from attachstore.attachment import Attachment, BytesContent
from attachstore.errors import AdmissionError, AttachstoreError, StorageIOError
from attachstore.threads import CancelFlag, Cancelled
from tests.admission import documents
from tests.admission.pictures import DEFAULT_FORMATS, FURTHER_FORMATS, saved
from tests.admission.test_cases import CASES

EVERY = AdmissionPolicy.any()
CLAIMS = [None, "image/png", "image/jpeg", "text/plain", "application/pdf", DOCX, "audio/mpeg", SVG]
SEEDS = [
    *(make() for make in DEFAULT_FORMATS.values()),
    *(make() for name, make in FURTHER_FORMATS.items() if "ico" not in name),
    documents.pdf(),
    documents.office(DOCX),
    documents.open_document(),
    documents.wav(),
    documents.mp3(),
    documents.flac(),
    documents.ogg(),
    documents.m4a(),
    documents.SVG,
    documents.HTML,
    *(path.read_bytes() for path in sorted(CASES.glob("153*/seed.*"))),
]


ELF = b"\x7fELF\2\1\1\0" + bytes(8) + b"\2\0\x3e\0\1\0\0\0" + bytes(99)


def outcome(data: bytes, declared: str | None, policy: AdmissionPolicy = EVERY) -> str:
    """Type or code. Anything but an Attachment or an AttachstoreError fails the test."""
    refusal: AttachstoreError | None = None
    attachment: Attachment | None = None
    try:
        attachment = admit(BytesContent(data), policy, declared=declared)
    except AttachstoreError as error:
        refusal = error
    if attachment is None:
        assert refusal is not None
        assert str(refusal)
        assert refusal.code not in {"decoder-failed", "resource-exhausted", "storage-io"}
        return refusal.code
    assert probe(data, attachment.header.media_type) == attachment.header
    return attachment.header.media_type


@given(data=st.binary(max_size=300), declared=st.sampled_from(CLAIMS))
@example(data=b"\xff\xfe", declared=None)
@example(data=b"PK\5\6" + bytes(18), declared=None)
@settings(max_examples=400)
def test_arbitrary_bytes_become_an_attachment_or_our_own_error(
    data: bytes, declared: str | None
) -> None:
    outcome(data, declared)


@given(
    seed=st.sampled_from(SEEDS),
    declared=st.sampled_from(CLAIMS),
    edits=st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 8), st.binary(max_size=6)), min_size=1, max_size=4
    ),
)
@settings(max_examples=600)
def test_damaged_files_become_an_attachment_or_our_own_error(
    seed: bytes, declared: str | None, edits: list[tuple[float, int, bytes]]
) -> None:
    """Each edit replaces some bytes at a place by others: flips, cuts, insertions, new lengths."""
    data = bytearray(seed)
    for place, length, replacement in edits:
        at = int(place * len(data))
        data[at : at + length] = replacement
    outcome(bytes(data), declared)


@pytest.mark.parametrize("name", ["seed.png", "seed.jpg", "seed.gif", "seed.webp"])
def test_many_damaged_pictures_raise_one_kind_of_exception(name: str) -> None:
    """Case 153: Pillow answers with nine exception classes; ours answer with ours."""
    seed = (CASES / "153-image-library-exception-types" / name).read_bytes()
    source = random.Random(153)
    policy = AdmissionPolicy(pixels_max=1_000_000)

    for _ in range(1500):
        data = bytearray(seed)
        for _ in range(source.choice((1, 1, 2, 5))):
            at = source.randrange(len(data) + 1)
            match source.randrange(4):
                case 0:
                    data[at : at + 1] = bytes([source.randrange(256)])
                case 1:
                    del data[at:]
                case 2:
                    data[at:at] = source.randbytes(source.randrange(1, 9))
                case _:
                    data[at : at + 4] = source.randbytes(4)
        outcome(bytes(data), None, policy)


def test_eight_threads_get_the_right_types() -> None:
    """Case 149: one of libmagic's interfaces kills the process here. We never call it."""
    kinds = {
        "image/png": DEFAULT_FORMATS["png RGB (13, 11)"](),
        "image/jpeg": DEFAULT_FORMATS["jpeg RGB (17, 9)"](),
        "application/pdf": documents.pdf(),
        "text/plain": b"hello, world\n",
        "application/x-executable": ELF,
    }

    def work(_: int) -> list[tuple[str, str]]:
        return [
            (kind, admit(BytesContent(data), EVERY).header.media_type)
            for _ in range(100)
            for kind, data in kinds.items()
        ]

    with ThreadPoolExecutor(8) as pool:
        for answers in pool.map(work, range(8)):
            assert all(kind == answer for kind, answer in answers)


@pytest.fixture
def odd_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with every Pillow setting turned against us, and warnings as errors."""
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    monkeypatch.setattr(
        GifImagePlugin, "LOADING_STRATEGY", GifImagePlugin.LoadingStrategy.RGB_ALWAYS
    )
    monkeypatch.setattr(Image, "open", None)
    monkeypatch.setattr(Image, "OPEN", {})


def test_the_hosts_pillow_settings_change_no_outcome(request: pytest.FixtureRequest) -> None:
    files = [path for path in sorted(CASES.glob("*/*")) if path.suffix != ".json"]
    pictures = [make() for make in {**DEFAULT_FORMATS, **FURTHER_FORMATS}.values()]
    everything = [path.read_bytes() for path in files] + pictures

    def outcomes() -> list[list[str]]:
        return [
            [finding.code for finding in examine(BytesContent(data), EVERY).findings]
            for data in everything
        ]

    before = outcomes()
    request.getfixturevalue("odd_host")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert outcomes() == before


def test_pillow_in_the_host_is_left_alone() -> None:
    """Its settings are never touched, not even for a moment, and its plugins stay its own."""
    seen: set[tuple[object, ...]] = set()
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            seen.add((Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES, len(Image.OPEN) > 1))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for make in FURTHER_FORMATS.values():
            outcome(make(), None)
    finally:
        stop.set()
        watcher.join()

    assert len(seen) == 1


def test_the_vocabulary_and_the_probe_are_light_to_import() -> None:
    """`attachstore --help` must not wait for codecs."""
    script = (
        "import sys; import attachstore.admission.policy, attachstore.admission.probe;"
        "print([name for name in ('PIL', 'magic', 'pikepdf', 'asyncio.subprocess') "
        "if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout.strip() in {"[]", "['asyncio.subprocess']"}


def test_a_cancelled_admission_gives_up() -> None:
    cancel = CancelFlag()
    cancel.set()
    data = saved(Image.effect_noise((1100, 1100), 90), "PNG", compress_level=0)
    assert len(data) > 1 << 20

    with pytest.raises(Cancelled):
        admit(BytesContent(data), EVERY, cancel=cancel)


@pytest.mark.parametrize(
    "error", [StorageIOError(where="staging", reason="EIO"), OSError(5, "EIO")]
)
@pytest.mark.parametrize(
    "name", ["png uncompressed", "jpeg RGB (17, 9)", "webp RGB", "tiff RGB None"]
)
def test_a_failing_disk_under_the_bytes_is_no_fault_of_theirs(name: str, error: Exception) -> None:
    """The spooled file cannot be read: the picture may be perfect, so it is not called damaged."""

    class Failing(BytesContent):
        reads_left = 0

        def open(self) -> io.BytesIO:
            content = self

            class Reader(io.BytesIO):
                def read(self, size: int | None = -1, /) -> bytes:
                    content.reads_left -= 1
                    if content.reads_left < 0:
                        raise error
                    return super().read(size)

            return Reader(self.data)

    data = {**DEFAULT_FORMATS, **FURTHER_FORMATS}[name]()
    content = Failing(data)
    failed = 0
    for reads in range(400):
        content = Failing(data)
        content.reads_left = reads
        try:
            admit(content, EVERY)
        except StorageIOError:
            failed += 1
            continue
        break
    assert failed >= 2
    assert content.reads_left >= 0, "it was admitted although a read had failed"


def test_the_content_stays_the_callers_to_close() -> None:
    class Counting(BytesContent):
        closed = 0

        def close(self) -> None:
            self.closed += 1

    content = Counting(DEFAULT_FORMATS["png RGB (13, 11)"]())
    attachment = admit(content, EVERY)

    assert isinstance(attachment, Attachment)
    assert content.closed == 0


@pytest.mark.parametrize("name", [*DEFAULT_FORMATS, *FURTHER_FORMATS])
def test_every_admitted_picture_has_a_thumbnail(name: str) -> None:
    data = {**DEFAULT_FORMATS, **FURTHER_FORMATS}[name]()
    media_type = admit(BytesContent(data), EVERY).header.media_type

    small = thumbnail(data, media_type, 8)

    with Image.open(io.BytesIO(small)) as picture:
        assert picture.format == "WEBP"
        assert max(picture.size) <= 8


def test_a_thumbnail_is_turned_upright() -> None:
    data = (CASES / "041-exif-orientation-6/o6.jpg").read_bytes()
    with Image.open(io.BytesIO(thumbnail(data, "image/jpeg", 30))) as picture:
        assert picture.size == (20, 30)


def test_what_is_no_picture_has_no_thumbnail() -> None:
    for data, media_type in (
        (b"hello", "text/plain"),
        (documents.SVG, SVG),
        (b"not a png", "image/png"),
        ((CASES / "017-png-bad-deflate-good-crc/a.png").read_bytes(), "image/png"),
    ):
        with pytest.raises(AdmissionError):
            thumbnail(data, media_type, 64)
