"""Mending: a frame of a sealed log takes the place of what lies from an offset of its file on.

    log.jsonl.zst ──publish──▶ + .mending ──truncate, write──▶ ──remove .mending──▶ log.jsonl.zst

A frame that a dead writer left without its end cannot be gone on with: the compressor's state is
gone. Its lines are packed anew. The file `log.jsonl.zst.mending` holds the place, and frames with
the lines that are to be there. While it exists it is what the log ends in, so that a kill between
any two steps loses nothing, and a reader beside it sees nothing missing. What lies before the
place is neither read nor written.

Invariants

 (1) Nothing is taken from the log before what takes its place is durable under the second name.
 (2) Nothing is appended while that name may be there after a power loss: a writer syncs the
     directory when it opens the log.
"""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

from attachstore.disk import (
    Disk,
    is_regular,
    layout_errors,
    read_all,
    storage_errors,
    write_all,
)
from attachstore.errors import StoreLayoutError
from attachstore.promise import Promise
from attachstore.sessions import zstd_frames
from attachstore.sessions.loose_end import LooseEnd
from attachstore.sessions.sealing import publish

MENDING = "log.jsonl.zst.mending"

_HEAD = struct.Struct("<4sIQ")  # a skippable frame: magic, bytes that follow, the place
_HEAD_MAGIC = b"\x5a\x2a\x4d\x18"


def read_mending(disk: Disk, path: Path) -> LooseEnd | None:
    """What the log at `path` ends in while it is being mended.

    Raises StoreLayoutError if the mending is damaged.
    """
    place = path.with_name(MENDING)
    with storage_errors(place), layout_errors(place):
        stored = _stored(disk, path)
    if stored is None:
        return None
    offset_bytes, frames = _parted(stored, path)
    return LooseEnd(offset_bytes, _content(frames, path), None)


def mend(
    disk: Disk, promise: Promise, descriptor: int, path: Path, *, offset_bytes: int, content: bytes
) -> None:
    """Let the log's file hold frames of `content` from `offset_bytes` on. Raises OSError.

    `content` is lines of the log, or nothing. What is cut has been kept elsewhere.
    """
    frames = b"".join(zstd_frames.compress([content])) if content else b""
    if frames:
        head = _HEAD.pack(_HEAD_MAGIC, _HEAD.size - 8, offset_bytes)
        publish(disk, promise, path.with_name(MENDING), [head + frames], lambda _: None)
    _apply(disk, promise, descriptor, path, offset_bytes, frames)


def finish_mending(disk: Disk, promise: Promise, descriptor: int, path: Path) -> None:
    """Do what a killed mending, found by `read_mending`, did not come to. Raises OSError."""
    stored = _stored(disk, path)
    if stored is None:
        return
    promise.sync_directory(path.parent)  # whoever published it may not have got so far
    offset_bytes, frames = _parted(stored, path)
    _apply(disk, promise, descriptor, path, offset_bytes, frames)


def _apply(
    disk: Disk, promise: Promise, descriptor: int, path: Path, offset_bytes: int, frames: bytes
) -> None:
    disk.truncate(descriptor, offset_bytes)
    write_all(disk, descriptor, frames, offset_bytes)
    disk.sync_file(descriptor)
    if frames:
        disk.unlink(path.with_name(MENDING))
        promise.sync_directory(path.parent)


def _stored(disk: Disk, path: Path) -> bytes | None:
    try:
        descriptor = disk.open_read(path.with_name(MENDING))
    except FileNotFoundError:
        return None
    try:
        status = disk.status_open(descriptor)
        if not is_regular(status):
            raise _damaged(path)
        return read_all(disk, descriptor, status.st_size)
    finally:
        with contextlib.suppress(OSError):
            disk.close(descriptor)


def _parted(stored: bytes, path: Path) -> tuple[int, bytes]:
    """Place and frames of a mending."""
    if len(stored) > _HEAD.size:
        magic, rest_bytes, offset_bytes = _HEAD.unpack_from(stored)
        if (magic, rest_bytes) == (_HEAD_MAGIC, _HEAD.size - 8):
            return offset_bytes, stored[_HEAD.size :]
    raise _damaged(path)


def _content(frames: bytes, path: Path) -> bytes:
    pieces: list[bytes] = []
    end = 0

    def read(offset_bytes: int, size_bytes: int) -> bytes:
        return frames[offset_bytes : offset_bytes + size_bytes]

    for frame in zstd_frames.walk(read, 0, len(frames)):
        stored = read(frame.offset_bytes, frame.size_bytes)
        content = zstd_frames.decompress(stored, frame.content_bytes)
        if content is None:
            raise _damaged(path)
        pieces.append(content)
        end = frame.end_bytes
    if end != len(frames):
        raise _damaged(path)
    return b"".join(pieces)


def _damaged(path: Path) -> StoreLayoutError:
    reason = "it is damaged, or not ours; it holds the end of the log beside it"
    return StoreLayoutError(where=str(path.with_name(MENDING)), reason=reason)
