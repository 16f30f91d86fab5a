"""Sample files for `attachstore demo`: one of each common kind, made, not shipped.

They stand here because Pillow is loaded in this folder only. Every run makes the same bytes with
the same libraries: the noise comes from a seeded generator, nothing from the clock.
"""

from __future__ import annotations

import io
import math
import random
import struct
import wave
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from PIL import Image, ImageDraw, ImageFilter, ImageFont

TOOL_OUTPUT_BYTES = 12_000_000

_SEED = 20_260
_INK = (36, 41, 51)
_PAPER = (250, 250, 247)


def write_samples(directory: Path) -> list[Path]:
    """Write every sample into `directory`, which exists; returns the paths in a good order."""
    paths: list[Path] = []
    for name, make in SAMPLES.items():
        path = directory / name
        path.write_bytes(make())
        paths.append(path)
    return paths


def photo() -> bytes:
    """A photo-like JPEG: evening over hills, with the grain that makes photos compress badly."""
    picture = _landscape((1600, 1067), sky=((37, 58, 104), (246, 177, 122)), seed=_SEED)
    return _saved(_grainy(picture, _SEED), "JPEG", quality=88)


def screenshot() -> bytes:
    """A screenshot-like PNG: a window with a table of test results."""
    picture = Image.new("RGB", (1280, 800), (214, 219, 228))
    draw = ImageDraw.Draw(picture)
    font, small = ImageFont.load_default(22), ImageFont.load_default(18)
    draw.rounded_rectangle((60, 50, 1220, 750), 14, _PAPER)
    draw.rounded_rectangle((60, 50, 1220, 110), 14, _INK)
    draw.rectangle((60, 90, 1220, 110), _INK)
    for index, colour in enumerate(((237, 106, 94), (245, 191, 79), (98, 197, 84))):
        draw.ellipse((84 + 34 * index, 70, 104 + 34 * index, 90), colour)
    draw.text((220, 68), "build 4711: 3 of 128 tests failed", _PAPER, font)
    for row in range(14):
        failed = row in (2, 7, 11)
        top = 132 + 43 * row
        if row % 2:
            draw.rectangle((61, top - 8, 1219, top + 34), (240, 241, 238))
        draw.ellipse((92, top + 4, 108, top + 20), (209, 69, 59) if failed else (74, 160, 92))
        draw.text((132, top), f"tests/checkout/test_{_WORDS[row]}.py", _INK, small)
        draw.text((720, top), "FAILED" if failed else "passed", _INK, small)
        draw.text((900, top), f"{(row * 37 + 11) % 97 / 10:.1f} s", _INK, small)
    return _saved(picture, "PNG", optimize=True)


_WORDS = (
    *("address", "basket", "coupon", "customs", "discount", "gift_card", "invoice"),
    *("locale", "payment", "refund", "retry", "rounding", "shipping", "totals"),
)


def animation() -> bytes:
    """An animated GIF: a dot on its orbit, 24 frames."""
    frames = [_orbit(index / 24) for index in range(24)]
    target = io.BytesIO()
    frames[0].save(target, "GIF", save_all=True, append_images=frames[1:], duration=60, loop=0)
    return target.getvalue()


def _orbit(turn: float) -> Image.Image:
    picture = Image.new("RGB", (320, 240), _INK)
    draw = ImageDraw.Draw(picture)
    draw.ellipse((60, 60, 260, 180), outline=(90, 98, 115), width=2)
    draw.ellipse((140, 100, 180, 140), (246, 177, 122))
    angle = turn * math.tau
    x, y = 160 + 100 * math.cos(angle), 120 + 60 * math.sin(angle)
    draw.ellipse((x - 11, y - 11, x + 11, y + 11), (126, 182, 224))
    return picture.convert("P", palette=Image.Palette.ADAPTIVE, colors=32)


def picture_webp() -> bytes:
    """A lossy WebP: the same hills on another morning."""
    picture = _landscape((1200, 800), sky=((118, 170, 196), (244, 233, 205)), seed=_SEED + 1)
    return _saved(_grainy(picture, _SEED + 1), "WEBP", quality=82)


def document() -> bytes:
    """A PDF of two pages with a heading and some lines of text each."""
    pages = (
        ("Quarterly report", ["Attachments stored: 12,480", "Damaged: 0", "Bytes saved: 61 %"]),
        ("Method", ["Every file was hashed, decoded and read back.", "Nothing was executed."]),
    )
    kids = " ".join(f"{3 + 2 * index} 0 R" for index in range(len(pages)))
    font = 3 + 2 * len(pages)
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
    ]
    for index, (title, lines) in enumerate(pages):
        text = f"BT /F1 26 Tf 72 750 Td ({title}) Tj /F1 13 Tf 0 -20 Td "
        text += " ".join(f"0 -22 Td ({line}) Tj" for line in lines) + " ET"
        objects += [
            (
                f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {4 + 2 * index} "
                f"0 R /Resources << /Font << /F1 {font} 0 R >> >> >>"
            ).encode(),
            f"<< /Length {len(text)} >>\nstream\n{text}\nendstream".encode(),
        ]
    objects.append(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    return _pdf(objects)


def _pdf(objects: list[bytes]) -> bytes:
    """Number the objects from 1 (the catalogue) and write the table that finds them.

    ISO 32000-1, 7.5: an entry of the cross-reference table is 20 bytes long.
    """
    data = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
    table = b"0000000000 65535 f \n"
    for number, body in enumerate(objects, 1):
        table += f"{len(data):010d} 00000 n \n".encode()
        data += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    start, count = len(data), len(objects) + 1
    data += f"xref\n0 {count}\n".encode() + table
    data += f"trailer\n<< /Size {count} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode()
    return bytes(data)


def sound() -> bytes:
    """A WAV: three notes, two seconds, 16 bit mono."""
    rate_hz = 22_050
    samples: list[int] = []
    for frequency_hz, length_s in ((440.0, 0.6), (554.4, 0.6), (659.3, 0.8)):
        count = int(rate_hz * length_s)
        for index in range(count):
            fade = min(1.0, 20 * index / count, 4 * (count - index) / count)
            samples.append(int(11_000 * fade * math.sin(math.tau * frequency_hz * index / rate_hz)))
    target = io.BytesIO()
    with wave.open(target, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes(struct.pack(f"<{len(samples)}h", *samples))
    return target.getvalue()


def tool_output() -> bytes:
    """What a chatty build prints: 12 MB of log lines."""
    data = "".join(_log_lines(TOOL_OUTPUT_BYTES)).encode()
    return data[: TOOL_OUTPUT_BYTES - 1] + b"\n"


def _log_lines(size_bytes: int) -> Iterator[str]:
    source = random.Random(_SEED)  # noqa: S311 - sample text, no secret
    written = number = 0
    while written < size_bytes:
        number += 1
        line = (
            f"[{number // 86_400:02d}:{number // 60 % 60:02d}:{number % 60:02d}] compile "
            f"src/{_WORDS[number % len(_WORDS)]}/{source.getrandbits(40):010x}.c -> "
            f"{source.getrandbits(64):016x} ({number * 7919 % 4096} ms)\n"
        )
        written += len(line)
        yield line


def _landscape(
    size: tuple[int, int], *, sky: tuple[tuple[int, int, int], tuple[int, int, int]], seed: int
) -> Image.Image:
    """A sky that turns from one colour to the other, a sun, and five ranges of hills."""
    width, height = size
    shade = Image.linear_gradient("L").transform(
        size, Image.Transform.EXTENT, (0, 0, 256, 256), Image.Resampling.BILINEAR
    )
    picture = Image.composite(Image.new("RGB", size, sky[1]), Image.new("RGB", size, sky[0]), shade)
    draw = ImageDraw.Draw(picture)
    x, y, radius = int(width * 0.68), int(height * 0.44), height // 14
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), (255, 244, 214))
    picture = picture.filter(ImageFilter.GaussianBlur(height / 120))
    source = random.Random(seed)  # noqa: S311 - a picture, no secret
    for layer in range(5):
        _hills(picture, source, base=0.52 + 0.1 * layer, darkness=0.25 + 0.17 * layer)
    return picture


def _hills(picture: Image.Image, source: random.Random, *, base: float, darkness: float) -> None:
    width, height = picture.size
    waves = [(source.uniform(0.6, 1.6) * 2**n, source.uniform(0, math.tau)) for n in range(5)]
    ridge = [
        (
            x,
            height
            * (
                base
                + sum(
                    0.05 / 2**n * math.sin(math.tau * frequency * x / width + phase)
                    for n, (frequency, phase) in enumerate(waves)
                )
            ),
        )
        for x in range(0, width + 4, 4)
    ]
    colour = tuple(int(part * (1 - darkness)) for part in (126, 138, 152))
    outline = [*ridge, (width, height), (0, height)]
    ImageDraw.Draw(picture).polygon(outline, (colour[0], colour[1], colour[2]))


def _grainy(picture: Image.Image, seed: int) -> Image.Image:
    width, height = picture.size
    noise = random.Random(seed).randbytes(width * height)  # noqa: S311 - grain, no secret
    grain = Image.frombytes("L", picture.size, noise).convert("RGB")
    return Image.blend(picture, grain, 0.06)


def _saved(picture: Image.Image, kind: str, **options: object) -> bytes:
    target = io.BytesIO()
    picture.save(target, kind, **options)
    return target.getvalue()


SAMPLES: Mapping[str, Callable[[], bytes]] = {
    "evening.jpg": photo,
    "test-results.png": screenshot,
    "orbit.gif": animation,
    "morning.webp": picture_webp,
    "report.pdf": document,
    "chime.wav": sound,
    "build-output.txt": tool_output,
}
"""File name to what makes it."""
