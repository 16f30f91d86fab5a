"""Torn: where bytes are kept that were cut off a log's file."""

from __future__ import annotations

import secrets
from pathlib import Path

from attachstore.disk import (
    BLOCK_BYTES,
    Disk,
    ensure_directory,
    layout_errors,
    read_all,
    remove_quietly,
    write_all,
)
from attachstore.promise import Promise
from attachstore.sessions.new_log import FILE_MODE

TORN = "torn"


def keep_end(
    disk: Disk, promise: Promise, descriptor: int, offset_bytes: int, *, torn: Path, name: str
) -> Path:
    """Copy what lies from `offset_bytes` on into `torn`, durably; `name` begins the copy's name.

    Raises OSError, StoreLayoutError.
    """
    ensure_directory(disk, torn)
    kept = torn / f"{name}-{secrets.token_hex(8)}"
    with layout_errors(kept):
        copy = disk.create(kept, FILE_MODE)
    try:
        try:
            copied_bytes = 0
            while block := read_all(disk, descriptor, BLOCK_BYTES, offset_bytes + copied_bytes):
                write_all(disk, copy, block, copied_bytes)
                copied_bytes += len(block)
            disk.sync_file(copy)
        finally:
            disk.close(copy)
    except BaseException:
        remove_quietly(disk, kept)
        raise
    promise.sync_directory(torn)
    promise.sync_directory(torn.parent)
    return kept
