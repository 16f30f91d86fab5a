"""ICO: a directory that often lies, and the PNG or BMP pictures it points to."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator

from attachstore.admission import png
from attachstore.admission.defect import Broken, Cut, Defect
from attachstore.admission.reading import Reader, read_exactly, size_of

SIGNATURE = b"\0\0\1\0"


def header(reader: Reader) -> tuple[int, int] | None:
    """The size of the largest picture, as the picture itself says; the directory is not asked."""
    try:
        sizes = [size for _, _, size in _entries(reader)]
    except Defect:
        return None
    return max(sizes, key=lambda size: size[0] * size[1], default=None)


def frames(reader: Reader, metadata_bytes_max: int) -> Iterator[tuple[int, int]]:
    """The size of each picture. Raises Defect."""
    total = size_of(reader)
    count = 0
    for offset, length, size in _entries(reader):
        count += 1
        yield size
        if offset + length > total:
            raise Cut("a picture of its directory is missing")
        reader.seek(offset)
        data = reader.read(length)
        if data.startswith(png.SIGNATURE):
            for _ in png.frames(io.BytesIO(data), metadata_bytes_max):
                pass
    if not count:
        raise Broken("it holds no picture")


def _entries(reader: Reader) -> Iterator[tuple[int, int, tuple[int, int]]]:
    """Offset, length and true size of each picture."""
    front = read_exactly(reader, 6, "its header")
    if front[:4] != SIGNATURE:
        raise Broken("the signature is wrong")
    (count,) = struct.unpack("<H", front[4:])
    directory = read_exactly(reader, 16 * count, "its directory")
    for start in range(0, len(directory), 16):
        length, offset = struct.unpack("<LL", directory[start + 8 : start + 16])
        reader.seek(offset)
        yield offset, length, _true_size(reader.read(33))


def _true_size(front: bytes) -> tuple[int, int]:
    if front.startswith(png.SIGNATURE):
        size = png.header(io.BytesIO(front))
    elif len(front) >= 16 and front[:4] == b"\x28\0\0\0":
        width, height = struct.unpack("<ll", front[4:12])
        # A BMP inside an icon says twice its height: the mask below it counts.
        size = (width, abs(height) // 2) if width > 0 and abs(height) > 1 else None
    else:
        size = None
    if size is None:
        raise Cut("a picture of its directory is missing")
    return size
