"""Fork: a new log that begins with another's events, byte for byte.

The parent is read as an opener for append reads it: what is there is made durable, cached pages
are dropped, and only what the chain proves is taken. In the process that writes the parent, up
to its acknowledged head. So a fork never holds an event that its parent can still lose.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from attachstore.disk import BLOCK_BYTES
from attachstore.errors import LogDamagedError, SequenceConflictError
from attachstore.errors.stored import BEYOND_HEAD
from attachstore.reference import Reference
from attachstore.sessions import record
from attachstore.sessions.data import references_in
from attachstore.sessions.draft import Head
from attachstore.sessions.event import Parent, SessionHeader
from attachstore.sessions.lines import split_lines
from attachstore.sessions.log import SessionLog, State
from attachstore.sessions.medium import CopyingMedium, LogReader, LogWriter, SessionMedium
from attachstore.sessions.names import SessionName
from attachstore.sessions.scan import Scan
from attachstore.threads import CancelFlag


@dataclass(frozen=True, slots=True)
class Prefix:
    """A part of a parent's log, from its first event to the fork point, found intact."""

    header: SessionHeader
    start_bytes: int
    head: Head

    @property
    def copied(self) -> Head:
        """The head, with the size of the copied lines alone."""
        return dataclasses.replace(self.head, size_bytes=self.head.size_bytes - self.start_bytes)

    def origin(self, parent: SessionName) -> Parent:
        """What a fork's header says of where it comes from."""
        return Parent(id=parent.id, seq=self.head.seq, chain=self.head.chain.hex())


@contextlib.contextmanager
def open_prefix(
    medium: SessionMedium,
    held: SessionLog | None,
    parent: SessionName,
    at: int | None,
    cancel: CancelFlag | None,
) -> Generator[tuple[Prefix, Iterator[bytes]]]:
    """The part of a parent that a fork takes over, and its lines to copy.

    `held` is the parent as this process holds it, if it does.
    """
    where = medium.where(parent)
    if held is not None and held.state is State.PENDING:
        yield pending_prefix(held, at), iter(())
        return
    with medium.open(parent) as log:
        is_writer = held is not None and held.state in {State.OPEN, State.POISONED}
        end_bytes = held.acknowledged.size_bytes if held and is_writer else log.settle()
        prefix = find_prefix(
            log,
            parent,
            where=where,
            end_bytes=end_bytes,
            acknowledged=is_writer,
            at=at,
            cancel=cancel,
        )
        yield prefix, copy_lines(log, prefix, parent, where=where, cancel=cancel)


def find_prefix(
    log: LogReader,
    name: SessionName,
    *,
    where: str,
    end_bytes: int,
    acknowledged: bool,
    at: int | None,
    cancel: CancelFlag | None = None,
) -> Prefix:
    """Check the parent up to event `at`, or to its end.

    With `acknowledged` everything up to `end_bytes` was: a shorter log has lost events.

    Raises LogDamagedError if damage lies before the fork point, SequenceConflictError if the
    parent does not go that far.
    """
    scan = Scan(
        log, name, where=where, end_bytes=end_bytes, acknowledged=acknowledged, cancel=cancel
    )
    if at != 0:
        for _ in scan.referring_runs(until=at):
            pass
    if at is None or at != scan.seq:
        scan.raise_damage()
    if at is not None and at != scan.seq:
        raise SequenceConflictError(
            where=where, session=name.id, expected_seq=at, head_seq=scan.seq, hint=BEYOND_HEAD
        )
    head = Head(scan.seq, scan.chain, scan.good_bytes)
    return Prefix(scan.header, scan.events_start_bytes, head)


def pending_prefix(parent: SessionLog, at: int | None) -> Prefix:
    """The part of a parent that was created and has no log yet: no events."""
    if at:
        raise SequenceConflictError(
            where=parent.where, session=parent.id, expected_seq=at, head_seq=0, hint=BEYOND_HEAD
        )
    return Prefix(parent.header, 0, parent.acknowledged)


def add_fork(
    medium: SessionMedium,
    child: SessionName,
    parent: SessionName,
    prefix: Prefix,
    lines: Iterator[bytes],
    header_line: bytes,
) -> LogWriter:
    """Make the child's log: by the medium itself if it can, else line by line from `lines`."""
    if isinstance(medium, CopyingMedium) and prefix.start_bytes < prefix.head.size_bytes:
        copied = medium.add_copy(
            child,
            header_line,
            parent,
            start_bytes=prefix.start_bytes,
            end_bytes=prefix.head.size_bytes,
            # The chain at the last line stands for all lines before it.
            last_line_end=b'"%b"}\n' % prefix.head.chain.hex().encode(),
        )
        if copied is not None:
            return copied
    return add_foreign_fork(medium, child, lines, header_line)


def add_foreign_fork(
    medium: SessionMedium, child: SessionName, lines: Iterator[bytes], header_line: bytes
) -> LogWriter:
    """Make the log of a child whose parent is on another medium."""
    return medium.add(child, itertools.chain([header_line], lines))


def references_in_prefix(
    medium: SessionMedium, parent: SessionName, prefix: Prefix, cancel: CancelFlag | None
) -> set[Reference]:
    """Every reference in the events that a fork takes over. Raises LogDamagedError."""
    found: set[Reference] = set()
    if prefix.start_bytes >= prefix.head.size_bytes:
        return found
    where, end_bytes = medium.where(parent), prefix.head.size_bytes
    with medium.open(parent) as log:
        scan = Scan(log, parent, where=where, end_bytes=end_bytes, cancel=cancel)
        for run in scan.referring_runs():
            for event in run:
                found.update(reference for _, reference in references_in(event.data))
        scan.raise_damage()
    return found


def copy_lines(
    log: LogReader, prefix: Prefix, name: SessionName, *, where: str, cancel: CancelFlag | None
) -> Iterator[bytes]:
    """The prefix's lines in blocks, checked against the chain once more as they are copied.

    Raises LogDamagedError if they are not what `find_prefix` read.
    """
    chain, seq = record.CHAIN_START, 0
    block: list[bytes] = []
    block_bytes = 0
    for offset, line, _ in split_lines(log, prefix.start_bytes, prefix.head.size_bytes, cancel):
        following = None if line is None else record.chain_of(line, chain)
        if line is None or following is None:
            raise _changed(name, where, seq, offset)
        chain, seq = following, seq + 1
        block += (line, b"\n")
        block_bytes += len(line) + 1
        if block_bytes >= BLOCK_BYTES:
            yield b"".join(block)
            block, block_bytes = [], 0
    if chain != prefix.head.chain:
        raise _changed(name, where, seq, prefix.head.size_bytes)
    yield b"".join(block)


def _changed(name: SessionName, where: str, seq: int, offset_bytes: int) -> LogDamagedError:
    return LogDamagedError(
        where=where,
        session=name.id,
        line=seq + 2,
        offset_bytes=offset_bytes,
        reason="the log changed while it was copied",
        head_seq=seq,
    )
