"""A deep scan: what only a decoder knows is compared with what was logged."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from attachstore.admission import AdmissionPolicy
from attachstore.admission.decoders import InProcess
from attachstore.attachment import Content
from attachstore.errors import DecoderFailedError, StorageIOError
from attachstore.integrity import Finding, Kind
from attachstore.integrity.decoding import DeepCheck
from attachstore.integrity.suspects import Suspect
from attachstore.reference import Reference
from attachstore.threads import CancelFlag
from tests.admission.documents import pdf
from tests.integrity.workshop import Workshop, in_memory


@pytest.fixture
def shop() -> Workshop:
    return in_memory()


def gif(frames: int = 2) -> bytes:
    pictures = [Image.new("RGB", (40, 30), (90 * number, 5, 9)) for number in range(frames)]
    file = io.BytesIO()
    pictures[0].save(file, "GIF", save_all=True, append_images=pictures[1:], duration=50)
    return file.getvalue()


def log_as(shop: Workshop, reference: Reference, **changes: int) -> None:
    """Log a reference that says something else than what was stored."""
    fields = {"size": reference.size, "media_type": reference.media_type}
    fields |= {"width": reference.width, "height": reference.height}
    fields |= {"frames": reference.frames, "pages": reference.pages}
    shop.log("s-1", Reference(digest=reference.digest, **{**fields, **changes}))  # type: ignore[arg-type] - fields


def deep(shop: Workshop, check: DeepCheck | None = None) -> tuple[list[Finding], list[Finding]]:
    report = shop.scan(deep=check or DeepCheck())
    assert report.deep
    return report.findings, report.notes


def test_a_whole_store_is_clean_deep_down(shop: Workshop) -> None:
    references = [
        shop.put(gif(), "image/gif", frames=2),
        shop.put(pdf(3), "application/pdf", pages=3),
        shop.put(b"words"),
    ]
    shop.log("s-1", references)

    assert deep(shop) == ([], [])


@pytest.mark.parametrize("frames", [1, 3])
def test_other_frames_than_were_logged_are_a_mismatch(shop: Workshop, frames: int) -> None:
    reference = shop.put(gif(), "image/gif", frames=2)
    log_as(shop, reference, frames=frames)

    (found,), _ = deep(shop)

    assert found.kind is Kind.HEADER_MISMATCH
    assert found.differences == (("frames", str(frames), "2"),)
    assert [use.seq for use in found.uses] == [1]
    assert shop.scan().clean, "without --deep nobody decodes"


def test_other_pages_than_were_logged_are_a_mismatch(shop: Workshop) -> None:
    log_as(shop, shop.put(pdf(3), "application/pdf", pages=3), pages=2)

    (found,), _ = deep(shop)

    assert found.differences == (("pages", "2", "3"),)


def test_only_the_reference_that_is_wrong_is_accused(shop: Workshop) -> None:
    """Two references to one object, one right and one wrong, and one that says nothing."""
    reference = shop.put(gif(), "image/gif", frames=2)
    shop.log("s-0", reference)
    log_as(shop, reference, frames=9)
    bare = Reference(
        digest=reference.digest, size=reference.size, media_type="image/gif", width=40, height=30
    )
    shop.log("s-2", bare)

    (found,), _ = deep(shop)

    assert [use.session for use in found.uses] == ["s-1"]


def test_what_does_not_decode_is_told_though_its_bytes_are_whole(shop: Workshop) -> None:
    """Admitted under another policy, or by a decoder that was wrong."""
    reference = shop.put(gif()[:-40], "image/gif", frames=2)
    shop.log("s-1", {"a": reference})

    (found,), _ = deep(shop)

    assert found.kind is Kind.NOT_DECODABLE
    assert found.uses[0].pointer == "/a"
    assert "does not decode as image/gif" in found.what


@pytest.mark.parametrize("policy", [AdmissionPolicy(frames_max=1), AdmissionPolicy(pixels_max=1)])
def test_what_is_over_todays_limits_is_not_accused(shop: Workshop, policy: AdmissionPolicy) -> None:
    """The store's policy when it was attached is not known any more."""
    shop.log("s-1", shop.put(gif(), "image/gif", frames=2))

    findings, (note,) = deep(shop, DeepCheck(policy))

    assert findings == []
    assert note.kind is Kind.NOT_DECODED
    assert note.uses_total == 1


class Failing(InProcess):
    """Decoders that die, or whose medium does."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def frames(
        self,
        content: Content,
        media_type: str,
        size: tuple[int, int],
        policy: AdmissionPolicy,
        cancel: CancelFlag | None,
    ) -> int:
        del content, media_type, size, policy, cancel
        raise self._error


@pytest.mark.parametrize(
    "error",
    [
        DecoderFailedError(where="x", media_type="image/gif", reason="killed"),
        ZeroDivisionError("surprise"),
    ],
)
def test_a_decoder_that_dies_accuses_nobody(shop: Workshop, error: Exception) -> None:
    shop.log("s-1", shop.put(gif(), "image/gif", frames=2))

    findings, (note,) = deep(shop, DeepCheck(decoders=Failing(error)))

    assert findings == []
    assert note.kind is Kind.NOT_DECODED


def test_a_medium_that_fails_under_the_decoder_is_unreadable(shop: Workshop) -> None:
    shop.log("s-1", shop.put(gif(), "image/gif", frames=2))
    error = StorageIOError(where="x", reason="EIO")

    (found,), _ = deep(shop, DeepCheck(decoders=Failing(error)))

    assert found.kind is Kind.OBJECT_UNREADABLE


def test_what_nobody_refers_to_is_not_decoded(shop: Workshop) -> None:
    """There is nothing to compare, and nothing says what type it is."""
    shop.put(gif()[:-40], "image/gif")

    findings, notes = deep(shop)

    assert (findings, notes) == ([], [])


def test_a_note_is_dropped_with_the_session_that_needed_it(shop: Workshop) -> None:
    reference = shop.put(gif(), "image/gif", frames=2)
    note = Suspect(Finding(kind=Kind.NOT_DECODED, what="x", digest=reference.digest))

    assert note.is_nothing_without_uses
