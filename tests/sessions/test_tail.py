"""What is a tail and what is damage, case by case, on bytes laid out by hand."""

from __future__ import annotations

import pytest

from attachstore.sessions import record
from attachstore.sessions.memory import MemoryLog
from attachstore.sessions.names import SessionName
from attachstore.sessions.tail import tail_reason

START = 700
"""Where L begins in these logs: on no sector boundary."""


def line(seq: int, batch: int | None = None, size_bytes: int = 0) -> bytes:
    """A whole record line of about `size_bytes`."""
    text = b'"%b"' % (b"x" * max(0, size_bytes - 130))
    return record.encode_record(
        seq=seq, time="t", type_json=b'"m"', data_json=text, batch=batch, chain=bytes(16)
    )[0]


def reason_of(rest: bytes, expected_seq: int = 5) -> str | None:
    content = bytearray(b"." * START + rest)
    log = MemoryLog(SessionName.of("s-1"), content, [])
    return tail_reason(log, START, len(content), expected_seq)


def zeroed(content: bytes, first: int, last: int) -> bytes:
    """`content` at START with zeros from byte `first` to byte `last` of the log."""
    whole = bytearray(b"." * START + content)
    whole[first:last] = bytes(last - first)
    return bytes(whole[START:])


BATCH = line(5, 5, 900) + line(6, 5, 900) + line(7, 5, 900)


@pytest.mark.parametrize(
    "rest",
    [
        line(5)[:-1],
        b"x",
        b"\0" * 33,
        zeroed(BATCH, START, 1024),
        zeroed(BATCH, 1024, 1536),
        zeroed(BATCH, 1024, 2048),
        zeroed(zeroed(line(5, 5, 3000) + line(6, 5, 900), 1024, 1536), 2048, 2560),
        zeroed(zeroed(BATCH, START, 1024), 2560, 3072),
        zeroed(BATCH, START, START + len(BATCH)),
        zeroed(BATCH, 1024, START + len(BATCH)),
        zeroed(BATCH + b"stub of what came after", START, 1024),
    ],
    ids=[
        "no-line-feed",
        "one-byte",
        "zeros-to-the-end",
        "first-sector",
        "inner-sector",
        "over-a-line-feed",
        "two-runs-in-one-line",
        "two-lines",
        "all-zero",
        "zeros-from-a-sector-on",
        "with-a-stub",
    ],
)
def test_what_a_crash_may_leave_is_a_tail(rest: bytes) -> None:
    assert reason_of(rest) is not None


@pytest.mark.parametrize(
    "rest",
    [
        b"garbage\n",
        b"\n",
        zeroed(BATCH, 1024, 1535),
        zeroed(BATCH, 1025, 1536),
        zeroed(BATCH, START + 1, 1024),
        zeroed(zeroed(line(5, 5, 3000), 1024, 1536), 1700, 1701),
        zeroed(BATCH, START, 1024) + line(8),
        zeroed(BATCH, START, 1024) + line(8, 8) + line(9, 8),
        zeroed(line(5, None, 900) + line(6), START, 1024),
    ],
    ids=[
        "garbage",
        "blank",
        "ends-off-a-sector",
        "begins-off-a-sector",
        "begins-after-the-first-byte",
        "one-run-of-two-is-off",
        "a-later-append",
        "a-later-batch",
        "the-next-append",
    ],
)
def test_what_no_crash_can_explain_is_damage(rest: bytes) -> None:
    """Or what had been acknowledged: then a block rotted, and cutting would lose events."""
    assert reason_of(rest) is None


def test_nul_runs_are_judged_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run cut in two by the reading is one run."""
    monkeypatch.setattr("attachstore.sessions.tail.BLOCK_BYTES", 100)

    assert reason_of(zeroed(BATCH, 1024, 1536)) is not None
    assert reason_of(zeroed(BATCH, 1024, 1537)) is None
