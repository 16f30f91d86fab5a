"""ISO base media files (ISO/IEC 14496-12): AVIF, HEIC and MP4 share this box structure."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from attachstore.admission.defect import Broken, Cut, Defect
from attachstore.admission.reading import Reader, read_exactly, size_of

_CONTAINERS = frozenset({b"moov", b"trak", b"mdia"})
_META_BYTES_MAX = 1 << 20
_BOXES_MAX = 10_000
_AVIF = frozenset({b"avif", b"avis"})
_HEIC = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs"})
_HEIF = frozenset({b"mif1", b"mif2", b"msf1", b"miaf"})
_AUDIO = frozenset({b"M4A ", b"M4B ", b"M4P ", b"F4A "})
_QUICKTIME = b"qt  "


def media_type(reader: Reader) -> str | None:
    """What the brands and tracks say; None if this is no such file."""
    head = reader.read(16)
    if len(head) < 16 or head[4:8] != b"ftyp":
        return None
    length = int.from_bytes(head[:4], "big")
    if not 16 <= length <= 4096 or length % 4:
        return None
    rest = reader.read(length - 16)
    brands = {head[8:12], *(rest[i : i + 4] for i in range(0, len(rest), 4))}
    for family, name in ((_AVIF, "image/avif"), (_HEIC, "image/heic"), (_HEIF, "image/heif")):
        if brands & family:
            return name
    if head[8:12] in _AUDIO:
        return "audio/mp4"
    return _by_tracks(reader, "video/quicktime" if head[8:12] == _QUICKTIME else "video/mp4")


def header(reader: Reader) -> tuple[int, int] | None:
    """The stored size (ispe) of the primary picture, rotation not applied; None if it has none."""
    try:
        return _size_among(_primary_properties(_meta(reader)))
    except (Defect, struct.error, IndexError):
        return None


def shown_sizes(reader: Reader) -> frozenset[tuple[int, int]]:
    """What a decoder may make of the primary picture: cropped (clap) and turned (irot).

    Several, because decoders round a clean aperture of a fraction of a pixel as they like.
    Raises Defect.
    """
    properties = _primary_properties(_meta(reader))
    size = _size_among(properties)
    sizes: set[tuple[int, int]] = set() if size is None else {size}
    try:
        for kind, body in properties:  # applied in the order in which they are listed
            if kind == b"clap":
                sizes = _cropped(body)
            elif kind == b"irot" and body[0] & 1:
                sizes = {(height, width) for width, height in sizes}
    except (struct.error, IndexError, ZeroDivisionError):
        raise Broken("its crop or rotation cannot be read") from None
    return frozenset(sizes)


def stored_sizes(reader: Reader) -> list[tuple[int, int]]:
    """The size of every picture and tile in it, whichever of them are shown. Raises Defect."""
    return [
        struct.unpack(">LL", body[4:12])
        for kind, container in _inner(dict(_inner(_meta(reader), 4)).get(b"iprp", b""), 0)
        if kind == b"ipco"
        for name, body in _inner(container, 0)
        if name == b"ispe" and len(body) >= 12
    ]


def check_boxes(reader: Reader, wanted: frozenset[bytes]) -> None:
    """Every top-level box must be whole, and the wanted ones there. Raises Defect."""
    seen = {kind for kind, _, _ in _boxes(reader, 0, size_of(reader))}
    absent = wanted - seen
    if absent:
        raise Cut(f"its {min(absent).decode('latin-1')} box is missing")


def _by_tracks(reader: Reader, otherwise: str) -> str:
    """Audio if there is a sound track and no video track."""
    try:
        handlers = set(_handlers(reader, 0, size_of(reader)))
    except Defect:
        return otherwise
    return "audio/mp4" if b"soun" in handlers and b"vide" not in handlers else otherwise


def _handlers(reader: Reader, start: int, end: int) -> Iterator[bytes]:
    for kind, at, length in _boxes(reader, start, end):
        if kind in _CONTAINERS:
            yield from _handlers(reader, at, at + length)
        elif kind == b"hdlr":
            reader.seek(at + 8)
            yield reader.read(4)


def _boxes(reader: Reader, start: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Kind, body offset and body length of each box between two offsets."""
    for _ in range(_BOXES_MAX):
        if start >= end:
            return
        reader.seek(start)
        head = read_exactly(reader, 8, "a box")
        length, kind, used = int.from_bytes(head[:4], "big"), head[4:], 8
        if length == 1:
            length, used = int.from_bytes(read_exactly(reader, 8, "a box"), "big"), 16
        elif length == 0:
            length = end - start
        if length < used:
            raise Broken("a box has an impossible length")
        if start + length > end:
            raise Cut("a box is longer than what encloses it")
        yield kind, start + used, length - used
        start += length
    raise Broken(f"it has more than {_BOXES_MAX} boxes")


def _meta(reader: Reader) -> bytes:
    """The box that describes the pictures; empty if there is none. Raises Defect."""
    for kind, at, length in _boxes(reader, 0, size_of(reader)):
        if kind == b"meta" and length <= _META_BYTES_MAX:
            reader.seek(at)
            return read_exactly(reader, length, "its header")
    return b""


def _primary_properties(meta: bytes) -> list[tuple[bytes, bytes]]:
    """Kind and body of each property of the item that pitm names (ISO/IEC 23008-12)."""
    boxes = dict(_inner(meta, 4))
    item = boxes.get(b"pitm")
    if item is None or b"iprp" not in boxes:
        return []
    number = int.from_bytes(item[4 : 6 if item[0] == 0 else 8], "big")
    properties = list(_inner(boxes[b"iprp"], 0))
    store = [entry for kind, body in properties if kind == b"ipco" for entry in _inner(body, 0)]
    return [
        store[index - 1]
        for kind, body in properties
        if kind == b"ipma"
        for index in _associations(body, number)
        if 0 < index <= len(store)
    ]


def _size_among(properties: list[tuple[bytes, bytes]]) -> tuple[int, int] | None:
    for kind, body in properties:
        if kind == b"ispe":
            width, height = struct.unpack(">LL", body[4:12])
            return (width, height) if width and height else None
    return None


def _cropped(clap: bytes) -> set[tuple[int, int]]:
    """The clean aperture's size: two fractions, rounded either way."""
    width, height = _rounded(clap[:8]), _rounded(clap[8:16])
    return {(across, down) for across in width for down in height}


def _rounded(fraction: bytes) -> tuple[int, int]:
    numerator, denominator = struct.unpack(">LL", fraction)
    return numerator // denominator, -(-numerator // denominator)


def _associations(ipma: bytes, wanted: int) -> list[int]:
    """Indices (from 1) of the properties of one item."""
    wide_items, wide_indices = ipma[0] >= 1, ipma[3] & 1
    (count,) = struct.unpack(">L", ipma[4:8])
    at = 8
    for _ in range(min(count, 65536)):
        size = 4 if wide_items else 2
        number = int.from_bytes(ipma[at : at + size], "big")
        links = ipma[at + size]
        at += size + 1
        step = 2 if wide_indices else 1
        mask = 0x7FFF if wide_indices else 0x7F
        found = [
            int.from_bytes(ipma[i : i + step], "big") & mask
            for i in range(at, at + links * step, step)
        ]
        if number == wanted:
            return found
        at += links * step
    return []


def _inner(body: bytes, at: int) -> Iterator[tuple[bytes, bytes]]:
    """Kind and body of each box in a body that is in memory."""
    while at + 8 <= len(body):
        length = int.from_bytes(body[at : at + 4], "big")
        if length < 8:
            return
        yield body[at + 4 : at + 8], body[at + 8 : at + length]
        at += length
