"""Whether what follows a log's last good line is an uncommitted tail or damage.

Let L be the first line that is not the valid next record. L and all after it is an uncommitted
tail, which a crash may leave and a load may move aside, if both hold:

 (a) L has no line feed, or L holds NULs and every run of NULs begins at L's first byte or on a
     512-byte boundary of the log and ends on one or at the end of the log (blocks that a file
     system gave to the file and never wrote are zeros, in whole sectors);
 (b) no later whole line that parses shows that L had been acknowledged: its `batch`, or its
     `seq` where it has none, is greater than the `seq` expected at L.

Anything else is damage. "Everything after the first bad line" would cut acknowledged events when
one block in the middle rots; "every line of the tail holds aligned NULs" would refuse legal
crash states of a batch (docs/decisions/0022-uncommitted-tails.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from attachstore.disk import BLOCK_BYTES
from attachstore.sessions.data import BadDataError
from attachstore.sessions.lines import split_lines
from attachstore.sessions.medium import LogReader
from attachstore.sessions.record import decode_envelope
from attachstore.threads import CancelFlag

SECTOR_BYTES = 512

_NULS = re.compile(rb"\0+")


def tail_reason(
    log: LogReader,
    offset_bytes: int,
    end_bytes: int,
    expected_seq: int,
    cancel: CancelFlag | None = None,
) -> str | None:
    """Why the bytes from L's first byte on are an uncommitted tail; None: they are damage."""
    line_end = _find_line_end(log, offset_bytes, end_bytes, cancel)
    if line_end is None:
        return "the last line has no line feed: its append never finished"
    if not _has_only_unwritten_nuls(log, offset_bytes, line_end, cancel):
        return None
    for _, line, whole in split_lines(log, line_end + 1, end_bytes, cancel):
        if whole and line is not None and _shows_acknowledged(line, expected_seq):
            return None
    return "blocks that were never written: the append they belong to never finished"


def _find_line_end(
    log: LogReader, offset_bytes: int, end_bytes: int, cancel: CancelFlag | None
) -> int | None:
    for start, block in _blocks(log, offset_bytes, end_bytes, cancel):
        position = block.find(b"\n")
        if position >= 0:
            return start + position
    return None


def _has_only_unwritten_nuls(
    log: LogReader, first_byte: int, line_end: int, cancel: CancelFlag | None
) -> bool:
    """Whether the line holds NULs and every run of them is whole sectors, but for L's start.

    The line has a line feed, so that no run in it can reach the end of the log.
    """
    run_start = run_end = -1
    for start, block in _blocks(log, first_byte, line_end, cancel):
        if b"\0" not in block:  # the expression takes thirty times as long to see that
            continue
        for match in _NULS.finditer(block):
            if start + match.start() != run_end:
                if run_end >= 0 and not _is_unwritten(run_start, run_end, first_byte):
                    return False
                run_start = start + match.start()
            run_end = start + match.end()
    return run_end >= 0 and _is_unwritten(run_start, run_end, first_byte)


def _is_unwritten(run_start: int, run_end: int, first_byte: int) -> bool:
    begins = run_start == first_byte or run_start % SECTOR_BYTES == 0
    return begins and run_end % SECTOR_BYTES == 0


def _shows_acknowledged(line: bytes, expected_seq: int) -> bool:
    try:
        event = decode_envelope(line)
    except BadDataError:
        return False
    return (event.seq if event.batch is None else event.batch) > expected_seq


def _blocks(
    log: LogReader, offset_bytes: int, end_bytes: int, cancel: CancelFlag | None
) -> Iterator[tuple[int, bytes]]:
    while offset_bytes < end_bytes:
        if cancel is not None:
            cancel.check()
        block = log.read(offset_bytes, min(BLOCK_BYTES, end_bytes - offset_bytes))
        if not block:
            return
        yield offset_bytes, block
        offset_bytes += len(block)
