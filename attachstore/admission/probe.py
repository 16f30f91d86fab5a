"""Probe: do these bytes still carry this type, and what does their header say?

The reference stores what the probe said at admission, and every read asks it again, so the two
cannot disagree unless bytes or reference were changed. It is a pure function of the bytes: no
library is asked, so no upgrade can turn an old reference into an error. At admission the decoder
must find the same size as the probe, or the picture is refused.

Costs a few microseconds for JPEG, PNG, GIF and WebP; imports nothing heavy.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import BinaryIO

from attachstore.admission import archive, audio, isobmff, pdf, text
from attachstore.admission.defect import Defect
from attachstore.admission.images import DECODED_BY_EXTRA, FORMATS
from attachstore.admission.media_type import DOCX, PPTX, SVG, XLSX
from attachstore.admission.reading import Reader, reader_of
from attachstore.attachment import Header
from attachstore.reference import Reference


def probe(
    source: bytes | bytearray | memoryview | BinaryIO | Reader, media_type: str
) -> Header | None:
    """The header of `source` read as `media_type`; None if it does not carry that type (any more).

    `source` is bytes or a seekable binary file. Types without a signature of their own (text,
    JSON, octet-stream) are what they are called: there is nothing to compare.
    """
    try:
        return _probe(reader_of(source), media_type)
    except (Defect, ArithmeticError, LookupError, ValueError, struct.error):
        return None  # a header that its parser stumbles over is none


def _probe(reader: Reader, media_type: str) -> Header | None:
    image = FORMATS.get(media_type)
    if image is not None:
        if media_type in _BRANDS and isobmff.media_type(reader) not in _BRANDS[media_type]:
            return None
        reader.seek(0)
        size = image.header(reader)
        if size is None:
            return Header(media_type=media_type) if media_type in DECODED_BY_EXTRA else None
        return Header(media_type=media_type, width=size[0], height=size[1])
    confirm = _CONFIRM.get(media_type)
    if confirm is not None and not confirm(reader):
        return None
    return Header(media_type=media_type)


def has_probe(media_type: str) -> bool:
    """Whether bytes can fail to carry this type."""
    return media_type in FORMATS or media_type in _CONFIRM


def differences(
    reference: Reference, size: int, header: Header | None
) -> tuple[tuple[str, str, str], ...]:
    """(field, logged, actual) for each thing the reference says and the bytes deny; () if none.

    A picture that was stored without its decoder has a reference without dimensions: it says
    nothing about them, so the bytes cannot deny it, whatever is installed now.
    """
    found: list[tuple[str, str, str]] = []
    if size != reference.size:
        found.append(("size", str(reference.size), str(size)))
    if header is None:
        return (*found, ("media_type", reference.media_type, "something else"))
    unopened = reference.media_type in DECODED_BY_EXTRA and _is_without_dimensions(reference)
    for field in ("media_type",) if unopened else ("media_type", "width", "height"):
        logged, actual = getattr(reference, field), getattr(header, field)
        if logged != actual:
            found.append((field, _shown(logged), _shown(actual)))
    return tuple(found)


def _is_without_dimensions(reference: Reference) -> bool:
    return reference.width is None and reference.height is None


def _shown(value: object) -> str:
    return "absent" if value is None else str(value)


def _archive_type(media_type: str) -> Callable[[Reader], bool]:
    return lambda reader: _is_archive(reader) and archive.media_type(reader) == media_type


def _is_archive(reader: Reader) -> bool:
    front = reader.read(4)
    reader.seek(0)
    return front in archive.SIGNATURES


_BRANDS = {
    "image/avif": ("image/avif",),
    "image/heic": ("image/heic",),
    "image/heif": ("image/heif", "image/heic"),
}
_CONFIRM: dict[str, Callable[[Reader], bool]] = {
    "application/pdf": pdf.recognise,
    archive.ZIP: _is_archive,
    DOCX: _archive_type(DOCX),
    XLSX: _archive_type(XLSX),
    PPTX: _archive_type(PPTX),
    SVG: text.is_svg,
    "audio/mpeg": audio.is_mpeg,
    "audio/wav": audio.is_wave,
    "audio/flac": audio.is_flac,
    "audio/ogg": lambda reader: audio.ogg_type(reader) == "audio/ogg",
    "audio/mp4": lambda reader: isobmff.media_type(reader) == "audio/mp4",
}
