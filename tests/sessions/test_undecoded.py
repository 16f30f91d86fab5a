"""What is decoded where it is wanted is what a scan would have decoded, whatever the log holds."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from attachstore import Store
from attachstore.errors import AttachstoreError
from attachstore.sessions import record
from attachstore.sessions.event import Event
from attachstore.sessions.reading import Damaged
from attachstore.sessions.scan import Scan
from attachstore.sessions.undecoded import Undecoded
from tests.sessions.test_record import TIME, with_chain
from tests.sessions.test_scan import WITH_REFERENCE, log_of, scan_of

T = TypeVar("T")
OURS = b'{"a":[1,-1.5,"x"],"text":"%b"}'


def body(seq: int, data: bytes) -> bytes:
    return b'{"seq":%d,"time":"%b","type":"m","data":%b' % (seq, TIME.encode(), data)


STRANGE: dict[str, Callable[[int], bytes]] = {
    "ours": lambda seq: body(seq, b"1"),
    "a reference": lambda seq: body(seq, WITH_REFERENCE),
    "an escape": lambda seq: body(seq, b'"\\u0001"'),
    "blanks": lambda seq: body(seq, b'{"a": 1}'),
    "another number format": lambda seq: body(seq, b"1.50"),
    "a key twice": lambda seq: body(seq, b'{"a":1,"a":1}'),
    "an integer beyond 64 bits": lambda seq: body(seq, b"[1,9223372036854775808]"),
    "too deep": lambda seq: body(seq, b"[" * 201 + b"]" * 201),
    "many brackets": lambda seq: body(seq, b"[" + b",".join([b"[]"] * 300) + b"]"),
    "another seq": lambda seq: body(seq + 1, b"1"),
    "a field too many": lambda seq: body(seq, b'1,"more":2'),
    "a blank line within": lambda seq: body(seq, b"1\n"),
    "no record": lambda _: b"nothing of the kind",
}
"""The body of a line whose chain holds: what another program may have written."""
COUNT = 200
PLACES = [1, 2, 100, COUNT]


def lines_with(strange: Callable[[int], bytes], place: int) -> bytes:
    """Events of ours, and a strange one among them; the chain holds all the way."""
    chain, lines = record.CHAIN_START, [log_of().content]
    for seq in range(1, COUNT + 1):
        text = b"%d" % seq * 40
        line = with_chain(strange(seq) if seq == place else body(seq, OURS % text), chain)
        chain = bytes.fromhex(line[-34:-2].decode())
        lines.append(line + b"\n")
    return b"".join(lines)


@pytest.fixture(params=STRANGE.values(), ids=list(STRANGE))
def strange(request: pytest.FixtureRequest) -> Callable[[int], bytes]:
    return request.param


@pytest.mark.parametrize("place", PLACES)
def test_undecoded_lines_are_the_events_or_say_that_they_are_not(
    strange: Callable[[int], bytes], place: int
) -> None:
    log = log_of()
    log.content = lines_with(strange, place)
    expected = list(scan_of(log).events())

    found: list[Event] = []
    for run in scan_of(log).undecoded_runs():
        events = run.events() if isinstance(run, Undecoded) else run
        if events is None:
            assert isinstance(run, Undecoded)
            again = scan_of(log)
            again.resume_at(run.before)
            found.extend(again.events())
            break
        found.extend(events)

    assert found == expected


def test_most_lines_are_left_undecoded() -> None:
    log = log_of()
    log.content = lines_with(STRANGE["a reference"], 100)

    runs = list(scan_of(log).undecoded_runs())

    left = [run for run in runs if isinstance(run, Undecoded)]
    assert sum(len(run.lengths) for run in left) > COUNT / 2
    assert len(left) < len(runs), "a line with a reference is decoded where it may be resolved"


def test_long_lines_are_decoded_where_they_are_read() -> None:
    """Building what is in one takes longer than an event loop may stand still."""
    runs = list(scan_of(log_of(b'"%b"' % (b"x" * (64 << 10)), b"1")).undecoded_runs())

    assert isinstance(runs[0], list)
    assert [type(run) for run in runs[1:]] == [Undecoded]


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    directory = tmp_path / "store"
    return directory / "sessions" / "s-1" / "log.jsonl"


@pytest.fixture
async def store(log_path: Path) -> AsyncIterator[Store]:
    async with Store.open(log_path.parents[2]) as store:
        session = await store.sessions.create("s-1")
        await session.append("m", 1)
        await session.close()
        assert log_path.is_file()
        yield store


async def outcome(events: AsyncIterator[T]) -> tuple[list[T], str | None]:
    """What came, and the code of the error that it ended in."""
    found: list[T] = []
    try:
        async for event in events:
            found.append(event)  # noqa: PERF401 - those before the error are wanted too
    except AttachstoreError as error:
        return found, error.code
    return found, None


async def test_readers_in_a_loop_and_in_a_thread_read_the_same(
    store: Store, log_path: Path, strange: Callable[[int], bytes]
) -> None:
    ways: list[Damaged] = ["raise", "stop", "resync"]
    for place, damaged in itertools.product(PLACES, ways):
        log_path.write_bytes(lines_with(strange, place))

        expected = await outcome(in_a_thread(store, damaged))

        assert await outcome(store.sessions.read("s-1", damaged=damaged)) == expected


async def test_replay_reads_what_a_reader_reads(
    store: Store, log_path: Path, strange: Callable[[int], bytes]
) -> None:
    for place, lenient in itertools.product(PLACES, [False, True]):
        log_path.write_bytes(lines_with(strange, place))
        expected, code = await outcome(in_a_thread(store, "resync" if lenient else "raise"))
        if strange is STRANGE["a reference"] and not lenient:  # to an object that is not there
            expected, code = expected[:place], "object-missing"

        steps, found_code = await outcome(store.replay("s-1", lenient=lenient))

        assert ([step.event for step in steps], found_code) == (expected, code)


async def in_a_thread(store: Store, damaged: Damaged) -> AsyncIterator[Event]:
    for event in store.logs.events("s-1", damaged=damaged):
        yield event


def test_a_scan_that_resumes_proves_what_follows() -> None:
    """From the chain where the other has come to, not from what stands in the log there."""
    log = log_of(*(b'"%b"' % (b"x" * 900) for _ in range(60)))
    runs = list(scan_of(log).undecoded_runs())
    second = runs[1]
    assert isinstance(second, Undecoded)
    scan = scan_of(log)

    scan.resume_at(second.before)
    events = list(scan.events())

    assert events[0].seq == second.before.seq + 1
    assert events == list(scan_of(log).events())[second.before.seq :]
    assert scan.position == position_at_the_end(log.content)


def position_at_the_end(content: bytes) -> object:
    log = log_of()
    log.content = content
    scan: Scan = scan_of(log).exhaust()
    return scan.position
