"""Whether a JPEG's scan holds data for all of its pixels.

libjpeg fills in what is missing with grey and only warns, and Pillow drops the warning. So the
picture is decoded a second time with some bytes put in before its end marker: if the scan was
whole, they lie behind its last block and change nothing; if it was not, they are taken for the
missing data and show. See docs/decisions/0013-jpeg-scans-are-checked.md.
"""

from __future__ import annotations

from attachstore.admission import jpeg
from attachstore.admission.defect import Cut
from attachstore.admission.pillow import Picture, pillow
from attachstore.admission.reading import OFFSET_BYTES_MAX, Reader, size_of
from attachstore.disk import BLOCK_BYTES

_PROBE_BYTES = bytes((37 * at + 11) % 251 for at in range(96))
"""No FF among them, and no pattern."""
_REASON = "its scan ends before the last row, though its end marker is there"
_STRIP_ROWS = 64
_DRAFT_PIXELS_MIN = 1 << 16
"""Below, decoding at full size costs nothing, and sees more."""


def decode_whole(reader: Reader, size: tuple[int, int]) -> bool:
    """Decode the first picture, and see that nothing is missing before its end marker.

    False, and nothing done, for the rare processes where this cannot be seen (arithmetic coding
    may leave out zeros at the end). Raises Cut, and what Pillow raises.
    """
    end, process = jpeg.first_end(reader)
    if process not in {jpeg.BASELINE, jpeg.EXTENDED, jpeg.PROGRESSIVE}:
        return False
    small = process != jpeg.PROGRESSIVE and size[0] * size[1] > _DRAFT_PIXELS_MIN
    original = _decoded(reader, small=small)
    try:
        spliced = _decoded(_SplicedReader(reader, end, _PROBE_BYTES), small=small)
    except OSError as error:
        if error.errno is not None:
            raise
        raise Cut(_REASON) from error
    width, height = original.size
    for top in range(0, height, _STRIP_ROWS):
        box = (0, top, width, min(height, top + _STRIP_ROWS))
        if original.crop(box).tobytes() != spliced.crop(box).tobytes():
            raise Cut(_REASON)
    return True


def _decoded(reader: Reader, *, small: bool) -> Picture:
    """The first picture; small: an eighth of its size, which reads every bit of the scan too."""
    reader.seek(0)
    picture = pillow().open(reader, "JPEG")
    if small:
        picture.draft(None, (1, 1))
    picture.load()
    return picture


class _SplicedReader:
    """`reader` with some bytes put in at an offset; nothing is copied."""

    def __init__(self, reader: Reader, offset: int, inserted: bytes) -> None:
        self._reader = reader
        self._start, self._inserted = offset, inserted
        self._at = 0

    def read(self, size: int = -1, /) -> bytes:
        parts: list[bytes] = []
        left = size if size >= 0 else OFFSET_BYTES_MAX
        while left:
            block = self._read_part(left)
            if not block:
                break
            parts.append(block)
            left -= len(block)
            self._at += len(block)
        return b"".join(parts)

    def _read_part(self, size: int) -> bytes:
        end = self._start + len(self._inserted)
        if self._start <= self._at < end:
            return self._inserted[self._at - self._start :][:size]
        if self._at < self._start:
            self._reader.seek(self._at)
            return self._reader.read(min(size, self._start - self._at))
        self._reader.seek(self._at - len(self._inserted))
        return self._reader.read(min(size, BLOCK_BYTES))

    def seek(self, offset: int, whence: int = 0, /) -> int:
        end = size_of(self._reader) + len(self._inserted) if whence == 2 else 0
        self._at = max(0, (0, self._at, end)[whence] + offset)
        return self._at

    def tell(self) -> int:
        return self._at
