"""Sealing: a log's two files, `log.jsonl` and `log.jsonl.zst`, and the way from one to the other.

    raw ──seal──▶ both ──▶ sealed ──unseal──▶ both ──▶ raw

The new file is published whole and synced before the old one is removed, so a kill in between
leaves both. The chain settles which stays: the sealed one if both are proven to the same head,
else the one that is proven further. The other is kept in `torn/`, unless it is the same log, byte
for byte as far as the chain can tell.

Invariants

 (1) At every moment one of the two files holds everything that was acknowledged.
 (2) Everything here is done under the session's claim, but for `better_of`, which only reads.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from attachstore.disk import BLOCK_BYTES, Disk, ensure_directory
from attachstore.errors import LogDamagedError, StoreLayoutError, StoreVersionError
from attachstore.promise import Promise
from attachstore.sessions.medium import LogReader
from attachstore.sessions.names import SessionName
from attachstore.sessions.new_log import NewLog
from attachstore.sessions.scan import Scan
from attachstore.sessions.torn import TORN
from attachstore.threads import CancelFlag

_logger = logging.getLogger("attachstore")

_NOT_A_LOG = (LogDamagedError, StoreLayoutError, StoreVersionError)


def blocks_of(
    log: LogReader, cancel: CancelFlag | None, size_bytes: int | None = None
) -> Iterator[bytes]:
    """A log up to `size_bytes`, by default all of it, in order."""
    offset_bytes = 0
    size_bytes = log.size() if size_bytes is None else size_bytes
    while offset_bytes < size_bytes:
        if cancel is not None:
            cancel.check()
        block = log.read(offset_bytes, min(BLOCK_BYTES, size_bytes - offset_bytes))
        yield block
        offset_bytes += len(block)


def publish(
    disk: Disk,
    promise: Promise,
    path: Path,
    content: Iterable[bytes],
    check: Callable[[int], None],
) -> None:
    """Make the file at `path`, whole and durable, after `check` of its open descriptor."""
    new = NewLog(disk, path.parent)
    try:
        new.fill(content)
        check(new.descriptor)
        new.publish(path)
        promise.sync_directory(path.parent, undo=lambda: new.take_back(path))
    finally:
        new.abandon()


def is_all(log: LogReader, name: SessionName, path: Path, whole_bytes: int) -> bool:
    """Whether the log at `path` is whole, not only its first `whole_bytes`.

    Raises LogDamagedError if there is not even a header in these: no writer leaves that behind,
    and what came out of it would be no log.
    """
    if whole_bytes == log.size() > 0:
        return True
    Scan(log, name, where=str(path), end_bytes=whole_bytes)
    return False


def remove(disk: Disk, promise: Promise, path: Path) -> None:
    """Remove a file, durably. Raises OSError."""
    disk.unlink(path)
    promise.sync_directory(path.parent)


def keep_aside(disk: Disk, promise: Promise, path: Path) -> None:
    """Move a file that lost into `torn/`, durably, and tell of it. Raises OSError."""
    torn = path.parent / TORN
    ensure_directory(disk, torn)
    promise.sync_directory(torn.parent)
    kept = torn / f"{path.name}-{secrets.token_hex(8)}"
    disk.rename(path, kept)
    promise.sync_directory(torn)
    promise.sync_directory(torn.parent)
    _logger.warning(
        "%s is not the same as the log that took its place; it was moved to %s", path, kept
    )


def let_one_stay(
    disk: Disk,
    promise: Promise,
    raw: LogReader,
    sealed: LogReader,
    name: SessionName,
    paths: tuple[Path, Path],
) -> bool:
    """Let one of two files stay, and make it durable; return whether it is the sealed one.

    `paths` are those of the two logs, in this order. Raises OSError.
    """
    raw.settle()  # bytes and names: whoever linked them may not have got so far
    sealed.settle()
    sealed_stays, is_same = better_of(raw, sealed, name)
    path, sealed_path = paths
    loser = path if sealed_stays else sealed_path
    if is_same:
        remove(disk, promise, loser)
    else:
        keep_aside(disk, promise, loser)
    return sealed_stays


def better_of(raw: LogReader, sealed: LogReader, name: SessionName) -> tuple[bool, bool]:
    """Whether the sealed log is the one that stays, and whether the other is the same log."""
    proven_raw, proven_sealed = _proven(raw, name), _proven(sealed, name)
    if proven_raw == proven_sealed:
        return True, raw.size() == sealed.size()
    # seq, chain; at one seq with two chains nothing tells them apart, and the raw one is older
    return proven_sealed[0] > proven_raw[0], False


def _proven(log: LogReader, name: SessionName) -> tuple[int, bytes]:
    """How far a log is proven: `seq` and chain of its last good event; -1 for no log at all."""
    try:
        scan = Scan(log, name, where=name.id).exhaust()
    except _NOT_A_LOG:
        return -1, b""
    return scan.seq, scan.chain
