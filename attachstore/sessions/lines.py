"""Lines: a log's bytes cut at its line feeds, singly or many at once, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

from attachstore.disk import BLOCK_BYTES
from attachstore.sessions.medium import LogReader
from attachstore.sessions.record import LINE_BYTES_MAX
from attachstore.threads import CancelFlag

_RUN_BYTES = 16 << 10
"""What is made of so many lines is still in a core's own cache when it is looked at."""


def split_lines(
    log: LogReader,
    offset_bytes: int,
    end_bytes: int,
    cancel: CancelFlag | None,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[tuple[int, bytes | None, bool]]:
    """Each line's offset, its bytes without line feed, and whether it had one.

    Reads `block_bytes` at a time. A line longer than any record has None for its bytes. Only
    the last can lack its line feed.
    """
    for start, lines, whole in split_runs(log, offset_bytes, end_bytes, cancel, block_bytes):
        if lines is None or not whole:
            yield start, lines, whole
            continue
        line_start = start
        for line in lines[:-1].split(b"\n"):
            yield line_start, line, True
            line_start += len(line) + 1


def split_runs(
    log: LogReader,
    offset_bytes: int,
    end_bytes: int,
    cancel: CancelFlag | None,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[tuple[int, bytes | None, bool]]:
    """As `split_lines`, but some lines at once, each with its line feed."""
    parts: list[bytes] = []  # of the line that began at `start` and goes on
    held_bytes = 0
    start = offset_bytes
    while offset_bytes < end_bytes:
        if cancel is not None:
            cancel.check()
        block = log.read(offset_bytes, min(block_bytes, end_bytes - offset_bytes))
        if not block:
            break  # cut meanwhile
        offset_bytes += len(block)
        cut = block.find(b"\n") + 1 if held_bytes else 0
        if cut:
            line_bytes = held_bytes + cut - 1
            whole = line_bytes <= LINE_BYTES_MAX
            yield start, b"".join([*parts, block[:cut]]) if whole else None, True
            start += line_bytes + 1
            parts, held_bytes = [], 0
        end = block.rfind(b"\n") + 1
        while cut < end:
            run_end = block.find(b"\n", min(cut + _RUN_BYTES, end - 1)) + 1
            yield start, block[cut:run_end], True
            start += run_end - cut
            cut = run_end
        held_bytes += len(block) - end
        if held_bytes <= LINE_BYTES_MAX:
            parts.append(block[end:])
    if held_bytes:
        yield start, b"".join(parts) if held_bytes <= LINE_BYTES_MAX else None, False
