"""Thumbnails: small pictures for pages, made of attachments that were admitted before."""

from __future__ import annotations

import io
from typing import Any

from attachstore.admission import heif
from attachstore.admission.decoding import Limits
from attachstore.admission.images import DECODED_BY_EXTRA, FORMATS
from attachstore.admission.pillow import pillow
from attachstore.admission.policy import AdmissionPolicy
from attachstore.admission.probe import probe
from attachstore.errors import (
    AdmissionError,
    CorruptImageError,
    MissingDependencyError,
    UnsupportedMediaTypeError,
)

_WHERE = "thumbnail"
_QUALITY = 72
_LIMITS = AdmissionPolicy.any(pixels_max=200_000_000, side_max=1 << 20)


def thumbnail(data: bytes, media_type: str, side_max: int) -> bytes:
    """A WebP of the first frame, turned upright, no side longer than `side_max` pixels.

    Blocking. Raises AdmissionError if it is no picture, too large, or does not decode.
    """
    image_format = FORMATS.get(media_type)
    header = probe(data, media_type)
    if image_format is None or header is None or not header.width or not header.height:
        raise UnsupportedMediaTypeError(where=_WHERE, media_type=media_type)
    Limits(_LIMITS, media_type).add(header.width, header.height)
    try:
        if media_type in DECODED_BY_EXTRA:
            return _small(_of_heif(data), side_max)
        return _small(_upright(data, image_format.pillow_format, side_max), side_max)
    except AdmissionError:
        raise
    except MissingDependencyError:
        raise UnsupportedMediaTypeError(where=_WHERE, media_type=media_type) from None
    except Exception as error:  # Pillow raises whatever its parsers stumble over
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        raise CorruptImageError(where=_WHERE, media_type=media_type, reason=reason) from error


def _upright(data: bytes, pillow_format: str, side_max: int) -> Any:
    library = pillow()
    picture: Any = library.open(io.BytesIO(data), pillow_format)
    picture.draft(None, (side_max, side_max))  # a JPEG can be decoded smaller in the first place
    return library.operations.exif_transpose(picture)


def _of_heif(data: bytes) -> Any:
    mode, size, pixels, stride = heif.first(data)
    return pillow().image.frombytes(mode, size, pixels, "raw", mode, stride)


def _small(picture: Any, side_max: int) -> bytes:
    mode = (
        "RGBA" if picture.mode in {"LA", "PA", "RGBA"} or "transparency" in picture.info else "RGB"
    )
    picture = picture.convert(mode)
    picture.thumbnail((side_max, side_max))
    target = io.BytesIO()
    # As PNG, a photograph of this size takes twenty times as much; every browser reads WebP.
    picture.save(target, "WEBP", quality=_QUALITY)
    return target.getvalue()
