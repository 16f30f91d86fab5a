"""The picture formats that are decoded, each with its three questions.

`header` asks what the front says (fast, used on every read), `frames` walks the structure to the
file's own end, and `pillow_format` names the decoder that must agree with both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from attachstore.admission import bmp, gif, ico, isobmff, jpeg, png, tiff, webp
from attachstore.admission.reading import Reader


@dataclass(frozen=True, slots=True)
class ImageFormat:
    """How one media type is read."""

    header: Callable[[Reader], tuple[int, int] | None]
    frames: Callable[[Reader, int], Iterator[tuple[int, int]]]
    """Raises Defect where the structure is wrong; limits are applied to each size it yields."""
    pillow_format: str


def _box_frames(reader: Reader, _metadata_bytes_max: int) -> Iterator[tuple[int, int]]:
    """The primary picture; how many follow in a sequence only the decoder says. Raises Defect."""
    size = isobmff.header(reader)
    reader.seek(0)
    if size is not None:
        yield size
    isobmff.check_boxes(reader, frozenset({b"meta", b"mdat"}))
    if size is None:
        raise isobmff.Broken("its header holds no size")


FORMATS = {
    "image/jpeg": ImageFormat(jpeg.header, jpeg.frames, "JPEG"),
    "image/png": ImageFormat(png.header, png.frames, "PNG"),
    "image/gif": ImageFormat(gif.header, gif.frames, "GIF"),
    "image/webp": ImageFormat(webp.header, webp.frames, "WEBP"),
    "image/bmp": ImageFormat(bmp.header, bmp.frames, "BMP"),
    "image/tiff": ImageFormat(tiff.header, tiff.frames, "TIFF"),
    "image/avif": ImageFormat(isobmff.header, _box_frames, "AVIF"),
    "image/heic": ImageFormat(isobmff.header, _box_frames, "HEIF"),
    "image/heif": ImageFormat(isobmff.header, _box_frames, "HEIF"),
    "image/vnd.microsoft.icon": ImageFormat(ico.header, ico.frames, "ICO"),
}

DECODED_BY_EXTRA = frozenset({"image/heic", "image/heif"})
"""Their decoder is optional. Without it a policy that allows every type stores them unopened, and
their reference says so by having no dimensions, today and after the extra has come or gone."""
