"""Pictures that look like something, so that a page made of them can be judged by eye."""

import functools
import io
import math
import random
from typing import Any

from PIL import Image, ImageDraw, ImageFilter


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    target = io.BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


@functools.cache
def photo(width: int = 800, height: int = 600, seed: int = 1) -> Image.Image:
    """Something like a landscape at dusk."""
    image = Image.new("RGB", (width, height))
    draw = ImageDraw.Draw(image)
    for y in range(height):
        share = y / height
        draw.line(
            [(0, y), (width, y)],
            (int(250 - 160 * share), int(170 - 90 * share), int(110 + 60 * share)),
        )
    draw.ellipse([width * 0.62, height * 0.2, width * 0.74, height * 0.36], (255, 236, 190))
    chance = random.Random(seed)
    for layer in range(4):
        base = height * (0.5 + 0.12 * layer)
        points = [
            (x, base + 40 * math.sin(x / (60 + 30 * layer) + layer) + chance.uniform(-6, 6))
            for x in range(0, width + 20, 20)
        ]
        tone = 90 - 22 * layer
        draw.polygon([(0, height), *points, (width, height)], (tone, tone - 10, tone + 20))
    return image.filter(ImageFilter.GaussianBlur(1))


@functools.cache
def screenshot(width: int = 1280, height: int = 800) -> Image.Image:
    """Something like a window with lines of code."""
    image = Image.new("RGB", (width, height), (250, 250, 252))
    draw = ImageDraw.Draw(image)
    draw.rectangle([0, 0, width, 40], (52, 58, 70))
    draw.rectangle([0, 40, 220, height], (236, 238, 242))
    chance = random.Random(7)
    for line in range(26):
        x = 250 + 24 * chance.randint(0, 3)
        for _ in range(chance.randint(1, 5)):
            length = chance.randint(30, 160)
            colour = chance.choice([(60, 90, 170), (40, 40, 50), (150, 60, 60), (60, 130, 90)])
            draw.rectangle([x, 70 + 27 * line, x + length, 82 + 27 * line], colour)
            x += length + 14
    return image
