"""Attempt: one batch on its way into a log, over failures, and never written twice.

After a failed append nobody knows what reached the medium. Each event of a batch carries its
time, so its line and its chain follow from where the batch began: a retry opens the log anew and
looks there for these chains. What is found was written; only the rest is written again.

Invariants

 (1) `drafts` are the events that are not acknowledged, in order; an append that is acknowledged,
     and a look that finds some of them, move those to `landed`.
 (2) `base` is where the log ended when they were last handed to it, and None while it is certain
     that no part of them can have been written. An interrupt may come between any two steps: what
     became of the drafts is told by where the log ends, not by how the call ended.
 (3) A log whose event at `base` is not the one we know is not our log any more: nothing is
     written to it.

A batch of which a part landed goes on as a batch of its own: its lines name the first of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attachstore.errors import LogDamagedError, SessionExistsError, SessionMissingError
from attachstore.sessions.draft import Draft, Head, place
from attachstore.sessions.log import SessionLog, State
from attachstore.sessions.logs import SessionLogs
from attachstore.sessions.record import LINE_BYTES_MAX
from attachstore.sessions.scan import Scan


class Attempt:
    """Made of drafts that carry their time (`SessionLog.draft_now`)."""

    def __init__(self, drafts: Sequence[Draft]) -> None:
        self.drafts = list(drafts)
        self.landed = 0
        self.failure: BaseException | None = None
        self.base: Head | None = None

    def write(
        self, logs: SessionLogs, log: SessionLog, reopened: Callable[[SessionLog], None]
    ) -> None:
        """Get the drafts into the log; durable on return. After an error, call it again.

        `reopened` is handed the log that takes the place of one that was poisoned or closed.
        """
        if log.state in {State.POISONED, State.CLOSED} or self.base is not None:
            log = self._opened(logs, log)
            reopened(log)
        with log.lock:
            log.open(close_turn=False)
            if self.base is not None:
                self._look(logs, log, self.base)
            self.base = start = log.acknowledged
            try:
                log.add_drafts(self.drafts)
            finally:
                if log.state is State.OPEN and log.acknowledged != start:
                    self._landed(len(self.drafts))
                elif log.state not in {State.POISONED, State.PENDING}:
                    self.base = None

    def _opened(self, logs: SessionLogs, log: SessionLog) -> SessionLog:
        """The log as the medium holds it now, open for writing."""
        if log.state is not State.PENDING:
            # It may be open elsewhere in this store, or have been closed while we failed.
            try:
                return logs.load(log.id, close_turn=False)
            except SessionMissingError:
                if log.head or log.header.parent is not None:
                    raise
                # Closed before it ever had a log.
                return logs.create(log.id, meta=log.header.meta, cwd=log.header.cwd)
        if not logs.medium.exists(log.name):
            return log
        # The first append said that it failed. Is what is there its work, or another's?
        with logs.medium.open(log.name) as reader:
            found = Scan(reader, log.name, where=log.where).header
        if found != log.header:
            raise SessionExistsError(where=log.where, session=log.id)
        log.close()
        return logs.load(log.id, close_turn=False)

    def _look(self, logs: SessionLogs, log: SessionLog, base: Head) -> None:
        """Count what reached the log. Nobody else writes: the caller holds the log's lock."""
        placed = place(self.drafts, base, time="", where=log.where, event_bytes_max=LINE_BYTES_MAX)
        # To the end, so that the reader is closed here and not by a garbage collector.
        events = logs.events(log.id, after=max(0, base.seq - 1))
        found = {event.seq: event.chain for event in events}
        if base.seq and found.get(base.seq) != base.chain.hex():
            raise LogDamagedError(
                where=log.where,
                session=log.id,
                line=base.line,
                offset_bytes=base.size_bytes,
                reason=f"event {base.seq}, which was acknowledged, is not there any more",
                head_seq=log.head,
            )
        count = 0
        for seq, chain in enumerate(placed.chains, base.seq + 1):
            if found.get(seq) != chain.hex():
                break
            count += 1
        self._landed(count)

    def _landed(self, count: int) -> None:
        del self.drafts[:count]
        self.landed += count
        self.base = None
