"""The files that the pages' examples work on, made small and always alike."""

from __future__ import annotations

import io
import wave
from pathlib import Path

from PIL import Image, ImageDraw


def write(directory: Path) -> None:
    photo = Image.new("RGB", (640, 480), "skyblue")
    ImageDraw.Draw(photo).ellipse((240, 160, 400, 320), fill="gold")
    photo.save(directory / "photo.jpg", quality=85)

    shot = Image.new("RGB", (320, 200), "white")
    ImageDraw.Draw(shot).rectangle((20, 20, 300, 60), fill="navy")
    shot.save(directory / "shot.png")

    (directory / "report.pdf").write_bytes(_pdf())
    with wave.open(str(directory / "clip.wav"), "wb") as clip:
        clip.setnchannels(1)
        clip.setsampwidth(2)
        clip.setframerate(8000)
        clip.writeframes(bytes(16_000))
    (directory / "build.log").write_text("compiling\nlinking\ndone\n" * 2_000)


def _pdf() -> bytes:
    """One page, by Pillow: enough of a document to be opened and counted."""
    out = io.BytesIO()
    Image.new("RGB", (200, 280), "white").save(out, format="PDF")
    return out.getvalue()
