"""Lines of a log that follow each other, checked together; events are made of those wanted.

Most readers want few: a load, a check and a fork none, a scan and a look for uses those that refer
to an object. Making an event costs more than half of what checking its line does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, count

from attachstore.sessions.data import BadDataError
from attachstore.sessions.event import Event
from attachstore.sessions.record import Record, chain_of_lines, check_lines, event_of, has_key


@dataclass(frozen=True, slots=True)
class ChainedLines:
    """Whole lines whose chain holds, with records that are as we write them.

    Events are made of them once: references take their places in the records' data.
    """

    lines: bytes
    lengths: list[int]
    """Of the lines, without line feed."""
    records: list[Record]

    def events(self, number: int, offset_bytes: int) -> list[Event] | None:
        """An event for each; the first is line `number`. None if one needs a closer look."""
        if has_key(self.lines):
            return self._events_of_all(number, offset_bytes)
        return [
            Event(
                seq=record.seq,
                time=record.time,
                type=record.type,
                data=record.data,
                chain=record.chain,
                batch=record.batch or None,  # UNSET is false, and 0 is none
                line=line,
                offset_bytes=start,
            )
            for record, line, start in zip(
                self.records, count(number), self._starts(offset_bytes), strict=False
            )
        ]

    def referring(self, number: int, offset_bytes: int) -> list[Event] | None:
        """As `events`, those that may refer to an object."""
        if not has_key(self.lines):
            return []
        return self._events_of_all(number, offset_bytes, only_with_key=True)

    def _events_of_all(
        self, number: int, offset_bytes: int, *, only_with_key: bool = False
    ) -> list[Event] | None:
        try:
            return [
                event_of(record, line, start, verified=True, plain=not has_a_key)
                for record, line, start, has_a_key in zip(
                    self.records,
                    count(number),
                    self._starts(offset_bytes),
                    map(has_key, self.lines.split(b"\n")),
                    strict=False,
                )
                if has_a_key or not only_with_key
            ]
        except BadDataError:
            return None

    def _starts(self, offset_bytes: int) -> Iterator[int]:
        return accumulate(self.lengths, lambda at, size: at + size + 1, initial=offset_bytes)


def check(lines: bytes, seq: int, chain_before: bytes) -> tuple[ChainedLines, bytes] | None:
    """The lines as event `seq` and those after it, and the chain of the last.

    None for all that needs a closer look, which `decode_record` and `chain_of` take.
    """
    found = chain_of_lines(lines, chain_before)  # first: it ends most of what is no record, cheaply
    if found is None:
        return None
    lengths, chain = found
    checked = check_chained(lines, lengths, seq)
    return None if checked is None else (checked, chain)


def check_chained(lines: bytes, lengths: list[int], seq: int) -> ChainedLines | None:
    """As `check`, for lines whose chain is known to hold."""
    records = check_lines(lines, len(lengths), seq)
    return None if records is None else ChainedLines(lines, lengths, records)
