"""The lines of a log: fixed bytes out, strict reading in."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, TypeVar

import msgspec
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from attachstore.errors import InvalidEventError
from attachstore.reference import Reference
from attachstore.sessions import chained_lines, record
from attachstore.sessions.chained_lines import ChainedLines
from attachstore.sessions.data import BadDataError, references_in
from attachstore.sessions.event import Event, Parent, SessionHeader
from tests.sessions.test_data import REFERENCE

R = TypeVar("R")
TIME = "2026-01-02T03:04:05.000006Z"


def line_of(data: bytes, *, seq: int = 1, kind: bytes = b'"message"') -> bytes:
    line, _ = record.encode_record(
        seq=seq, time=TIME, type_json=kind, data_json=data, batch=None, chain=record.CHAIN_START
    )
    return line[:-1]


def read(line: bytes) -> Event:
    return record.decode_record(line, number=2, offset_bytes=100, verified=True)


def with_chain(body: bytes, before: bytes = record.CHAIN_START) -> bytes:
    """A line that another program wrote, with a chain that holds."""
    chain = blake3(before + body).hexdigest(16)
    return body + b',"chain":"' + chain.encode() + b'"}'


def test_a_record_is_these_bytes() -> None:
    line, chain = record.encode_record(
        seq=7,
        time=TIME,
        type_json=b'"turn/start"',
        data_json=b'{"a":1}',
        batch=6,
        chain=b"0123456789abcdef",
    )

    body = (
        b'{"seq":7,"time":"2026-01-02T03:04:05.000006Z","type":"turn/start","data":{"a":1}'
        b',"batch":6'
    )
    expected = blake3(b"0123456789abcdef" + body).digest(16)
    assert chain == expected
    assert line == body + b',"chain":"' + expected.hex().encode() + b'"}\n'


def test_a_header_is_these_bytes() -> None:
    header = SessionHeader(
        id="s-1",
        created_at=TIME,
        cwd="/home/a",
        parent=Parent(id="s-0", seq=2, chain="0" * 32),
        meta={"title": "T"},
    )

    body = (
        b'{"attachstore":"session","v":1,"id":"s-1","created_at":"2026-01-02T03:04:05.000006Z",'
        b'"cwd":"/home/a","parent":{"id":"s-0","seq":2,"chain":"00000000000000000000000000000000"},'
        b'"meta":{"title":"T"}'
    )
    check = blake3(body).hexdigest(16).encode()
    line = record.encode_header(header)
    assert line == body + b',"check":"' + check + b'"}\n'
    assert record.decode_header(line[:-1]) == header


def test_a_record_is_read_back_with_its_place() -> None:
    event = read(
        line_of(
            b'{"file":{"$attach":{"digest":"%s","size":1,"media_type":"a/b"}}}'
            % str(REFERENCE.digest).encode()
        )
    )

    assert event.data == {"file": Reference(digest=REFERENCE.digest, size=1, media_type="a/b")}
    assert (event.seq, event.time, event.type, event.batch) == (1, TIME, "message", None)
    assert (event.line, event.offset_bytes, event.verified) == (2, 100, True)


NEXT_LINES: dict[str, bytes] = {
    "ours": line_of(b'{"a":[1,-1.5,"x"]}'),
    "with a reference": line_of(b'{"a":[%s]}' % msgspec.json.encode(REFERENCE.to_json())),
    "with a look-alike": line_of(b'{"$$attach":1}'),
    "with a word that looks alike": line_of(b'"the key $attach"'),
    "with an escape": line_of(b'"\\u0001"'),
    "with digits": line_of(b'"1234567890123456789012345"'),
    "with many brackets": line_of(b"[" + b",".join([b"[]"] * 300) + b"]"),
    "deep": line_of(b"[" * 200 + b"]" * 200),
    "too deep": line_of(b"[" * 201 + b"]" * 201),
    "a large integer": line_of(b"9223372036854775807"),
    "a large integer in a list": line_of(b"[1,9223372036854775808]"),
    "a small integer": line_of(b'{"a":-9223372036854775809}'),
    "a larger integer": line_of(b"9223372036854775808"),
    "a key twice": line_of(b'{"a":1,"a":1}'),
    "blanks": line_of(b'{"a": 1}'),
    "another number format": line_of(b"1.50"),
    "a look-alike that is none": line_of(b'{"$attach":1}'),
    "another number": line_of(b"1", seq=2),
    "no JSON": line_of(b"nan"),
    "a foreign field": with_chain(
        b'{"seq":1,"time":"%s","type":"m","data":1,"more":2' % TIME.encode()
    ),
    "a broken chain": line_of(b'{"a":1}').replace(b'"a":1', b'"a":2'),
    "cut": line_of(b"1")[:-1],
    "blank": b"",
}


def at_once(lines: bytes) -> tuple[list[Event], bytes] | None:
    """What is made of the lines at once; they stand behind the header."""
    made: list[tuple[list[Event], bytes] | None] = []
    for events_of in (ChainedLines.events, ChainedLines.referring):
        found = chained_lines.check(lines, 1, record.CHAIN_START)
        events = found and events_of(found[0], 2, 100)
        made.append(None if found is None or events is None else (events, found[1]))
    every, referring = made
    assert (every is None) == (referring is None)
    if every is not None and referring is not None:
        assert [event for event in every[0] if event.has_references] == [
            event for event in referring[0] if event.has_references
        ]
    return every


def ahead(*lines: bytes) -> tuple[list[Event], bytes] | None:
    """What is decoded of the lines at once; they stand behind the line of event 1."""
    run = b"".join(line + b"\n" for line in (NEXT_LINES["ours"], *lines))
    return at_once(run)


def second(line: bytes) -> bytes:
    """The same line as event 2, if its chain holds as event 1."""
    if record.chain_of(line, record.CHAIN_START) is None:
        return line
    head, seq, rest = line[:7], line[7:8], line[8:-44]
    before = bytes.fromhex(NEXT_LINES["ours"][-34:-2].decode())
    return with_chain(head + b"%d" % (int(seq) + 1) + rest, before)


@pytest.mark.parametrize("line", NEXT_LINES.values(), ids=NEXT_LINES)
def test_the_short_way_to_an_event_leads_where_the_long_way_does(line: bytes) -> None:
    """Or it gives up: then the long way is gone, which knows what is wrong."""
    found = at_once(line + b"\n")

    if found is not None:
        (event,), chain = found
        assert event == read(line)
        assert chain == record.chain_of(line, record.CHAIN_START)
        assert event.has_references == (REFERENCE in [it for _, it in references_in(event.data)])


@pytest.mark.parametrize("line", NEXT_LINES.values(), ids=NEXT_LINES)
def test_what_needs_a_closer_look_is_seen_among_others(line: bytes) -> None:
    """Alone or behind a line of ours: the short way is the same."""
    alone = at_once(line + b"\n")

    found = ahead(second(line))

    assert (found is None) == (alone is None)
    if found is not None and alone is not None:
        (first, event), chain = found
        ((same,), _) = alone
        assert first == read(NEXT_LINES["ours"])
        assert (event.data, event.has_references) == (same.data, same.has_references)
        assert (event.seq, event.line) == (2, 3)
        assert event.offset_bytes == 100 + len(NEXT_LINES["ours"]) + 1
        assert event.chain == chain.hex()


def test_the_short_way_is_the_usual_one() -> None:
    ways = {name: at_once(line + b"\n") for name, line in NEXT_LINES.items()}

    assert [name for name, found in ways.items() if found is not None] == [
        "ours",
        "with a reference",
        "with a look-alike",
        "with a word that looks alike",
        "with an escape",
        "with digits",
    ]


def refusal_or(decode: Callable[[], R]) -> R | str:
    try:
        return decode()
    except BadDataError as error:
        return str(error)


@pytest.mark.parametrize("line", NEXT_LINES.values(), ids=NEXT_LINES)
def test_an_envelope_says_what_the_event_says(line: bytes) -> None:
    """And is refused where that is, for the same reason."""
    event = refusal_or(lambda: record.decode_record(line, number=2, offset_bytes=0, verified=False))
    envelope = refusal_or(lambda: record.decode_envelope(line))

    if isinstance(event, str) or isinstance(envelope, str):
        assert envelope == event
    else:
        assert (envelope.seq, envelope.time) == (event.seq, event.time)
        assert (envelope.type, envelope.chain) == (event.type, event.chain)


LONG = line_of(b'"%b"' % (b"x" * record.LONG_LINE_BYTES))


@pytest.mark.parametrize(
    "line",
    [
        LONG[:-1],
        LONG[1:],
        LONG.replace(b'"seq":1', b'"seq":0'),
        LONG.replace(b'"time"', b'"tome"'),
        LONG.replace(b"xx", b'x"', 1),
        LONG[:-34] + b"G" * 32 + LONG[-2:],
        line_of(b"[" * record.LONG_LINE_BYTES),
        line_of(b'{"a":' * record.LONG_LINE_BYTES),
    ],
    ids=["cut", "begins late", "seq 0", "no time", "text ends", "no chain", "deep", "deep objects"],
)
def test_the_envelope_of_a_long_line_is_checked(line: bytes) -> None:
    with pytest.raises(BadDataError):
        record.decode_envelope(line)


def test_the_data_of_a_long_line_is_not_judged_by_its_envelope() -> None:
    """Only building it shows an integer beyond 64 bits."""
    line = line_of(b"[%b1%b]" % (b"1," * record.LONG_LINE_BYTES, b"0" * 30))

    assert record.decode_envelope(line).seq == 1
    with pytest.raises(BadDataError):
        record.decode_record(line, number=2, offset_bytes=0, verified=False)


def test_times_are_utc_with_microseconds() -> None:
    moment = datetime(2026, 1, 2, 5, 4, 5, 6, tzinfo=timezone(timedelta(hours=2)))

    assert record.timestamp(moment) == TIME
    assert record.timestamp(datetime(2026, 1, 2, tzinfo=UTC)) == "2026-01-02T00:00:00.000000Z"


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"1E5", 100_000.0),
        (b' { "a" : [ 1 , 2 ] } ', {"a": [1, 2]}),
        (b'"\\u00e9\\/"', "\u00e9/"),
        (
            b'{"\\u0024attach":{"digest":"blake3:%s","size":1,"media_type":"a/b"}}' % (b"0" * 64),
            ...,
        ),
        (b"[-0]", [0]),
        (b'"12345678901234567890"', "12345678901234567890"),
    ],
)
def test_a_record_that_is_not_compact_is_still_one(data: bytes, value: Any) -> None:
    """The chain proves the bytes; how another encoder writes numbers is no damage."""
    line = with_chain(b'{"seq":1,"time":"%s","type":"m","data":%s' % (TIME.encode(), data))

    event = read(line)

    assert record.chain_of(line, record.CHAIN_START) is not None
    if value is ...:
        assert isinstance(event.data, Reference)
    else:
        assert event.data == value


@pytest.mark.parametrize(
    "data",
    [
        b"NaN",
        b"1e999",
        b"9" * 5000,
        b"9223372036854775808",
        b'{"a":1,"a":1}',
        b'"\xff"',
        b'"\\ud800"',
        b'"\x00"',
        b"[" * 201 + b"]" * 201,
        b'[{"":[' * 5000,
        b'{"$attach":1}',
        b"",
    ],
    ids=range(12),
)
def test_a_record_with_bad_data_is_none_even_if_its_chain_holds(data: bytes) -> None:
    with pytest.raises(BadDataError):
        read(line_of(data))


def test_a_record_may_be_200_deep() -> None:
    deep = b"[" * 200 + b"]" * 200
    assert read(line_of(deep)).data
    assert read(line_of(b" " + deep)).data


@pytest.mark.parametrize(
    "body",
    [
        b'{"seq":"1","time":"t","type":"m","data":1',
        b'{"seq":1.0,"time":"t","type":"m","data":1',
        b'{"seq":0,"time":"t","type":"m","data":1',
        b'{"seq":true,"time":"t","type":"m","data":1',
        b'{"seq":1,"time":1,"type":"m","data":1',
        b'{"seq":1,"time":"t","data":1',
        b'{"seq":1,"time":"t","type":"m"',
        b'{"seq":1,"time":"t","type":"m","data":1,"more":2',
        b'{"seq":1,"seq":1,"time":"t","type":"m","data":1',
        b'{"seq":1,"time":"t","type":"m","data":1,"batch":0',
        b'{"seq":1,"time":"t","type":"m","data":1,"batch":null',
        b"[1",
    ],
)
def test_a_line_with_other_fields_is_no_record(body: bytes) -> None:
    with pytest.raises(BadDataError):
        read(with_chain(body))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "blank"),
        (b"   ", "blank"),
        (line_of(b"1") + b"\r", "CR LF"),
        (b"\0" * 99, "NUL"),
        (b"hello", "does not end"),
        (line_of(b"1") + b" ", "does not end"),
        (line_of(b"1") + line_of(b"2", seq=2), "malformed"),
    ],
)
def test_the_reason_names_what_happened_to_a_line(line: bytes, reason: str) -> None:
    with pytest.raises(BadDataError, match=reason):
        read(line)


@given(st.integers(0, 150), st.integers(0, 255))
def test_no_damage_raises_anything_else(position: int, byte: int) -> None:
    line = bytearray(line_of(b'{"text":"\xc3\xa9","n":[1.5,{"$attach":1}]}'))
    line[position % len(line)] = byte

    with contextlib.suppress(BadDataError):
        record.decode_record(bytes(line), number=1, offset_bytes=0, verified=False)


@pytest.mark.parametrize("meta", [{"a": REFERENCE}, {"a": float("nan")}, {1: 2}])
def test_meta_is_plain_json(meta: Any) -> None:
    with pytest.raises(InvalidEventError):
        record.check_meta(meta, where="s-1")


def test_a_look_alike_in_meta_is_kept() -> None:
    meta: dict[str, Any] = {"a": {"$attach": 1}}
    header = SessionHeader(id="s-1", created_at=TIME, meta=record.check_meta(meta, where="s-1"))

    assert record.decode_header(record.encode_header(header)[:-1]).meta == meta


@pytest.mark.parametrize("change", [(b'"v":1', b'"v":2'), (b'"session"', b'"sessions"')])
def test_a_newer_or_foreign_header_is_not_guessed(change: tuple[bytes, bytes]) -> None:
    body = record.encode_header(SessionHeader(id="s-1", created_at=TIME))[:-45].replace(*change)
    line = body + b',"check":"' + blake3(body).hexdigest(16).encode() + b'"}'

    with pytest.raises((record.UnknownFormatError, BadDataError)):
        record.decode_header(line)
