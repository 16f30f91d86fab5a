"""Conflicts: the log is not as its writer knows it, which the medium noticed before it wrote.

Claims keep other writers of ours away. Somebody may have removed a lock by hand, though, or a
claim may have run out. Nothing was written then, so the append may be tried again where the log
ends now, if what was acknowledged before is still in it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from attachstore.errors import LogDamagedError, LogPoisonedError
from attachstore.sessions.draft import Draft
from attachstore.sessions.event import Event
from attachstore.sessions.log import SessionLog
from attachstore.sessions.logs import SessionLogs
from attachstore.threads import CancelFlag

TRIES_MAX = 4
_logger = logging.getLogger("attachstore")


def append_over_conflicts(
    logs: SessionLogs,
    log: SessionLog,
    drafts: Sequence[Draft],
    after: int | None,
    *,
    reopened: Callable[[SessionLog], None],
    cancel: CancelFlag | None = None,
) -> list[Event]:
    """As `SessionLog.append_drafts`, tried again on conflicts, a few times.

    `reopened` is handed the log that takes the place of one that had a conflict. With `after` the
    caller's own belief decides: SequenceConflictError if the head moved. Raises LogDamagedError
    if events are gone that were acknowledged.
    """
    for _ in range(TRIES_MAX - 1):
        try:
            return log.append_drafts(drafts, after=after, cancel=cancel)
        except LogPoisonedError as error:
            if not log.has_conflict:
                raise
            _logger.warning("session %r: %s; it is opened anew", log.id, error.reason)
        log = _opened_anew(logs, log, cancel)
        reopened(log)
    return log.append_drafts(drafts, after=after, cancel=cancel)


def _opened_anew(logs: SessionLogs, log: SessionLog, cancel: CancelFlag | None) -> SessionLog:
    known = log.acknowledged
    log = logs.load(log.id, close_turn=False, cancel=cancel)
    if known.seq:
        events = logs.events(log.id, after=known.seq - 1, cancel=cancel)
        found = next(events, None)
        if found is None or (found.seq, found.chain) != (known.seq, known.chain.hex()):
            raise LogDamagedError(
                where=log.where,
                session=log.id,
                line=known.line,
                offset_bytes=known.size_bytes,
                reason=f"event {known.seq}, which was acknowledged, is not there any more",
                head_seq=log.head,
            )
    return log
