"""What `put --session` and `session append` share: a session open for writing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attachstore.errors import SessionExistsError, SessionMissingError

if TYPE_CHECKING:
    from attachstore.sessions.session import Session
    from attachstore.store import Store


async def open_session(store: Store, session_id: str) -> Session:
    """Load the session for appending, or make it.

    An open turn stays open: adding one event from a shell resumes nothing.

    Raises:
        SessionBusyError: another process writes to it.
        LogDamagedError: its log needs `session repair` first.
    """
    try:
        return await store.sessions.load(session_id, close_turn=False)
    except SessionMissingError:
        pass
    try:
        return await store.sessions.create(session_id)
    except SessionExistsError:  # somebody was faster
        return await store.sessions.load(session_id, close_turn=False)
