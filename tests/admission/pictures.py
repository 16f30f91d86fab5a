"""Valid pictures of many modes and sizes, made here: none of them may be refused.

Small, so that they can be cut at every byte; noisy, so that compressed data is more than a header.
"""

from __future__ import annotations

import functools
import io
import random
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Any, cast

import pillow_heif
from PIL import Image, ImageCms

JPEG_MODES = ("RGB", "L", "CMYK", "YCbCr")
PNG_MODES = ("RGB", "RGBA", "L", "LA", "P", "1", "I;16")


def noise(mode: str, size: tuple[int, int], seed: int = 1) -> Image.Image:
    """A picture that looks like a photograph to a compressor: a gradient with noise."""
    width, height = size
    source = random.Random(seed)
    data = bytes(
        min(255, (3 * x + 5 * y + channel * 40 + source.randrange(40)) % 256)
        for y in range(height)
        for x in range(width)
        for channel in range(3)
    )
    picture = Image.frombytes("RGB", size, data)
    if mode == "I;16":
        return picture.convert("L").convert("I;16")
    if mode == "PA":
        return picture.convert("P")
    return picture.convert(mode)


def saved(picture: Image.Image, image_format: str, **options: Any) -> bytes:
    target = io.BytesIO()
    picture.save(target, image_format, **options)
    return target.getvalue()


def heic(mode: str, size: tuple[int, int], *more: tuple[int, int], **options: Any) -> bytes:
    """Encoded by x265, which pads to blocks of 8 pixels or more and crops what is shown (clap)."""
    library: Any = pillow_heif  # half-typed
    file = library.from_pillow(noise(mode, size))
    for seed, other in enumerate(more):
        file.add_from_pillow(noise("RGB", other, seed))
    target = io.BytesIO()
    file.save(target, quality=60, **options)
    return target.getvalue()


def exif(orientation: int) -> bytes:
    data = Image.Exif()
    data[0x0112] = orientation
    data[0x010F] = "attachstore"
    return data.tobytes()


def png_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">L", len(body)) + kind + body + struct.pack(">L", zlib.crc32(kind + body))


def interlaced_png(size: tuple[int, int], colour: int = 2, depth: int = 8) -> bytes:
    """Adam7, which Pillow reads and does not write."""
    width, height = size
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    source = random.Random(width * height)
    rows = bytearray()
    for x, y, dx, dy in (
        (0, 0, 8, 8),
        (4, 0, 8, 8),
        (0, 4, 4, 8),
        (2, 0, 4, 4),
        (0, 2, 2, 4),
        (1, 0, 2, 2),
        (0, 1, 1, 2),
    ):
        columns, lines = -(-(width - x) // dx), -(-(height - y) // dy)
        if columns > 0 and lines > 0:
            for _ in range(lines):
                rows += b"\0" + source.randbytes((columns * channels * depth + 7) // 8)
    head = struct.pack(">LLBBBBB", width, height, depth, colour, 0, 0, 1)
    return (
        b"\x89PNG\r\n\x1a\n"
        + png_chunk(b"IHDR", head)
        + png_chunk(b"IDAT", zlib.compress(bytes(rows)))
        + png_chunk(b"IEND", b"")
    )


def deep_png(size: tuple[int, int], colour: int, depth: int) -> bytes:
    """Modes that Pillow does not write: 16 bits per channel, 2 and 4 bits of grey."""
    width, height = size
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[colour]
    source = random.Random(depth)
    row = (width * channels * depth + 7) // 8
    rows = b"".join(b"\0" + source.randbytes(row) for _ in range(height))
    head = struct.pack(">LLBBBBB", width, height, depth, colour, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + png_chunk(b"IHDR", head)
        + png_chunk(b"IDAT", zlib.compress(rows))
        + png_chunk(b"IEND", b"")
    )


def frames_of(mode: str, size: tuple[int, int], count: int) -> list[Image.Image]:
    return [noise(mode, size, seed) for seed in range(count)]


def _jpegs() -> dict[str, Callable[[], bytes]]:
    made: dict[str, Callable[[], bytes]] = {}
    for mode in JPEG_MODES:
        for size in ((1, 1), (17, 9)):
            made[f"jpeg {mode} {size}"] = functools.partial(_save, mode, size, "JPEG")
    made["jpeg progressive"] = functools.partial(_save, "RGB", (24, 18), "JPEG", progressive=True)
    made["jpeg progressive grey"] = functools.partial(_save, "L", (9, 33), "JPEG", progressive=True)
    made["jpeg 4:4:4"] = functools.partial(
        _save, "RGB", (16, 16), "JPEG", subsampling=0, quality=95
    )
    made["jpeg 4:2:0"] = functools.partial(_save, "RGB", (31, 7), "JPEG", subsampling=2)
    made["jpeg restarts"] = functools.partial(
        _save, "RGB", (40, 16), "JPEG", restart_marker_blocks=1
    )
    made["jpeg exif"] = functools.partial(_save, "RGB", (20, 10), "JPEG", exif=exif(6))
    made["jpeg icc"] = functools.partial(_save, "RGB", (12, 12), "JPEG", icc_profile=_profile())
    made["jpeg comment"] = functools.partial(
        _save, "RGB", (8, 8), "JPEG", comment=b"\xff\xd9 no end"
    )
    made["jpeg optimised"] = functools.partial(
        _save, "L", (30, 30), "JPEG", optimize=True, quality=30
    )
    made["jpeg of two pictures (MPO)"] = lambda: saved(
        noise("RGB", (16, 12)), "MPO", save_all=True, append_images=[noise("RGB", (16, 12), 2)]
    )
    return made


def _pngs() -> dict[str, Callable[[], bytes]]:
    made: dict[str, Callable[[], bytes]] = {}
    for mode in PNG_MODES:
        for size in ((1, 1), (13, 11)):
            made[f"png {mode} {size}"] = functools.partial(_save, mode, size, "PNG")
    for colour, depth in ((0, 2), (0, 4), (0, 16), (2, 16), (4, 16), (6, 16)):
        made[f"png colour {colour} depth {depth}"] = functools.partial(
            deep_png, (7, 5), colour, depth
        )
    for size in ((1, 1), (3, 2), (17, 9)):
        made[f"png interlaced {size}"] = functools.partial(interlaced_png, size)
    made["png interlaced grey 1 bit"] = functools.partial(interlaced_png, (9, 9), 0, 1)
    made["png exif"] = functools.partial(_save, "RGB", (9, 5), "PNG", exif=exif(6))
    made["png icc"] = functools.partial(_save, "RGB", (9, 5), "PNG", icc_profile=_profile())
    made["png uncompressed"] = functools.partial(_save, "RGB", (9, 9), "PNG", compress_level=0)
    made["png transparent palette"] = functools.partial(
        _save, "P", (9, 9), "PNG", transparency=b"\0\x80\xff"
    )
    made["apng"] = lambda: saved(
        noise("RGB", (8, 6)), "PNG", save_all=True, append_images=frames_of("RGB", (8, 6), 3)[1:]
    )
    made["apng with a default picture"] = lambda: saved(
        noise("RGB", (8, 6)),
        "PNG",
        save_all=True,
        default_image=True,
        append_images=frames_of("RGB", (8, 6), 3),
    )
    return made


def _others() -> dict[str, Callable[[], bytes]]:
    made: dict[str, Callable[[], bytes]] = {}
    for mode in ("RGB", "L", "P", "1", "RGBA"):
        made[f"gif {mode}"] = functools.partial(_save, mode, (11, 7), "GIF")
    made["gif interlaced"] = functools.partial(_save, "L", (20, 20), "GIF", interlace=1)
    made["gif comment"] = functools.partial(_save, "L", (5, 5), "GIF", comment=b"; no trailer")
    made["gif animated"] = lambda: saved(
        noise("P", (12, 8), 9), "GIF", save_all=True, append_images=frames_of("P", (12, 8), 4)[1:]
    )
    for mode in ("RGB", "RGBA", "L"):
        made[f"webp {mode}"] = functools.partial(_save, mode, (14, 10), "WEBP")
        made[f"webp lossless {mode}"] = functools.partial(
            _save, mode, (14, 10), "WEBP", lossless=True
        )
    made["webp 1x1"] = functools.partial(_save, "RGB", (1, 1), "WEBP")
    made["webp exif"] = functools.partial(_save, "RGB", (14, 10), "WEBP", exif=exif(6))
    made["webp icc"] = functools.partial(_save, "RGB", (14, 10), "WEBP", icc_profile=_profile())
    for lossless in (False, True):
        made[f"webp animated, lossless {lossless}"] = functools.partial(_film, lossless=lossless)
    return made


def _film(*, lossless: bool) -> bytes:
    first, *rest = frames_of("RGB", (10, 8), 3)
    return saved(first, "WEBP", save_all=True, append_images=rest, lossless=lossless)


def _save(mode: str, size: tuple[int, int], image_format: str, **options: Any) -> bytes:
    return saved(noise(mode, size), image_format, **options)


@functools.cache
def _profile() -> bytes:
    cms: Any = ImageCms  # half-typed
    return cast("bytes", cms.ImageCmsProfile(cms.createProfile("sRGB")).tobytes())


DEFAULT_FORMATS: Mapping[str, Callable[[], bytes]] = {**_jpegs(), **_pngs(), **_others()}
"""Of the formats that every policy allows."""

FURTHER_FORMATS: Mapping[str, Callable[[], bytes]] = {
    **{
        f"bmp {mode}": functools.partial(_save, mode, (9, 7), "BMP")
        for mode in ("RGB", "L", "P", "1", "RGBA")
    },
    **{
        f"tiff {mode} {compression}": functools.partial(
            _save, mode, (9, 7), "TIFF", compression=compression
        )
        for mode in ("RGB", "L", "I;16", "CMYK")
        for compression in (None, "tiff_lzw", "tiff_deflate")
    },
    "tiff turned": functools.partial(_save, "RGB", (9, 7), "TIFF", exif=exif(6)),
    "tiff of two pages": lambda: saved(
        noise("RGB", (9, 7)), "TIFF", save_all=True, append_images=[noise("L", (5, 4))]
    ),
    "tiff big": functools.partial(_save, "RGB", (9, 7), "TIFF", big_tiff=True),
    "avif": functools.partial(_save, "RGB", (16, 12), "AVIF"),
    "avif transparent": functools.partial(_save, "RGBA", (16, 12), "AVIF"),
    "avif exif": functools.partial(_save, "RGB", (16, 12), "AVIF", exif=exif(6)),
    "avif animated": lambda: saved(
        noise("RGB", (16, 12)), "AVIF", save_all=True, append_images=[noise("RGB", (16, 12), 2)]
    ),
    "heic": functools.partial(heic, "RGB", (33, 17)),
    "heic grey": functools.partial(heic, "L", (33, 17)),
    "heic transparent": functools.partial(heic, "RGBA", (64, 64)),
    "heic turned": functools.partial(heic, "RGB", (33, 17), exif=exif(6)),
    "heic of two pictures": functools.partial(heic, "RGB", (33, 17), (16, 12)),
    "heic in tiles": functools.partial(heic, "RGB", (150, 100), tile_size=64),
    "ico": lambda: saved(noise("RGBA", (64, 64)), "ICO", sizes=[(16, 16), (32, 32), (64, 64)]),
    "ico of bitmaps": lambda: saved(
        noise("RGBA", (32, 32)), "ICO", sizes=[(16, 16), (32, 32)], bitmap_format="bmp"
    ),
}
"""Of formats that a policy must name."""
