"""Undecoded: lines of a log whose chain holds, for whoever decodes them where events are wanted."""

from __future__ import annotations

from dataclasses import dataclass

from attachstore.sessions import record
from attachstore.sessions.chained_lines import check_chained
from attachstore.sessions.event import Event


@dataclass(frozen=True, slots=True)
class Position:
    """Behind an event of a log: from here on the chain proves what follows."""

    seq: int
    chain: bytes
    line: int
    offset_bytes: int
    """Where the next line begins."""


BEGINNING = Position(seq=0, chain=record.CHAIN_START, line=0, offset_bytes=0)
"""Before the header."""


@dataclass(frozen=True, slots=True)
class Undecoded:
    """Some lines, each with its line feed, that follow `before`."""

    before: Position
    lines: bytes
    lengths: list[int]
    """Of the lines, without line feed."""

    def events(self) -> list[Event] | None:
        """None if a line is not just as we write it: then a scan has to look closer."""
        checked = check_chained(self.lines, self.lengths, self.before.seq + 1)
        return checked and checked.events(self.before.line + 1, self.before.offset_bytes)
