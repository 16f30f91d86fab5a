"""PreparedLog: a session that is reserved for a resume, which has changed nothing yet.

    prepare ──▶ reserved: claimed, read, checked ──resume──▶ open, its crash repaired
                                │
                                └──release──▶ as it was

Between the two a caller may look at what the resume would do, and decide.
"""

from __future__ import annotations

from attachstore.sessions.event import SessionView
from attachstore.sessions.log import SessionLog, State
from attachstore.threads import CancelFlag


class PreparedLog:
    """Made by `SessionLogs.prepare`. Methods block."""

    def __init__(self, log: SessionLog, view: SessionView) -> None:
        self._log = log
        self.view = view
        """What the log holds; `tail` would be moved aside, `closers` added."""

    def resume(self, *, close_turn: bool = True, cancel: CancelFlag | None = None) -> SessionLog:
        """Commit the repair, and become the session's writer. The log is not read again.

        Raises ValueError after a `release`. After another error the session is released.
        """
        self._log.publish(close_turn=close_turn, cancel=cancel)
        return self._log

    def release(self) -> None:
        """Let others have the session; nothing was changed. After a `resume` nothing is done."""
        self._log.close_if(State.PREPARED)
