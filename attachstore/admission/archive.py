"""ZIP (PKWARE APPNOTE 6.3): its directory, what it says it unpacks to, and what it is used for.

Nothing is unpacked. DOCX, XLSX and PPTX are told from ZIP by the names in the directory, in
whatever order they come.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from attachstore.admission.defect import Broken, Cut, Defect, Excess, Locked
from attachstore.admission.media_type import DOCX, PPTX, XLSX
from attachstore.admission.reading import Reader, read_exactly, seek_to, size_of
from attachstore.reference import MEDIA_TYPE

SIGNATURES = (b"PK\3\4", b"PK\5\6")
ZIP = "application/zip"
_DIRECTORY_BYTES_MAX = 64 << 20
_END_BYTES = 22
_COMMENT_BYTES_MAX = 65535
_ENCRYPTED = 0x01
_OFFICE = {b"word/": DOCX, b"xl/": XLSX, b"ppt/": PPTX}
OFFICE = frozenset(_OFFICE.values())
_WITH_MACROS = {
    DOCX: "application/vnd.ms-word.document.macroenabled.12",
    XLSX: "application/vnd.ms-excel.sheet.macroenabled.12",
    PPTX: "application/vnd.ms-powerpoint.presentation.macroenabled.12",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One file in the directory; sizes in bytes, as it declares them."""

    name: bytes
    flags: int
    method: int
    packed: int
    unpacked: int
    offset: int


@dataclass(frozen=True, slots=True)
class _Directory:
    count: int
    size: int
    offset: int
    shift: int
    """Bytes in front of the archive (a self-extractor's program): offsets do not count them."""


def media_type(reader: Reader) -> str:
    """ZIP, or the more exact type that its entries show; plain ZIP if it has no directory."""
    try:
        names: set[bytes] = set()
        first: Entry | None = None
        directory = _locate(reader)
        for entry in _entries(reader, directory):
            first = first or entry
            names.add(entry.name)
        if first is not None and first.name == b"mimetype" and not first.method:
            return _stated(reader, directory, first)
    except Defect:
        return ZIP
    if b"[Content_Types].xml" in names:
        for folder, office in _OFFICE.items():
            if any(name.startswith(folder) for name in names):
                return _WITH_MACROS[office] if folder + b"vbaProject.bin" in names else office
    return ZIP


def has_directory(reader: Reader) -> bool:
    """Whether the record at the end is there."""
    try:
        _locate(reader)
    except Defect:
        return False
    return True


def check(reader: Reader, entries_max: int, bytes_max: int) -> None:
    """The directory is whole, and each entry's own header is where it says. Raises Defect."""
    directory = _locate(reader)
    if directory.count > entries_max:
        raise Excess(f"it has {directory.count} entries, {entries_max} are allowed")
    entries = list(_entries(reader, directory))
    total = sum(entry.unpacked for entry in entries)
    if total > bytes_max:
        raise Excess(f"it unpacks to {total} bytes, {bytes_max} are allowed")
    locked = False
    for entry in entries:
        locked = locked or bool(entry.flags & _ENCRYPTED)
        seek_to(reader, entry.offset + directory.shift, "an entry")
        head = reader.read(30)
        if len(head) < 30 or head[:4] != b"PK\3\4":
            raise Broken("an entry of its directory is not where it says")
        lengths: tuple[int, int] = struct.unpack("<HH", head[26:30])
        end = entry.offset + 30 + sum(lengths) + entry.packed
        if end > directory.offset:
            raise Broken("an entry is longer than the archive")
    if locked:
        raise Locked


def _locate(reader: Reader) -> _Directory:
    """Where the directory is, by the record at the end."""
    total = size_of(reader)
    start = max(0, total - _END_BYTES - _COMMENT_BYTES_MAX)
    reader.seek(start)
    tail = reader.read()
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) - at < _END_BYTES:
        raise Cut("its directory is missing")
    count, size, offset = struct.unpack("<HLL", tail[at + 10 : at + 20])
    end = start + at
    if count == 0xFFFF or 0xFFFFFFFF in (size, offset):
        count, size, offset, end = _locate_large(reader, end, (count, size, offset))
    shift = end - size - offset
    if shift < 0:
        raise Broken("its directory is not where it says")
    return _Directory(count, size, offset, shift)


def _locate_large(
    reader: Reader, end: int, small: tuple[int, int, int]
) -> tuple[int, int, int, int]:
    """The ZIP64 record, which replaces the old one's numbers where those are all ones."""
    reader.seek(max(0, end - 20))
    locator = reader.read(20)
    if locator[:4] != b"PK\6\7":
        return *small, end
    (at,) = struct.unpack("<Q", locator[8:16])
    seek_to(reader, at, "its directory")
    record = read_exactly(reader, 56, "its directory")
    if record[:4] != b"PK\6\6":
        raise Broken("its directory is not where it says")
    count, size, offset = struct.unpack("<QQQ", record[32:56])
    return count, size, offset, at


def _entries(reader: Reader, directory: _Directory) -> Iterator[Entry]:
    if directory.size > _DIRECTORY_BYTES_MAX:
        raise Excess(f"its directory has {directory.size} bytes")
    seek_to(reader, directory.offset + directory.shift, "its directory")
    data = read_exactly(reader, directory.size, "its directory")
    at = 0
    for _ in range(directory.count):
        head = data[at : at + 46]
        if len(head) < 46 or head[:4] != b"PK\1\2":
            raise Broken("its directory is damaged")
        flags, method = struct.unpack("<HH", head[8:12])
        packed, unpacked, name_size, extra_size, comment_size = struct.unpack("<LLHHH", head[20:34])
        (offset,) = struct.unpack("<L", head[42:46])
        name = data[at + 46 : at + 46 + name_size]
        extra = data[at + 46 + name_size : at + 46 + name_size + extra_size]
        sizes = _large_sizes(extra, [unpacked, packed, offset])
        yield Entry(name, flags, method, sizes[1], sizes[0], sizes[2])
        at += 46 + name_size + extra_size + comment_size


def _large_sizes(extra: bytes, sizes: list[int]) -> list[int]:
    """Replace numbers that are all ones by those of the ZIP64 extra field (id 1), in order."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack("<HH", extra[at : at + 4])
        if kind == 1:
            numbers = iter(
                struct.unpack(f"<{length // 8}Q", extra[at + 4 : at + 4 + length // 8 * 8])
            )
            return [next(numbers, size) if size == 0xFFFFFFFF else size for size in sizes]
        at += 4 + length
    return sizes


def _stated(reader: Reader, directory: _Directory, entry: Entry) -> str:
    """OpenDocument and EPUB say their type in a first, unpacked entry."""
    seek_to(reader, entry.offset + directory.shift, "an entry")
    head = read_exactly(reader, 30, "its first entry")
    name_size, extra_size = struct.unpack("<HH", head[26:30])
    reader.seek(name_size + extra_size, 1)
    text = reader.read(min(entry.packed, 256)).decode("latin-1").strip().lower()
    return text if MEDIA_TYPE.fullmatch(text) else ZIP
