"""What a listing says of one session, from its header and its last line alone."""

from __future__ import annotations

from collections.abc import Iterator

from attachstore.errors import AttachstoreError, LogDamagedError, SessionMissingError
from attachstore.sessions import record
from attachstore.sessions.data import BadDataError
from attachstore.sessions.event import SessionHeader, SessionSummary
from attachstore.sessions.glance import Glance
from attachstore.sessions.medium import GlancingMedium, LogReader, SessionMedium
from attachstore.sessions.names import SessionName
from attachstore.sessions.record import LINE_BYTES_MAX, decode_envelope
from attachstore.sessions.scan import Scan

_START = record.CHAIN_START.hex()
_WINDOW_BYTES = 4 << 10
_WINDOW_GROWTH = 16


def summaries(medium: SessionMedium) -> Iterator[SessionSummary]:
    """A listing, in order of segments."""
    if not isinstance(medium, GlancingMedium):
        yield from filter(None, (summarize(medium, name) for name in medium.names()))
        return
    for name, glance in medium.glances():
        summary = None if glance is None else _of_glance(name, glance)
        if summary is None:
            summary = summarize(medium, name)
        if summary is not None:
            yield summary


def summarize(medium: SessionMedium, name: SessionName) -> SessionSummary | None:
    """The session's line in a listing, with its problem if it has one; None if it is gone.

    Costs two small reads. Only a last line that is no record makes it read the whole log.
    """
    try:
        with medium.open(name) as log:
            size_bytes = log.size()
            try:
                scan = Scan(log, name, where=medium.where(name))
                return _of_log(log, scan, size_bytes)
            except AttachstoreError as problem:
                return _without_header(name, size_bytes, problem)
    except SessionMissingError:
        return None  # deleted since it was listed
    except AttachstoreError as problem:
        return _without_header(name, 0, problem)


def _of_glance(name: SessionName, glance: Glance) -> SessionSummary | None:
    """None if there is a problem that only a closer look can name."""
    try:
        header = record.decode_header(glance.header_line)
        if not name.belongs_to(header.id):
            return None
        if glance.last_line is None:
            return _summary(header, 0, _START, None, glance.size_bytes)
        event = decode_envelope(glance.last_line)
    except (BadDataError, record.UnknownFormatError):
        return None
    return _summary(header, event.seq, event.chain, event.time, glance.size_bytes)


def _of_log(log: LogReader, scan: Scan, size_bytes: int) -> SessionSummary:
    last = _last_line(log, scan.events_start_bytes, size_bytes)
    if last is None:
        return _summary(scan.header, 0, _START, None, size_bytes)
    try:
        event = decode_envelope(last)
    except BadDataError:
        problem: LogDamagedError | None = None
        try:
            scan.exhaust().raise_damage()
        except LogDamagedError as error:
            problem = error
        return _summary(
            scan.header, scan.seq, scan.chain.hex(), scan.last_time, size_bytes, problem
        )
    return _summary(scan.header, event.seq, event.chain, event.time, size_bytes)


def _last_line(log: LogReader, start_bytes: int, size_bytes: int) -> bytes | None:
    """The last whole line after the header, None if there is none.

    A line that does not fit into any window comes back cut: it is no record then.
    """
    window_bytes = _WINDOW_BYTES
    while True:
        begin = max(start_bytes, size_bytes - window_bytes)
        content = log.read(begin, size_bytes - begin)
        end = content.rfind(b"\n")
        before = content.rfind(b"\n", 0, end) if end >= 0 else -1
        if before >= 0 or begin == start_bytes or window_bytes > LINE_BYTES_MAX:
            return content[before + 1 : end] if end >= 0 else None
        window_bytes *= _WINDOW_GROWTH


def _summary(
    header: SessionHeader,
    head_seq: int,
    head_chain: str,
    last_time: str | None,
    size_bytes: int,
    problem: AttachstoreError | None = None,
) -> SessionSummary:
    return SessionSummary(
        id=header.id,
        title=header.title,
        meta=header.meta,
        head_seq=head_seq,
        head_chain=head_chain,
        size_bytes=size_bytes,
        last_time=last_time,
        parent=header.parent,
        problem=problem,
    )


def _without_header(
    name: SessionName, size_bytes: int, problem: AttachstoreError
) -> SessionSummary:
    return SessionSummary(
        id=name.id,
        title=None,
        meta={},
        head_seq=0,
        head_chain=_START,
        size_bytes=size_bytes,
        last_time=None,
        parent=None,
        problem=problem,
    )
