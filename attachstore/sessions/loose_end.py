"""The loose end of a sealed log: what lies behind its last frame that has ended.

A writer that is alive, or was killed, leaves a frame without its end: whole blocks, one or more
for each append, and perhaps an append that never finished. A power loss leaves the last append
cut, or with sectors that were never written, or the frame's end so. An append is synced before
anything is written behind it, and a frame's end before the next frame begins. Hence

 (1) every acknowledged line of a loose end comes out of its blocks up to the first that does not
     unpack, and follows by its chain from the line before it;
 (2) what lies behind those lines is *torn* if it is cut within a block or a line, or holds a run
     of NULs that begins or ends with a 512-byte sector or ends with the file, or begins with
     NULs up to the end of a sector, and no frame begins behind it;
 (3) anything else is *damage*: somebody changed what was written, and it is not for us to say
     what of it was acknowledged.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass

from attachstore.disk import BLOCK_BYTES
from attachstore.sessions import record, zstd_frames
from attachstore.sessions.tail import SECTOR_BYTES
from attachstore.sessions.zstd_frames import CHECKSUM_BYTES, MAGIC, Read

_NULS = re.compile(rb"\0{4,}")  # shorter runs are too common in compressed bytes to prove anything


class Flaw(enum.Enum):
    TORN = "torn"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class LooseEnd:
    """`content` is what is good of it: whole lines, proven. `flaw` says what lies behind them."""

    offset_bytes: int
    content: bytes
    flaw: Flaw | None


def examine(read: Read, offset_bytes: int, size_bytes: int, line_before: bytes | None) -> LooseEnd:
    """The loose end of a file of `size_bytes`, which begins at `offset_bytes`.

    `line_before` is the last line that lies before it; None: the log begins here.
    """
    content, marks = _unpack(read, offset_bytes, size_bytes)
    proven_bytes = _proven_bytes(content, line_before)
    if proven_bytes == len(content) and marks[-1][1] == size_bytes:
        return LooseEnd(offset_bytes, content, None)
    # From the end of the last block that holds nothing but proven lines.
    start = max(end for held_bytes, end in marks if held_bytes <= proven_bytes)
    rest = content[proven_bytes:] if marks[-1][1] == size_bytes else b"\n"
    is_torn = _is_torn(read, start, size_bytes, offset_bytes) or b"\n" not in rest
    flaw = Flaw.TORN if is_torn and not _has_frame(read, start, size_bytes) else Flaw.DAMAGED
    return LooseEnd(offset_bytes, content[:proven_bytes], flaw)


def is_proven(content: bytes, line_before: bytes | None) -> bool:
    """Whether `content` is whole lines that follow from `line_before` (None: from nothing)."""
    return _proven_bytes(content, line_before) == len(content)


def _unpack(read: Read, offset_bytes: int, size_bytes: int) -> tuple[bytes, list[tuple[int, int]]]:
    """What comes out block by block, and after each how much that is and where the block ends."""
    marks = [(0, offset_bytes)]
    head = read(offset_bytes, zstd_frames.HEADER_BYTES_MAX)
    if len(head) <= len(MAGIC) or not head.startswith(MAGIC):
        return b"", marks
    zstd = zstd_frames.library()
    pieces: list[bytes] = []
    position = offset_bytes + zstd_frames.header_bytes(head)
    held_bytes = 0
    try:
        with zstd_frames.memory_errors():
            unpacker = zstd.ZstdDecompressor()
            unpacker.decompress(head[: position - offset_bytes])
            marks.append((0, position))
            for end, is_last in zstd_frames.blocks(read, position, size_bytes):
                pieces.append(unpacker.decompress(read(position, end - position)))
                held_bytes += len(pieces[-1])
                position = end
                if held_bytes > record.LINE_BYTES_MAX:  # more than any frame of ours
                    break
                if is_last and not unpacker.eof:
                    unpacker.decompress(read(position, CHECKSUM_BYTES))
                    position += CHECKSUM_BYTES
                if not is_last or unpacker.eof:
                    marks.append((held_bytes, position))
    except (zstd.ZstdError, EOFError):
        pass
    return b"".join(pieces), marks


def _proven_bytes(content: bytes, line_before: bytes | None) -> int:
    """How much of `content` is whole lines of which each follows from the one before it."""
    position = 0
    if line_before is None:  # a header, of which others find out whether it is one
        position = content.find(b"\n") + 1
        chain = record.CHAIN_START if position else None
    else:
        chain = record.chain_after(line_before)
    if chain is None:  # damage lies before it, and is what a reader will find
        return content.rfind(b"\n") + 1
    while end := content.find(b"\n", position) + 1:
        chain = record.chain_of(content[position : end - 1], chain)
        if chain is None:
            break
        position = end
    return position


def _is_torn(read: Read, start: int, size_bytes: int, frame_start: int) -> bool:
    """Whether what lies from `start` on is cut, or was written in part."""
    head = read(frame_start, zstd_frames.HEADER_BYTES_MAX)
    if any(byte not in {0, wanted} for byte, wanted in zip(head, MAGIC, strict=False)):
        return False  # no frame of ours ever began here
    if any(_is_unwritten(*run, size_bytes) for run in _nul_runs(read, start, size_bytes)):
        return True
    if len(head) <= len(MAGIC):
        return True
    nuls = len(head) - len(head.lstrip(b"\0"))
    if nuls and (frame_start + nuls) % SECTOR_BYTES == 0:  # fewer than a run, but of its magic
        return True
    if start == frame_start:
        start += zstd_frames.header_bytes(head)
    end, has_end = zstd_frames.end_of_blocks(read, start, size_bytes)
    return end + (CHECKSUM_BYTES if has_end else 0) != size_bytes


def _is_unwritten(run_start: int, run_end: int, size_bytes: int) -> bool:
    return run_start % SECTOR_BYTES == 0 or run_end % SECTOR_BYTES == 0 or run_end == size_bytes


def _nul_runs(read: Read, start: int, size_bytes: int) -> Iterator[tuple[int, int]]:
    """Where runs of NULs lie; those of more than a block in parts that touch sectors' ends."""
    for position, block in _blocks(read, start, size_bytes, overlap_bytes=0):
        for match in _NULS.finditer(block):
            yield position + match.start(), position + match.end()


def _has_frame(read: Read, start: int, size_bytes: int) -> bool:
    """Whether a frame begins behind `start`."""
    overlap_bytes = len(MAGIC) - 1
    return any(MAGIC in block for _, block in _blocks(read, start + 1, size_bytes, overlap_bytes))


def _blocks(
    read: Read, start: int, size_bytes: int, overlap_bytes: int
) -> Iterator[tuple[int, bytes]]:
    """The file from `start` on, each piece up to a multiple of BLOCK_BYTES and a little more."""
    while start < size_bytes:
        stop = (start // BLOCK_BYTES + 1) * BLOCK_BYTES
        yield start, read(start, min(stop + overlap_bytes, size_bytes) - start)
        start = stop
