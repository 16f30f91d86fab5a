"""MP3, WAV, M4A, OGG and FLAC by their structure; no sample is decoded."""

from __future__ import annotations

from attachstore.admission import isobmff
from attachstore.admission.defect import Broken, Cut
from attachstore.admission.reading import Reader, read_exactly, size_of

_OGG_HEADER_BYTES = 27
_OGG_VIDEO = (b"\x80theora", b"BBCD", b"\x01video")
_UNKNOWN_LENGTHS = frozenset({0, 0xFFFFFFFF})
_MPEG_FRAMES_WANTED = 3
_MPEG_SEARCH_BYTES = 256 << 10
# ISO/IEC 11172-3 table of bit rates in kbit/s, layers II and III; 13818-3 halves for version 2.
_RATES_1_3 = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_RATES_1_2 = (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384)
_RATES_2 = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_SAMPLES_PER_S = (44100, 48000, 32000)


def is_wave(reader: Reader) -> bool:
    front = reader.read(16)
    return front[:4] in {b"RIFF", b"RF64"} and front[8:12] == b"WAVE" and len(front) == 16


def check_wave(reader: Reader) -> None:
    """Format and data chunks, the data as long as it says. Raises Defect."""
    total = size_of(reader)
    front = read_exactly(reader, 12, "its header")
    large = front[:4] == b"RF64"
    seen_format = False
    at = 12
    while at + 8 <= total:
        reader.seek(at)
        head = reader.read(8)
        length = int.from_bytes(head[4:], "little")
        if head[:4] == b"data":
            if not seen_format:
                raise Broken("its data comes before its format")
            # Programs that write to a pipe cannot go back to fill in the length.
            if not large and length not in _UNKNOWN_LENGTHS and at + 8 + length > total:
                raise Cut("samples are missing at its end")
            return
        if head[:4] == b"fmt ":
            seen_format = length >= 14
        at += 8 + length + (length & 1)
    raise Cut("it holds no samples")


def is_flac(reader: Reader) -> bool:
    front = reader.read(8)
    return front[:4] == b"fLaC" and front[4:5] in {b"\0", b"\x80"} and front[5:8] == b"\0\0\x22"


def check_flac(reader: Reader) -> None:
    """Every metadata block, then a first frame. Raises Defect."""
    read_exactly(reader, 4, "its header")
    while True:
        head = read_exactly(reader, 4, "its metadata")
        length = int.from_bytes(head[1:], "big")
        if len(reader.read(length)) != length:
            raise Cut("it ends inside its metadata")
        if head[0] & 0x80:
            break
    sync = read_exactly(reader, 2, "its first frame")
    if sync[0] != 0xFF or sync[1] & 0xFC != 0xF8:
        raise Broken("no frame follows its metadata")


def ogg_type(reader: Reader) -> str | None:
    """Audio or video, by the first stream's header; None if there is no first page."""
    page = reader.read(_OGG_HEADER_BYTES + 255 + 16)
    if len(page) <= _OGG_HEADER_BYTES or page[:5] != b"OggS\0" or not page[5] & 2:
        return None
    packet = page[_OGG_HEADER_BYTES + page[26] :]
    return "video/ogg" if packet.startswith(_OGG_VIDEO) else "audio/ogg"


def check_ogg(reader: Reader) -> None:
    """Page after page to the end of the file. Raises Defect."""
    total, at = size_of(reader), 0
    while at < total:
        reader.seek(at)
        head = read_exactly(reader, _OGG_HEADER_BYTES, "a page")
        if head[:5] != b"OggS\0":
            raise Broken("a page is not where the one before it ends")
        at += _OGG_HEADER_BYTES + head[26] + sum(read_exactly(reader, head[26], "a page"))
    if at > total:
        raise Cut("it ends inside a page")


def check_mp4(reader: Reader) -> None:
    """Every box whole, with its index and its data. Raises Defect."""
    isobmff.check_boxes(reader, frozenset({b"moov", b"mdat"}))


def is_mpeg(reader: Reader) -> bool:
    """Whether MPEG audio frames follow each other, right at the start or behind an ID3 tag.

    Tags lie about their length, and junk follows them: behind a tag the frames are searched.
    """
    front = reader.read(10)
    if front[:3] != b"ID3":
        reader.seek(0)
        return _frames_at(reader.read(16 << 10), 0)
    length = sum(
        (byte & 0x7F) << shift for byte, shift in zip(front[6:], (21, 14, 7, 0), strict=False)
    )
    for start in (10 + length, 10):
        reader.seek(start)
        if _find_frames(reader.read(_MPEG_SEARCH_BYTES)):
            return True
    return False


def check_mpeg(reader: Reader) -> None:
    """Raises Defect."""
    if not is_mpeg(reader):
        raise Broken("no audio frames follow each other")


def _find_frames(data: bytes) -> bool:
    at = data.find(b"\xff")
    while at >= 0:
        if _frames_at(data, at):
            return True
        at = data.find(b"\xff", at + 1)
    return False


def _frames_at(data: bytes, at: int) -> bool:
    """Some frames in a row; fewer only where the data ends with a whole frame."""
    for count in range(_MPEG_FRAMES_WANTED):
        length = _frame_bytes(data[at : at + 4])
        if not length:
            return count > 0 and at == len(data)
        at += length
    return at <= len(data)


def _frame_bytes(head: bytes) -> int:
    """Length of the frame with this header, 0 if it is none. Layers II and III."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return 0
    version, layer = head[1] >> 3 & 3, head[1] >> 1 & 3
    rate, frequency, padding = head[2] >> 4, head[2] >> 2 & 3, head[2] >> 1 & 1
    if version == 1 or layer not in {1, 2} or rate in {0, 15} or frequency == 3:
        return 0
    rates = _RATES_2 if version != 3 else _RATES_1_3 if layer == 1 else _RATES_1_2
    per_s = _SAMPLES_PER_S[frequency] >> {3: 0, 2: 1, 0: 2}[version]
    samples_of_8 = 72 if layer == 1 and version != 3 else 144
    return samples_of_8 * rates[rate] * 1000 // per_s + padding
