"""Where in a log an event is, without reading what lies before it.

Lines are in the order of their `seq`, so a line is found by halving: look at the first line that
begins after the middle, and go on in the half that must hold the event. About twenty looks of a
few KiB find any of a million events, on every medium, and there is no index that could be wrong.

In a damaged log the order may not hold. Then the event is not found, or the line that is found
is not the record that was meant; whoever asks checks that, and reads from the start instead.
"""

from __future__ import annotations

import re

from attachstore.sessions.lines import split_lines
from attachstore.sessions.medium import LogReader
from attachstore.threads import CancelFlag

_SEQ = re.compile(rb'\{"seq":([1-9][0-9]{0,18}),')
_SEQ_BYTES_MAX = len('{"seq":,') + 19
_LOOK_BYTES = 4 << 10
_LOOK_BYTES_MAX = 1 << 20
_STEP_BYTES = 64 << 10  # what is left when halving ends and reading begins


def find_event(
    log: LogReader, seq: int, *, start_bytes: int, end_bytes: int, cancel: CancelFlag | None = None
) -> tuple[int, bytes] | None:
    """Offset and bytes (without line feed) of the line that says it is event `seq`.

    Events begin at `start_bytes`. None if there is none, or the lines are not as we write them.
    """
    low, high = start_bytes, end_bytes  # it begins at `low`, where a line begins, or between them
    while high - low > _STEP_BYTES:
        if cancel is not None:
            cancel.check()
        middle = (low + high) // 2
        line_start = _next_line(log, middle, high)
        if line_start is None:
            high = middle + 1
            continue
        found = _SEQ.match(log.read(line_start, _SEQ_BYTES_MAX))
        if found is None:
            return None
        if int(found[1]) <= seq:
            low = line_start
        else:
            high = middle + 1
    for offset_bytes, line, whole in split_lines(log, low, end_bytes, cancel, _STEP_BYTES):
        found = _SEQ.match(line) if whole and line is not None else None
        if line is None or found is None or int(found[1]) > seq:
            return None
        if int(found[1]) == seq:
            return offset_bytes, line
    return None


def _next_line(log: LogReader, offset_bytes: int, end_bytes: int) -> int | None:
    """Where the first line after `offset_bytes` begins, if it begins before `end_bytes`."""
    look_bytes = _LOOK_BYTES
    while offset_bytes < end_bytes:
        block = log.read(offset_bytes, min(look_bytes, end_bytes - offset_bytes))
        position = block.find(b"\n")
        if position >= 0:
            following = offset_bytes + position + 1
            return following if following < end_bytes else None
        if not block:
            return None
        offset_bytes += len(block)
        look_bytes = min(look_bytes * 2, _LOOK_BYTES_MAX)
    return None
