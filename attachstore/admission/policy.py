"""AdmissionPolicy: what may become an attachment, and how large."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self, cast

from attachstore.admission.media_type import ALIASES, DOCX, JSON, NDJSON, PPTX, XLSX
from attachstore.arguments import check_kind
from attachstore.reference import MEDIA_TYPE, Reference

DEFAULT_MEDIA_TYPES = frozenset(
    {
        "image/jpeg",
        "image/png",
        "image/gif",
        "image/webp",
        "application/pdf",
        "text/*",
        JSON,
        NDJSON,
        "audio/mpeg",
        "audio/wav",
        "audio/mp4",
        "audio/ogg",
        "audio/flac",
        DOCX,
        XLSX,
        PPTX,
        "application/zip",
    }
)
"""What model providers take."""

_PATTERN = re.compile(r"\*/\*|[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/\*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionPolicy:
    """Limits and allowed types. Every limit is the largest value that is still admitted.

    Raises ValueError for a limit that is not a positive integer and for a media type that is
    neither `type/subtype`, `type/*` nor `*/*`.
    """

    bytes_max: int = 100 << 20
    """Of the whole attachment."""
    pixels_max: int = 50_000_000
    """Of one frame, width times height."""
    side_max: int = 8000
    """Width and height, in pixels."""
    frames_max: int = 1000
    frames_pixels_max: int = 200_000_000
    """Pixels of all frames together."""
    media_types: frozenset[str] = DEFAULT_MEDIA_TYPES
    """Types and patterns (`text/*`, `*/*`); aliases such as `image/jpg` are understood."""
    metadata_bytes_max: int = 16 << 20
    """Of a picture's metadata, text and profiles, after decompression."""
    archive_entries_max: int = 10_000
    archive_bytes_max: int = 4 << 30
    """What a ZIP (DOCX, ...) says it unpacks to. Nothing is unpacked to find out."""
    text_utf8: bool = False
    """Whether text must be UTF-8. Off: text is a label, its bytes are kept as they are."""
    encrypted_documents: bool = False
    """Whether documents that need a password are admitted; they have no page count."""
    broken_documents: bool = False
    """Whether PDF, Office, ZIP and audio files with a broken structure are admitted."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(AdmissionPolicy):
            value = getattr(self, field.name)
            if field.name == "media_types":
                object.__setattr__(self, "media_types", _checked_types(value))
            elif field.name.endswith("_max"):
                _check_limit(field.name, value)
            elif type(value) is not bool:
                message = f"{field.name} must be true or false: {value!r}"
                raise ValueError(message)

    @classmethod
    def any(cls, **changes: Any) -> Self:
        """Every type is allowed; types that are not decoded are stored as they are."""
        settings: dict[str, Any] = {"media_types": frozenset({"*/*"}), **changes}
        return cls(**settings)

    def allows(self, media_type: str) -> bool:
        """Whether the (normalised) type is among `media_types`."""
        main = media_type.partition("/")[0]
        return not self.media_types.isdisjoint({media_type, f"{main}/*", "*/*"})

    def names(self, media_type: str) -> bool:
        """Whether the type is allowed by its own name, not only by a pattern."""
        return media_type in self.media_types

    def bytes_max_of(self, media_type: str) -> int:
        """The largest attachment of this type; never more than `bytes_max`."""
        del media_type
        return self.bytes_max

    def frames_max_of(self, media_type: str) -> int:
        """The most frames of a picture of this type; never more than `frames_max`."""
        del media_type
        return self.frames_max

    def check(
        self, reference: Reference, *, beside: Iterable[Reference] = ()
    ) -> tuple[Objection, ...]:
        """What stands against sending this attachment, by its reference alone; () if nothing.

        No byte is read: a reference says type, size and dimensions. `beside` are the other
        attachments of the same request; only a provider's policy has rules about those.
        """
        del beside
        check_kind("reference", reference, Reference)
        return tuple(self._objections(reference))

    def _objections(self, reference: Reference) -> Iterator[Objection]:
        if not self.allows(reference.media_type):
            yield Objection("media_types", reference.media_type, "not among them")
        pixels = (reference.width or 0) * (reference.height or 0)
        frames = reference.frames or 1
        for rule, actual in (
            ("bytes_max", reference.size),
            ("side_max", max(reference.width or 0, reference.height or 0)),
            ("pixels_max", pixels),
            ("frames_max", frames),
            ("frames_pixels_max", pixels * frames),
        ):
            limit = getattr(self, rule)
            if actual > limit:
                yield Objection(rule, actual, limit)


@dataclass(frozen=True, slots=True)
class Objection:
    """One rule that an attachment, or a request with it, breaks."""

    rule: str
    actual: int | str
    limit: int | str

    def __str__(self) -> str:
        return f"{self.rule}: {self.actual} (limit {self.limit})"


def _check_limit(name: str, value: object) -> None:
    if type(value) is not int or value <= 0:
        message = f"{name} must be a positive integer: {value!r}"
        raise ValueError(message)


def _checked_types(value: object) -> frozenset[str]:
    checked: set[str] = set()
    for item in _items(value):
        text = item.strip().lower() if isinstance(item, str) else ""
        if not MEDIA_TYPE.fullmatch(text) and not _PATTERN.fullmatch(text):
            message = f"media_types must hold type/subtype, type/* or */*: {item!r}"
            raise ValueError(message)
        checked.add(ALIASES.get(text, text))
    return frozenset(checked)


def _items(value: object) -> Iterable[object]:
    if isinstance(value, Iterable) and not isinstance(value, str):
        return cast("Iterable[object]", value)
    message = f"media_types must be a set of media types: {value!r}"
    raise ValueError(message)
