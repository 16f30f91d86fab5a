"""Repair: what a load does to a tail, and the one operation that takes events away from a log."""

from __future__ import annotations

import logging

from attachstore.sessions.event import RepairReport
from attachstore.sessions.medium import LogWriter, RepairingWriter, SessionMedium
from attachstore.sessions.names import SessionName
from attachstore.sessions.scan import Scan
from attachstore.threads import CancelFlag

_logger = logging.getLogger("attachstore")


def set_tail_aside(writer: LogWriter, scan: Scan, closers: bytes) -> bool:
    """Cut the tail that `scan` found; whether `closers` were added in the same step."""
    tail = scan.tail
    if tail is None:
        return False
    is_one_step = isinstance(writer, RepairingWriter)
    if isinstance(writer, RepairingWriter):
        kept = writer.repair(tail.offset_bytes, closers)
    else:
        kept = writer.cut(tail.offset_bytes)
    _logger.warning(
        "session %r: %d uncommitted bytes at byte %d moved to %s",
        scan.header.id,
        tail.size_bytes,
        tail.offset_bytes,
        kept,
    )
    return is_one_step


def cut_damage(medium: SessionMedium, name: SessionName, cancel: CancelFlag | None) -> RepairReport:
    """Cut the log after its last good event; the medium keeps what was cut.

    The caller holds the claim. Raises LogDamagedError if the header is at fault: then there is
    no knowing what the log is.
    """
    with medium.open_writer(name) as writer:
        size_bytes = writer.settle()
        where = medium.where(name)
        scan = Scan(writer, name, where=where, end_bytes=size_bytes, cancel=cancel).exhaust()
        flaw = scan.damage or scan.tail
        kept = None if flaw is None else writer.cut(flaw.offset_bytes)
    if flaw is not None:
        _logger.warning(
            "session %r repaired: %d bytes from byte %d moved to %s",
            scan.header.id,
            size_bytes - scan.good_bytes,
            scan.good_bytes,
            kept,
        )
    return RepairReport(
        id=scan.header.id,
        head_seq=scan.seq,
        offset_bytes=scan.good_bytes,
        cut_bytes=size_bytes - scan.good_bytes,
        kept=kept,
        reason=None if flaw is None else flaw.reason,
    )
