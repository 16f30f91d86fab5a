"""Presets: what the documentation of model providers says they take.

A reference in a session's history is sent again with every turn. One that the provider refuses
makes every later turn fail, so the limits are applied when it is attached (the policy), and,
for those that depend on what else is in the request, before it is sent (`check`).

The numbers are those of the documentation on the day each docstring names. Where pages disagree,
or say MB without saying which, the smaller number is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from attachstore.admission.media_type import JSON, NDJSON
from attachstore.admission.policy import AdmissionPolicy, Objection
from attachstore.reference import Reference

_TEXTS = frozenset({"text/*", JSON, NDJSON})
_MAY_MOVE = frozenset({"image/gif", "image/png", "image/webp"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """What one request may hold. None: the documentation names no limit.

    Providers count bytes as they travel: in base64, four characters for three bytes.
    """

    request_bytes_max: int
    """Of all attachments together, in base64; the text around them is not counted here."""
    image_base64_bytes_max: int | None = None
    images_max: int | None = None
    many_images: int | None = None
    """Above so many pictures, each of them has to keep to `many_images_side_max` pixels."""
    many_images_side_max: int = 0
    pages_max: int | None = None
    """Of all PDF together. Applied by `check` only: a long one can be sent in parts."""
    films: bool = True
    """Whether pictures may have several frames."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderPolicy(AdmissionPolicy):
    """An AdmissionPolicy that also knows what may stand beside each other in a request."""

    request: RequestLimits

    def bytes_max_of(self, media_type: str) -> int:
        """For pictures, what fits into the provider's limit in base64."""
        limit = self.request.image_base64_bytes_max
        if limit is None or not media_type.startswith("image/"):
            return self.bytes_max
        return min(self.bytes_max, limit // 4 * 3)

    def frames_max_of(self, media_type: str) -> int:
        """One, where the provider takes no films."""
        moves = media_type in _MAY_MOVE and not self.request.films
        return 1 if moves else self.frames_max

    def check(
        self, reference: Reference, *, beside: Iterable[Reference] = ()
    ) -> tuple[Objection, ...]:
        """What stands against sending this attachment together with those `beside` it.

        Decided from the references alone. () if it may be sent.
        """
        others = [*beside]
        # Named: `super()` without arguments does not know a class that `slots` made anew.
        own = AdmissionPolicy.check(self, reference)
        return (*own, *self._alone(reference), *self._together(reference, [*others, reference]))

    def _alone(self, reference: Reference) -> Iterator[Objection]:
        limits, length = self.request, base64_bytes(reference.size)
        if not _is_picture(reference):
            return
        if limits.image_base64_bytes_max is not None and length > limits.image_base64_bytes_max:
            yield Objection("image_base64_bytes_max", length, limits.image_base64_bytes_max)
        moves = reference.media_type in _MAY_MOVE and (reference.frames or 1) > 1
        if moves and not limits.films:
            yield Objection("films", f"{reference.frames} frames", "one frame")

    def _together(self, reference: Reference, everything: list[Reference]) -> Iterator[Objection]:
        limits = self.request
        pictures = sum(map(_is_picture, everything))
        total = sum(base64_bytes(one.size) for one in everything)
        pages = sum(one.pages or 0 for one in everything)
        side = max(reference.width or 0, reference.height or 0)
        if total > limits.request_bytes_max:
            yield Objection("request_bytes_max", total, limits.request_bytes_max)
        if (
            limits.images_max is not None
            and pictures > limits.images_max
            and _is_picture(reference)
        ):
            yield Objection("images_max", pictures, limits.images_max)
        if limits.pages_max is not None and reference.pages and pages > limits.pages_max:
            yield Objection("pages_max", pages, limits.pages_max)
        many = limits.many_images is not None and pictures > limits.many_images
        if many and side > limits.many_images_side_max:
            yield Objection("many_images_side_max", side, limits.many_images_side_max)


def base64_bytes(size_bytes: int) -> int:
    """How long so many bytes are in base64."""
    return (size_bytes + 2) // 3 * 4


def anthropic(**changes: Any) -> ProviderPolicy:
    """The Messages API of Anthropic.

    JPEG, PNG, GIF and WebP up to 8000 x 8000 pixels, in a request of more than 20 pictures up to
    2000 x 2000; 100 pictures in a request (600 for models with long contexts); 5 MiB of base64
    for each; 32 MB for the request; PDF without a password, 100 pages in a request.

    Sources: platform.claude.com/docs, pages "Vision" and "PDF support"; for the 5 MiB being
    counted in base64, the API's own error (`6521204 bytes > 5242880 bytes`). As of 2026-11-29.
    """
    pictures = {"image/jpeg", "image/png", "image/gif", "image/webp"}
    return _policy(
        {*pictures, "application/pdf", *_TEXTS},
        RequestLimits(
            request_bytes_max=32_000_000,
            image_base64_bytes_max=5 << 20,
            images_max=100,
            many_images=20,
            many_images_side_max=2000,
            pages_max=100,
        ),
        {"pixels_max": 8000 * 8000, "side_max": 8000, **changes},
    )


def openai(**changes: Any) -> ProviderPolicy:
    """The Responses API of OpenAI.

    PNG, JPEG, WebP and GIF that does not move, 500 pictures and 50 MB in a request; PDF; MP3 and
    WAV. No limit on pixels is documented (pictures are scaled down), so ours holds.

    Sources: developers.openai.com/docs, guides "Images and vision", "File inputs", "Audio". As
    of 2026-11-29.
    """
    pictures = {"image/jpeg", "image/png", "image/gif", "image/webp"}
    return _policy(
        {*pictures, "application/pdf", "audio/mpeg", "audio/wav", *_TEXTS},
        RequestLimits(request_bytes_max=50_000_000, images_max=500, films=False),
        changes,
    )


def gemini(**changes: Any) -> ProviderPolicy:
    """The Gemini API of Google, with attachments inside the request.

    PNG, JPEG and WebP, 3 600 pictures; PDF up to 1 000 pages; WAV, MP3, OGG and FLAC; 20 MB for
    the request. HEIC and HEIF are taken too, and left out here, because their decoder is an extra
    that may not be installed; where it is, name them in `media_types`. GIF is not taken.

    Sources: ai.google.dev/gemini-api/docs, pages "Image understanding", "Document understanding",
    "Audio understanding", "Prompting with media files". As of 2026-11-29.
    """
    pictures = {"image/jpeg", "image/png", "image/webp"}
    sounds = {"audio/wav", "audio/mpeg", "audio/ogg", "audio/flac"}
    return _policy(
        {*pictures, *sounds, "application/pdf", *_TEXTS},
        RequestLimits(request_bytes_max=20_000_000, images_max=3600, pages_max=1000, films=False),
        changes,
    )


PRESETS: Mapping[str, Callable[..., ProviderPolicy]] = {
    "anthropic": anthropic,
    "openai": openai,
    "gemini": gemini,
}


def _policy(
    media_types: set[str], request: RequestLimits, changes: Mapping[str, Any]
) -> ProviderPolicy:
    """No bytes are let in that would not fit into a request of their own."""
    settings: dict[str, Any] = {
        "media_types": frozenset(media_types),
        "bytes_max": request.request_bytes_max // 4 * 3,
        "text_utf8": True,
        **changes,
    }
    return ProviderPolicy(request=request, **settings)


def _is_picture(reference: Reference) -> bool:
    return reference.media_type.startswith("image/")
