"""The lines of a session log: a header, then one record per event, chained.

    {"attachstore":"session","v":1,"id":…,"created_at":…,"cwd":…,"parent":…,"meta":{…},"check":"…"}
    {"seq":1,"time":"…","type":"…","data":…[,"batch":k],"chain":"<32 hex>"}

Every line ends in 44 bytes of fixed form: its check or chain, 128 bits of BLAKE3. The check is
over the header's bytes before it; chain(n) is over the 16 bytes of chain(n-1) and the line's
bytes before its own chain. chain(0) is 16 zero bytes. The header is not in the chain, so a
fork's lines are its parent's, byte for byte.

Written lines are compact. A line that is not (another program wrote it) is still a record if it
is strict JSON and its chain holds: reading never depends on how an encoder formats a number.
"""

from __future__ import annotations

import dataclasses
import re
from binascii import hexlify
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, cast

import msgspec

from attachstore.digest import chained, chained_all, checksum
from attachstore.errors import InvalidEventError
from attachstore.reference import Reference
from attachstore.sessions import data as event_data
from attachstore.sessions.data import BadDataError
from attachstore.sessions.event import Event, Parent, SessionHeader

FORMAT = 1
CHAIN_START = bytes(16)
LINE_BYTES_MAX = 256 << 20
"""No record is longer, whatever a writer's `event_bytes_max`: a reader's memory is bounded."""
LONG_LINE_BYTES = 1 << 20
"""The data of a longer line is built only once its chain holds, and if somebody wants it: a line
of `{},{},…` takes twenty times its bytes in memory, and seconds."""

_SUFFIX_BYTES = len(',"chain":"') + 32 + len('"}')
_KEY = slice(-_SUFFIX_BYTES, -_SUFFIX_BYTES + len(',"chain":"'))
_HEX = slice(-34, -2)
_CHAIN_KEY = b',"chain":"'
_CHECK_KEY = b',"check":"'
_CHAIN = re.compile(r"[0-9a-f]{32}")
_CHAIN_BYTES = re.compile(rb"[0-9a-f]{32}")

_encoder = msgspec.json.Encoder()


class Record(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    """One event line. The order of the fields is the order in which they are written."""

    seq: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
    time: str
    type: str
    data: Any
    batch: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)] | msgspec.UnsetType = msgspec.UNSET
    chain: Annotated[str, msgspec.Meta(min_length=32, max_length=32)]


class Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What an event line says beside its data, which stays as it is written.

    Its fields have the names and the values of an Event's.
    """

    seq: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
    time: str
    type: str
    data: msgspec.Raw
    batch: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)] | None = None
    chain: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]


class _Header(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    attachstore: str
    v: int
    id: str
    created_at: str
    cwd: str | None
    parent: Parent | None
    meta: dict[str, Any]
    check: str


_record_decoder = msgspec.json.Decoder(Record)
_envelope_decoder = msgspec.json.Decoder(Envelope)
_header_decoder = msgspec.json.Decoder(_Header)


class UnknownFormatError(Exception):
    """A header whose check holds, of a format that this version does not know."""

    def __init__(self, found: str) -> None:
        super().__init__(found)
        self.found = found


# -- writing -----------------------------------------------------------------------------------


def timestamp(moment: datetime) -> str:
    """UTC, RFC 3339, always with microseconds."""
    utc = moment.astimezone(UTC)
    if utc.microsecond:
        return _encoder.encode(utc)[1:-1].decode()  # which leaves out a fraction of zero
    return utc.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def encode_header(header: SessionHeader) -> bytes:
    """The header's line with its line feed."""
    fields = {
        "attachstore": "session",
        "v": FORMAT,
        "id": header.id,
        "created_at": header.created_at,
        "cwd": header.cwd,
        "parent": None if header.parent is None else dataclasses.asdict(header.parent),
        "meta": header.meta,
    }
    body = _encoder.encode(fields)[:-1]
    return b'%b,"check":"%b"}\n' % (body, checksum(body).hex().encode())


def check_meta(meta: Mapping[str, Any], *, where: str) -> dict[str, Any]:
    """A copy of `meta` as a header will hold it: plain JSON, without references.

    Raises InvalidEventError, EventTooLargeError.
    """
    encoded, references = event_data.encode(dict(meta), where=where, bytes_max=LINE_BYTES_MAX >> 1)
    if references:
        raise InvalidEventError(
            where=where, reason="a reference belongs into an event, not into meta", pointer="meta"
        )
    return event_data.from_wire(msgspec.json.decode(encoded))


def encode_record(
    *, seq: int, time: str, type_json: bytes, data_json: bytes, batch: int | None, chain: bytes
) -> tuple[bytes, bytes]:
    """The event's line with its line feed, and its chain; `chain` is that of the line before."""
    between = b"" if batch is None else b',"batch":%d' % batch
    body = b'{"seq":%d,"time":"%b","type":%b,"data":%b%b' % (
        seq,
        time.encode(),
        type_json,
        data_json,
        between,
    )
    own = chained(chain, body)
    return b'%b,"chain":"%b"}\n' % (body, hexlify(own)), own


# -- reading -----------------------------------------------------------------------------------


def decode_record(line: bytes, *, number: int, offset_bytes: int, verified: bool) -> Event:
    """The event on a line (without line feed); its chain is not checked. Raises BadDataError."""
    _check_ending(line)
    try:
        record = _record_decoder.decode(line)
    except (ValueError, RecursionError) as error:
        raise BadDataError(_reason(error)) from None
    if _encoder.encode(record) != line or _has_long_number(line):
        record = _decode_slowly(line)
    if _may_be_deep(line):
        event_data.check_depth(record.data)
    if not verified and not _CHAIN.fullmatch(record.chain):
        raise BadDataError("the chain is not 32 hex digits")
    plain = not has_key(line)
    return event_of(record, number, offset_bytes, verified=verified, plain=plain)


def decode_envelope(line: bytes) -> Event | Envelope:
    """What stands around the data of a line (without line feed). Raises BadDataError.

    A line of up to LONG_LINE_BYTES is decoded as a whole, and checked so; longer data is skipped.
    """
    if len(line) <= LONG_LINE_BYTES:
        return decode_record(line, number=0, offset_bytes=0, verified=False)
    _check_ending(line)
    try:
        return _envelope_decoder.decode(line)
    except (ValueError, RecursionError) as error:
        raise BadDataError(_reason(error)) from None


def _check_ending(line: bytes) -> None:
    if line[_KEY] != _CHAIN_KEY or line[-2:] != b'"}':
        raise BadDataError(_unlike(line))


def chain_of_lines(lines: bytes, chain: bytes) -> tuple[list[int], bytes] | None:
    """The lengths of the lines without line feed, and the chain of the last.

    None if one does not follow from the line before.
    """
    split = lines.split(b"\n")
    split.pop()
    chains = chained_all(chain, [line[:-_SUFFIX_BYTES] for line in split])
    said = b"".join([line[_HEX] for line in split])
    if said != hexlify(b"".join(chains)):
        return None
    return [len(line) for line in split], chains[-1]


def check_lines(lines: bytes, count: int, seq: int) -> list[Record] | None:
    """The records on so many lines, if they are `seq` and those after it, and as we write them.

    None for all that needs a closer look, which `decode_record` takes. Encoding them anew shows
    that they are compact and have no key twice: msgspec does that in less time than Python needs
    to look at one key, and for many lines in less than for each.
    """
    try:
        records = _record_decoder.decode_lines(lines)
        if (
            _has_long_number(lines)
            or _encoder.encode_lines(records) != lines
            or [record.seq for record in records] != list(range(seq, seq + count))
            or (_may_be_deep(lines) and any(map(_may_be_deep, lines.split(b"\n"))))
        ):
            return None
    except (ValueError, RecursionError):
        return None
    return records


def _may_be_deep(lines: bytes) -> bool:
    """Whether so many brackets open. They are removed, as a count looks at every single byte."""
    opened = 2 * len(lines) - len(lines.replace(b"[", b"")) - len(lines.replace(b"{", b""))
    return opened > event_data.DEPTH_MAX


def has_key(lines: bytes) -> bool:
    """Whether a key of ours may be there: spelled out, or hidden behind an escape."""
    return (b"$" in lines and b"$attach" in lines) or (b"\\" in lines and b"\\u" in lines)


def event_of(
    record: Record, number: int, offset_bytes: int, *, verified: bool, plain: bool
) -> Event:
    """The record's event. If it is `plain` there is no key of ours in it. Raises BadDataError."""
    content = record.data
    references: list[Reference] = []
    if not plain:
        content = event_data.from_wire(content, references)
    return Event(
        seq=record.seq,
        time=record.time,
        type=record.type,
        data=content,
        chain=record.chain,
        batch=None if record.batch is msgspec.UNSET else record.batch,
        has_references=bool(references),
        verified=verified,
        line=number,
        offset_bytes=offset_bytes,
    )


def chain_of(line: bytes, chain_before: bytes) -> bytes | None:
    """The line's chain, if it follows from its bytes and the line before; else None."""
    computed = chained(chain_before, line[:-_SUFFIX_BYTES])
    return computed if line[_HEX] == hexlify(computed) else None


def chain_after(line: bytes) -> bytes | None:
    """The chain that the line after this one follows from; None if this is no line of ours."""
    if line[_KEY] == _CHECK_KEY:
        return CHAIN_START
    if line[_KEY] != _CHAIN_KEY or not _CHAIN_BYTES.fullmatch(line[_HEX]):
        return None
    return bytes.fromhex(line[_HEX].decode())


def decode_header(line: bytes) -> SessionHeader:
    """The header on a log's first line. Raises BadDataError, UnknownFormatError."""
    if line[_KEY] != _CHECK_KEY or line[-2:] != b'"}':
        raise BadDataError("the header is not whole: " + _unlike(line))
    if checksum(memoryview(line)[:-_SUFFIX_BYTES]).hex().encode() != line[_HEX]:
        raise BadDataError("the header's check does not match its bytes")
    header = _decode_own_header(line) or _decode_any_header(line)
    return SessionHeader(
        id=header.id,
        created_at=header.created_at,
        cwd=header.cwd,
        parent=header.parent,
        meta=header.meta,
    )


def _decode_own_header(line: bytes) -> _Header | None:
    """The header, if it is as we write it: a listing decodes thousands."""
    try:
        header = _header_decoder.decode(line)
    except (ValueError, RecursionError):
        return None
    is_ours = header.attachstore == "session" and header.v == FORMAT
    if not is_ours or _encoder.encode(header) != line or _has_long_number(line):
        return None
    return None if _may_be_deep(line) else header


def _decode_any_header(line: bytes) -> _Header:
    value = event_data.strict_json(line)
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if fields.get("attachstore") != "session":
        raise BadDataError("the first line is not a session's header")
    if fields.get("v") != FORMAT:
        raise UnknownFormatError(str(fields.get("v"))[:40])
    try:
        return msgspec.convert(fields, _Header)
    except (ValueError, RecursionError) as error:
        raise BadDataError(_reason(error)) from None


_KINDS = bytes.maketrans(b"123456789:,-", b"000000000[[[")  # a digit, what stands before a number
_LONG_NUMBER = b"[" + b"0" * 19


def _has_long_number(lines: bytes) -> bool:
    """Whether there could be an integer beyond 64 bits with sign, which the fast decoder takes.

    In compact lines: one with blanks in it does not encode to the same bytes.
    """
    return _LONG_NUMBER in lines.translate(_KINDS)


def _decode_slowly(line: bytes) -> Record:
    value = event_data.strict_json(line, depth_max=event_data.DEPTH_MAX + 1)
    try:
        return msgspec.convert(value, Record)
    except (ValueError, RecursionError) as error:
        raise BadDataError(_reason(error)) from None


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return f"it is nested deeper than {event_data.DEPTH_MAX}"
    return f"it is not a record: {error}"


def _unlike(line: bytes) -> str:
    """What a line looks like that does not end as a line of ours does."""
    if not line.strip():
        return "the line is blank"
    if b"\0" in line:
        return "the line holds NUL bytes"
    if line.endswith(b"\r"):
        return "the line ends in CR LF: a program changed the line ends"
    return "the line does not end as a record does"
