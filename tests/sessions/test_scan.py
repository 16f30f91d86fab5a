"""A scan looks at blocks, and at lines that two blocks share, and misses nothing in either."""

from __future__ import annotations

import tracemalloc
from typing import Self

import msgspec
import pytest

from attachstore.disk import BLOCK_BYTES
from attachstore.sessions import record
from attachstore.sessions.event import SessionHeader
from attachstore.sessions.names import SessionName
from attachstore.sessions.scan import Scan
from tests.sessions.test_data import REFERENCE

WITH_REFERENCE = msgspec.json.encode({"file": REFERENCE.to_json()})
PLACES = range(0, len(WITH_REFERENCE) + 100, 9)


class Bytes:
    """A log that is there, and nothing else."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def size(self) -> int:
        return len(self.content)

    def read(self, offset_bytes: int, size_bytes: int) -> bytes:
        return self.content[offset_bytes : offset_bytes + size_bytes]

    def settle(self) -> int:
        return self.size()

    def close(self) -> None:
        pass


def log_of(*data: bytes) -> Bytes:
    lines = [record.encode_header(SessionHeader(id="s-1", created_at="2026-11-30T12:00:00Z"))]
    chain = record.CHAIN_START
    for seq, data_json in enumerate(data, 1):
        line, chain = record.encode_record(
            seq=seq,
            time="2026-11-30T12:00:00.000001Z",
            type_json=b'"m"',
            data_json=data_json,
            batch=None,
            chain=chain,
        )
        lines.append(line)
    return Bytes(b"".join(lines))


def scan_of(log: Bytes) -> Scan:
    return Scan(log, SessionName.of("s-1"), where="s-1")


HEADER_BYTES = log_of().size()


def filler(before_the_boundary_bytes: int) -> bytes:
    """Data that lets the line after it begin so many bytes before the end of the first block.

    Blocks are counted from the first event on.
    """
    frame_bytes = log_of(b'""').size() - HEADER_BYTES
    text_bytes = BLOCK_BYTES - frame_bytes - before_the_boundary_bytes
    return b'"%b"' % (b"x" * text_bytes)


@pytest.mark.parametrize("before_bytes", PLACES)
def test_a_reference_is_found_wherever_its_line_meets_the_end_of_a_block(before_bytes: int) -> None:
    log = log_of(filler(before_bytes), WITH_REFERENCE, b"1")

    events = list(scan_of(log).events())

    assert events[1].offset_bytes == HEADER_BYTES + BLOCK_BYTES - before_bytes
    assert [event.data for event in events][1:] == [{"file": REFERENCE}, 1]
    assert [event.has_references for event in events] == [False, True, False]


@pytest.mark.parametrize("before_bytes", [0, 1, 60, 65, 70, 75, 80, 120, 500])
def test_a_number_that_is_none_is_found_wherever_its_line_meets_the_end_of_a_block(
    before_bytes: int,
) -> None:
    """Its chain holds: another program wrote it. What fits into no other language is damage."""
    scan = scan_of(log_of(filler(before_bytes), b"[1,9223372036854775808]", b"1")).exhaust()

    assert scan.seq == 1
    assert scan.damage is not None
    assert scan.damage.line == 3


MANY_OBJECTS = b"[" + b"{}," * (1 << 20) + b"1]"
"""Built, it takes twenty times its bytes."""


def test_a_long_line_is_not_built_before_its_chain_holds() -> None:
    """So whoever wrote it into the log gets neither the reader's memory nor its time."""
    log = log_of(b"1", MANY_OBJECTS, b"3")
    log.content = log.content.replace(b",1]", b",2]")
    tracemalloc.start()
    try:
        scan = scan_of(log).exhaust()
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert scan.seq == 1
    assert scan.damage is not None
    assert scan.damage.reason.startswith("the chain does not hold")
    assert peak_bytes < 6 * len(MANY_OBJECTS)


def test_a_long_line_with_its_chain_is_an_event_like_any_other() -> None:
    log = log_of(b"1", MANY_OBJECTS, b"3")

    events = list(scan_of(log).events())

    assert [event.seq for event in events] == [1, 2, 3]
    assert len(events[1].data) == (1 << 20) + 1


def test_reading_begins_behind_a_long_line_without_building_it() -> None:
    scan = scan_of(log_of(b"1", MANY_OBJECTS, b"3"))
    tracemalloc.start()
    try:
        assert scan.skip_to(2)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert [event.data for event in scan.events()] == [3]
    assert peak_bytes < 6 * len(MANY_OBJECTS)


@pytest.mark.parametrize("until", [1, 2, 29, 30, 31, 59, 60])
def test_reading_up_to_an_event_leaves_what_is_behind_it_alone(until: int) -> None:
    """A fork takes over a whole prefix of a log, whatever became of the rest."""
    datas = [b'"%b"' % (b"x" * 2_000)] * 60
    whole = log_of(*datas)
    damaged = log_of(*datas)
    lines = damaged.content.split(b"\n")
    lines[until + 1 :] = [line.replace(b"xx", b"xy", 1) for line in lines[until + 1 :]]
    damaged.content = b"\n".join(lines)

    scan = scan_of(damaged)
    read = [event.seq for run in scan.runs(until=until) for event in run]

    assert read == list(range(1, until + 1))
    assert (scan.seq, scan.line, scan.damage, scan.tail) == (until, until + 1, None, None)
    assert scan.good_bytes == len(b"\n".join(lines[: until + 1])) + 1
    assert scan.chain == chain_at(whole, until)
    assert [event.seq for event in scan_of(damaged).events()] == read


def chain_at(log: Bytes, seq: int) -> bytes:
    return bytes.fromhex(next(it.chain for it in scan_of(log).events() if it.seq == seq))
