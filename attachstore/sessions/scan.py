"""Scan: one pass over a log from its first line, checking every record against the chain.

Invariants

 (1) What `events` yields is the contiguous prefix that the chain proves, nothing else.
 (2) `tail` and `damage` are None until `events` is exhausted; then at most one of them is set.
 (3) Damage is reported only if a second reading, from the end of the last good line, finds it
     too: a writer may just have cut a tail and written over it.
 (4) Nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import TypeVar

from attachstore.errors import LogDamagedError, StoreVersionError
from attachstore.sessions import chained_lines, record
from attachstore.sessions.chained_lines import ChainedLines
from attachstore.sessions.data import BadDataError
from attachstore.sessions.event import (
    INTERRUPTED,
    TURN_END,
    TURN_PREFIX,
    TURN_START,
    Damage,
    Event,
    SessionHeader,
    SessionView,
    Tail,
)
from attachstore.sessions.lines import split_lines, split_runs
from attachstore.sessions.medium import LogReader
from attachstore.sessions.names import SessionName
from attachstore.sessions.suffix import find_event
from attachstore.sessions.tail import tail_reason
from attachstore.sessions.undecoded import BEGINNING, Position, Undecoded
from attachstore.threads import CancelFlag

R = TypeVar("R")

_BROKEN_CHAIN = "the chain does not hold: this line or the one before is not as written"
_HEADER_BLOCK_BYTES = 16 << 10  # a listing reads headers only; most are far smaller
_UNDECODED_BYTES_MAX = 64 << 10
"""More lines are decoded here: whoever else would do it may have an event loop to go on with."""


class Scan:
    """Reads `log` up to `end_bytes`; without it, up to its length at the start.

    With `acknowledged` everything up to `end_bytes` is known to have been acknowledged: there is
    no tail then, and a log that ends earlier is damaged.

    Making one reads the header. Raises LogDamagedError if that is not whole or is another
    session's, StoreVersionError if it is of a newer format.
    """

    def __init__(
        self,
        log: LogReader,
        name: SessionName,
        *,
        where: str,
        end_bytes: int | None = None,
        acknowledged: bool = False,
        cancel: CancelFlag | None = None,
    ) -> None:
        self._log = log
        self._where = where
        self._cancel = cancel
        self._may_grow = end_bytes is None
        self._acknowledged = acknowledged
        self._end_bytes = log.size() if end_bytes is None else end_bytes
        self.name = name
        self.header, self.good_bytes = self._read_header()
        self.events_start_bytes = self.good_bytes
        self.line: int = 1
        self.seq: int = 0
        self.chain = record.CHAIN_START
        self.last_time: str | None = None
        self.turn_is_open = False
        self.tail: Tail | None = None
        self.damage: Damage | None = None

    def events(self) -> Iterator[Event]:
        """Yield the verified prefix; then `tail` and `damage` say how it ended."""
        for run in self.runs():
            yield from run

    def runs(self, until: int | None = None) -> Iterator[list[Event]]:
        """As `events`, but some at a time; what the attributes say holds after the last of them.

        With `until` it ends with that later event, and nothing behind it is looked at.
        """
        return self._runs(partial(self._checked, ChainedLines.events), until)

    def referring_runs(self, until: int | None = None) -> Iterator[list[Event]]:
        """As `runs`, and checks as much; but most events that refer to nothing are left out."""
        return self._runs(partial(self._checked, ChainedLines.referring), until)

    def undecoded_runs(self) -> Iterator[list[Event] | Undecoded]:
        """As `runs`, but what can wait is not decoded: short lines without a key of ours.

        Their chain holds, so they are as they were written; that they are events is not known
        yet. The attributes say nothing of turns and times then.
        """
        return self._runs(self._undecoded)

    def _runs(
        self, take: Callable[[bytes, int, int | None], R | None], until: int | None = None
    ) -> Generator[list[Event] | R]:
        reread_at = -1
        while True:
            flaw = yield from self._good_runs(take, until)
            if flaw is None and self.seq == until:
                return
            if flaw is None and self._acknowledged and self.good_bytes < self._end_bytes:
                flaw = f"the log ends here; it was acknowledged up to byte {self._end_bytes}"
            if flaw is None:
                return
            reason = None if self._acknowledged else self._tail_reason()
            if reason is not None:
                size_bytes = self._end_bytes - self.good_bytes
                self.tail = Tail(offset_bytes=self.good_bytes, size_bytes=size_bytes, reason=reason)
                return
            if reread_at == self.good_bytes:
                self.damage = Damage(line=self.line + 1, offset_bytes=self.good_bytes, reason=flaw)
                return
            reread_at = self.good_bytes
            if self._may_grow:
                self._end_bytes = self._log.size()

    def skip_to(self, seq: int) -> bool:
        """Let `events` begin after event `seq`, without reading what lies before it.

        Everything is proven from that event's own chain on. False, and nothing is skipped, if
        there is no such event to be found. `closer` and `view` say nothing of a skipped part.
        """
        found = find_event(
            self._log,
            seq,
            start_bytes=self.good_bytes,
            end_bytes=self._end_bytes,
            cancel=self._cancel,
        )
        if found is None:
            return False
        offset_bytes, line = found
        try:
            event = record.decode_envelope(line)
        except BadDataError:
            return False
        self.last_time = event.time
        end_bytes = offset_bytes + len(line) + 1
        self.resume_at(Position(seq, bytes.fromhex(event.chain), seq + 1, end_bytes))
        return True

    @property
    def position(self) -> Position:
        """Behind the last good line."""
        return Position(self.seq, self.chain, self.line, self.good_bytes)

    def resume_at(self, position: Position) -> None:
        """Let `events` begin there, where another scan of the same log has come to."""
        self.seq, self.chain = position.seq, position.chain
        self.line, self.good_bytes = position.line, position.offset_bytes

    def exhaust(self) -> Scan:
        """Read to the end for what the attributes say."""
        for _ in self.referring_runs():
            pass
        return self

    def view(self) -> SessionView:
        """What an exhausted scan found."""
        closer = self.closer()
        return SessionView(
            header=self.header,
            head_seq=self.seq,
            head_chain=self.chain.hex(),
            size_bytes=self._end_bytes,
            last_time=self.last_time,
            closers=() if closer is None else (closer[1],),
            tail=self.tail,
            damage=self.damage,
        )

    def closer(self) -> tuple[bytes, Event] | None:
        """The line and event that close an open turn: the same ones whoever asks, and when."""
        if not self.turn_is_open or self.last_time is None or self.damage is not None:
            return None
        line, _ = record.encode_record(
            seq=self.seq + 1,
            time=self.last_time,
            type_json=b'"%b"' % TURN_END.encode(),
            data_json=b'{"reason":"%b"}' % INTERRUPTED["reason"].encode(),
            batch=None,
            chain=self.chain,
        )
        event = record.decode_record(
            line[:-1], number=self.line + 1, offset_bytes=self.good_bytes, verified=True
        )
        return line, event

    def raise_damage(self) -> None:
        """Raises LogDamagedError, if the exhausted scan found damage."""
        if self.damage is not None:
            raise self._damaged(self.damage)

    def resync(self) -> Iterator[Event]:
        """After damage: every later whole line that parses, also the damaged one itself.

        An event is verified if it chains to the one before it, whatever lies between them.
        """
        if self.damage is not None:
            before = Position(self.seq, self.chain, self.damage.line - 1, self.damage.offset_bytes)
            yield from resync(self._log, before, cancel=self._cancel)

    def _good_runs(
        self, take: Callable[[bytes, int, int | None], R | None], until: int | None
    ) -> Generator[list[Event] | R, None, str | None]:
        """Go on from the last good line; return what is wrong with the next, if any."""
        runs = split_runs(self._log, self.good_bytes, self._end_bytes, self._cancel)
        for offset_bytes, lines, whole in runs:
            if lines is None:
                return "the line is longer than any record"
            if not whole:
                return "the line has no line feed"
            taken = take(lines, offset_bytes, until)
            flaw = None
            if taken is not None:
                yield taken
            else:
                flaw = yield from self._looked_closer(lines, offset_bytes, until)
            if flaw is not None or self.seq == until:
                return flaw
        return None

    def _checked(
        self,
        events_of: Callable[[ChainedLines, int, int], list[Event] | None],
        lines: bytes,
        offset_bytes: int,
        until: int | None,
    ) -> list[Event] | None:
        """The lines' events; None if not all of them are the next, as we write it, and wanted."""
        found = chained_lines.check(lines, self.seq + 1, self.chain)
        if found is None:
            return None
        checked, chain = found
        events = events_of(checked, self.line + 1, offset_bytes)
        if events is None or (until is not None and checked.records[-1].seq > until):
            return None
        self._go_to(checked.records, chain, offset_bytes + len(lines))
        return events

    def _undecoded(
        self, lines: bytes, offset_bytes: int, until: int | None
    ) -> list[Event] | Undecoded | None:
        """The lines as they are, if they are short and of no reference, and their chain holds."""
        if len(lines) > _UNDECODED_BYTES_MAX or record.has_key(lines):
            return self._checked(ChainedLines.events, lines, offset_bytes, until)
        found = record.chain_of_lines(lines, self.chain)
        if found is None:
            return None
        lengths, chain = found
        taken = Undecoded(self.position, lines, lengths)
        count, end_bytes = len(lengths), offset_bytes + len(lines)
        self.resume_at(Position(self.seq + count, chain, self.line + count, end_bytes))
        return taken

    def _looked_closer(
        self, lines: bytes, offset_bytes: int, until: int | None
    ) -> Generator[list[Event], None, str | None]:
        """Line by line: not all of them are the next, just as we write it, or not all wanted."""
        for line in lines[:-1].split(b"\n"):
            found = self._look_closer(line, offset_bytes)
            if isinstance(found, str):
                return found
            event, chain = found
            offset_bytes += len(line) + 1
            self._go_to([event], chain, offset_bytes)
            yield [event]
            if event.seq == until:
                break
        return None

    def _go_to(
        self, records: Sequence[record.Record | Event], chain: bytes, end_bytes: int
    ) -> None:
        """These are good, and the next ones: they are the last ones now."""
        self.line += len(records)
        self.seq, self.last_time = records[-1].seq, records[-1].time
        self.chain = chain
        self.good_bytes = end_bytes
        for each in records:
            if each.type.startswith(TURN_PREFIX):
                self.turn_is_open = each.type == TURN_START

    def _look_closer(self, line: bytes, offset_bytes: int) -> tuple[Event, bytes] | str:
        """The next event and its chain from a line that is not as we write it, or its flaw."""
        chain = record.chain_of(line, self.chain)
        if chain is None and len(line) > record.LONG_LINE_BYTES:
            return _BROKEN_CHAIN
        try:
            event = record.decode_record(
                line, number=self.line + 1, offset_bytes=offset_bytes, verified=True
            )
        except BadDataError as error:
            return str(error)
        if event.seq != self.seq + 1:
            return f"event {event.seq} where {self.seq + 1} was expected"
        return _BROKEN_CHAIN if chain is None else (event, chain)

    def _tail_reason(self) -> str | None:
        return tail_reason(self._log, self.good_bytes, self._end_bytes, self.seq + 1, self._cancel)

    def _read_header(self) -> tuple[SessionHeader, int]:
        for attempt in range(2):
            lines = split_lines(self._log, 0, self._end_bytes, self._cancel, _HEADER_BLOCK_BYTES)
            for _, line, whole in lines:
                try:
                    return self._decode_header(line, whole)
                except BadDataError as error:
                    if attempt:
                        damage = Damage(line=1, offset_bytes=0, reason=str(error))
                        raise self._damaged(damage) from None
                break
        raise self._damaged(Damage(line=1, offset_bytes=0, reason="the log is empty"))

    def _decode_header(self, line: bytes | None, whole: bool) -> tuple[SessionHeader, int]:
        if line is None or not whole:
            raise BadDataError("the header is not whole")
        try:
            header = record.decode_header(line)
        except record.UnknownFormatError as error:
            raise StoreVersionError(
                where=self._where, found=error.found, supported=record.FORMAT
            ) from None
        if not self.name.belongs_to(header.id):
            raise BadDataError(f"the header names another session, {header.id[:80]!r}")
        return header, len(line) + 1

    def _damaged(self, damage: Damage) -> LogDamagedError:
        return LogDamagedError(
            where=self._where,
            session=self.name.id,
            line=damage.line,
            offset_bytes=damage.offset_bytes,
            reason=damage.reason,
            head_seq=getattr(self, "seq", 0),
        )


def resync(
    log: LogReader, start: Position = BEGINNING, *, cancel: CancelFlag | None
) -> Iterator[Event]:
    """Every whole line from `start` on that parses as a record.

    It is verified if the chain of the one before it leads to it, whatever lies between them.
    """
    chain = start.chain
    for number, (offset_bytes, stored, whole) in enumerate(
        split_lines(log, start.offset_bytes, log.size(), cancel), start.line + 1
    ):
        if stored is None or not whole:
            continue
        content = stored.removesuffix(b"\r")  # all that an editor with other line ends changes
        verified = record.chain_of(content, chain) is not None
        try:
            event = record.decode_record(
                content, number=number, offset_bytes=offset_bytes, verified=verified
            )
        except BadDataError:
            continue
        chain = bytes.fromhex(event.chain)
        yield event
