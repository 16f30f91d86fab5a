"""A glance at a sealed log: at all of it, if it is small, whole, and nobody is writing it."""

from __future__ import annotations

from pathlib import Path

from attachstore.disk import Disk, is_regular, read_all
from attachstore.errors import MissingDependencyError
from attachstore.sessions import zstd_frames
from attachstore.sessions.glance import LOOK_BYTES, Glance, glance_at, glance_of
from attachstore.sessions.mending import MENDING

_STORED_BYTES_MAX = 32 << 10  # one read; a longer log is worth being opened
_CONTENT_BYTES_MAX = 1 << 20


def glance_at_either(disk: Disk, path: Path, sealed_path: Path) -> Glance | None:
    """Look at a log where it lies, plain or sealed. Raises OSError."""
    try:
        return glance_at(disk, path)
    except FileNotFoundError:
        return _glance_at_sealed(disk, sealed_path)


def _glance_at_sealed(disk: Disk, path: Path) -> Glance | None:
    descriptor = disk.open_read(path)
    try:
        status = disk.status_open(descriptor)
        if not is_regular(status) or status.st_size > _STORED_BYTES_MAX:
            return None
        stored = read_all(disk, descriptor, status.st_size)
    finally:
        disk.close(descriptor)
    try:
        disk.status(path.with_name(MENDING))
    except FileNotFoundError:
        try:
            content = _unpacked(stored)
        except MissingDependencyError:
            return None
        if content is not None:
            return glance_of(len(content), content[:LOOK_BYTES], content[-LOOK_BYTES:])
    return None


def _unpacked(stored: bytes) -> bytes | None:
    """What frames hold that have ended and are sound; None if there is anything else."""

    def read(offset_bytes: int, size_bytes: int) -> bytes:
        return stored[offset_bytes : offset_bytes + size_bytes]

    pieces: list[bytes] = []
    end = content_bytes = 0
    for frame in zstd_frames.walk(read, 0, len(stored)):
        content_bytes += frame.content_bytes
        if content_bytes > _CONTENT_BYTES_MAX:
            return None
        frame_bytes = stored[frame.offset_bytes : frame.end_bytes]
        content = zstd_frames.decompress(frame_bytes, frame.content_bytes)
        if content is None:
            return None
        pieces.append(content)
        end = frame.end_bytes
    return b"".join(pieces) if end == len(stored) else None
