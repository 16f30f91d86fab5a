"""Mutations: from a file that something accepts to one that something may trip over.

Blind ones (cut, flip, splice, boundary values) and ones that know a format: a PNG's damaged chunk
gets a right checksum, so that the damage reaches the decoder behind it.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable

BYTES_MAX = 1 << 20
"""Mutated inputs are no longer: bombs come from small files."""

_BOUNDARIES = (
    0,
    1,
    2,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
)
_TOKENS = (
    b"IEND", b"IDAT", b"acTL", b"fcTL", b"fdAT", b"iCCP", b"zTXt", b"iTXt", b"PLTE", b"tRNS",
    b"\xff\xd8", b"\xff\xd9", b"\xff\xc0", b"\xff\xc2", b"\xff\xda", b"\xff\xdd", b"\xff\xe1",
    b"GIF89a", b"\x21\xf9\x04", b"\x2c", b"\x3b", b"NETSCAPE2.0",
    b"RIFF", b"WEBP", b"VP8 ", b"VP8L", b"VP8X", b"ANIM", b"ANMF", b"ALPH", b"WAVE", b"fmt ",
    b"%PDF-1.7", b"/Encrypt", b"endobj", b"startxref", b"%%EOF", b"xref", b"stream\n",
    b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"[Content_Types].xml", b"word/document.xml",
    b"ftyp", b"avif", b"mif1", b"heic", b"ispe", b"meta", b"mdat", b"fLaC", b"OggS", b"ID3\x04",
    b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"<!DOCTYPE html>", b"\xef\xbb\xbf", b"\xff\xfe",
    b"\0" * 512, b'{"a":' * 300, b"[" * 2000, b"1" * 5000, b"\r\n", b"II*\0", b"MM\0*", b"BM",
)  # fmt: skip


def mutate(draw: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """One to eight mutations, one after another."""
    for _ in range(1 + int(draw.expovariate(0.7))):
        data = draw.choice(_MUTATIONS)(draw, data, others)[:BYTES_MAX]
    return data


def _place(draw: random.Random, data: bytes) -> int:
    """Anywhere, and more often near the ends, where headers and trailers are."""
    kind = draw.random()
    if kind < 0.3:
        return min(draw.randrange(64), len(data))
    if kind < 0.45:
        return max(0, len(data) - draw.randrange(1, 64))
    return draw.randrange(len(data) + 1)


def _flip(draw: random.Random, data: bytes, _: list[bytes]) -> bytes:
    changed = bytearray(data or b"\0")
    for _number in range(draw.choice((1, 1, 1, 2, 8))):
        changed[min(_place(draw, data), len(changed) - 1)] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _set(draw: random.Random, data: bytes, _: list[bytes]) -> bytes:
    value = draw.choice(_BOUNDARIES) + draw.choice((-1, 0, 0, 0, 1))
    width = draw.choice((1, 2, 4, 4, 8))
    order = draw.choice(("big", "little"))
    packed = (value % (1 << (8 * width))).to_bytes(width, order)  # pyright: ignore[reportArgumentType] - a Literal drawn at random
    start = _place(draw, data)
    return data[:start] + packed + data[start + width :]


def _cut(draw: random.Random, data: bytes, _: list[bytes]) -> bytes:
    return data[: _place(draw, data)]


def _remove(draw: random.Random, data: bytes, _: list[bytes]) -> bytes:
    start = _place(draw, data)
    return data[:start] + data[start + draw.choice((1, 2, 4, 12, 100, 1000)) :]


def _repeat(draw: random.Random, data: bytes, _: list[bytes]) -> bytes:
    start = _place(draw, data)
    part = data[start : start + draw.choice((1, 4, 12, 25, 100, 1000))]
    return data[:start] + part * draw.choice((2, 2, 3, 50)) + data[start + len(part) :]


def _zero(draw: random.Random, data: bytes, _: list[bytes]) -> bytes:
    start = _place(draw, data)
    count = draw.choice((1, 4, 16, 512, 4096, len(data)))
    part = data[start : start + count]
    return data[:start] + bytes(len(part)) + data[start + len(part) :]


def _insert(draw: random.Random, data: bytes, _: list[bytes]) -> bytes:
    start = _place(draw, data)
    token = draw.choice(_TOKENS) if draw.random() < 0.7 else draw.randbytes(draw.randrange(1, 40))
    return data[:start] + token + data[start + draw.choice((0, len(token))) :]


def _splice(draw: random.Random, data: bytes, others: list[bytes]) -> bytes:
    other = draw.choice(others)
    return data[: _place(draw, data)] + other[_place(draw, other) :]


def _swap(draw: random.Random, data: bytes, _: list[bytes]) -> bytes:
    first, second, third = sorted(_place(draw, data) for _ in range(3))
    return data[:first] + data[second:third] + data[first:second] + data[third:]


def _png(draw: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """Damage inside a chunk, or a whole chunk moved; the checksums stay right."""
    chunks = _png_chunks(data)
    if len(chunks) < 2:
        return _flip(draw, data, others)
    index = draw.randrange(len(chunks))
    kind, body = chunks[index]
    match draw.randrange(6):
        case 0:
            chunks.pop(index)
        case 1:
            chunks.insert(draw.randrange(len(chunks) + 1), (kind, body))
        case 2:
            draw.shuffle(chunks)
        case 3 if kind in {b"IDAT", b"fdAT"}:
            chunks[index] = (kind, _recompressed(draw, body, others))
        case _:
            chunks[index] = (kind, draw.choice((_flip, _set, _cut, _repeat))(draw, body, others))
    return data[:8] + b"".join(map(_png_chunk, chunks))


def _recompressed(draw: random.Random, body: bytes, others: list[bytes]) -> bytes:
    try:
        rows = zlib.decompressobj().decompress(body, BYTES_MAX)
    except zlib.error:
        return body
    return zlib.compress(draw.choice((_flip, _cut, _repeat, _set))(draw, rows, others))


def _png_chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    chunks: list[tuple[bytes, bytes]] = []
    offset = 8
    while data.startswith(b"\x89PNG") and offset + 8 <= len(data) and len(chunks) < 1000:
        (length,) = struct.unpack(">I", data[offset : offset + 4])
        chunks.append((data[offset + 4 : offset + 8], data[offset + 8 : offset + 8 + length]))
        offset += 12 + length
    return chunks


def _png_chunk(chunk: tuple[bytes, bytes]) -> bytes:
    kind, body = chunk
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


_Mutation = Callable[[random.Random, bytes, list[bytes]], bytes]
_MUTATIONS: tuple[_Mutation, ...] = (
    _flip,
    _flip,
    _set,
    _set,
    _cut,
    _remove,
    _repeat,
    _zero,
    _insert,
    _splice,
    _swap,
    _png,
)
