"""Session: a session that this process writes to, for asyncio. Made by `Sessions`."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import Any, Protocol, Self

from attachstore.arguments import check_int, check_kind
from attachstore.reference import Reference
from attachstore.sessions.draft import pair_of
from attachstore.sessions.event import Event, SessionHeader
from attachstore.sessions.session_writer import SessionWriter


class HasReference(Protocol):
    """What committing an attachment returns."""

    @property
    def reference(self) -> Reference: ...


class Put(Protocol):
    """`Store.put`, as far as sessions need it."""

    def __call__(
        self, source: Any, *, name: str | None = None, declared: str | None = None
    ) -> Awaitable[HasReference]: ...


class Session:
    """A session that this store writes to. Made by `Sessions`.

    Holds the session's lock from `load`, or from the first append after `create` and `fork`,
    until it is closed. An async context manager: leaving it closes the session.
    """

    def __init__(self, writer: SessionWriter, put: Put) -> None:
        self._writer = writer
        self._put = put

    @property
    def id(self) -> str:
        return self._writer.id

    @property
    def header(self) -> SessionHeader:
        return self._writer.log.header

    @property
    def head(self) -> int:
        """`seq` of the newest acknowledged event; 0 if there is none."""
        return self._writer.log.head

    @property
    def head_chain(self) -> str:
        """The chain at the head, 32 hex digits: equal chains at one `seq`, equal histories."""
        return self._writer.log.head_chain

    @property
    def queued(self) -> int:
        """How many events were emitted and are not known to be durable yet."""
        return self._writer.queue.queued

    @property
    def failure(self) -> BaseException | None:
        """Why events that were emitted could not be written; None once they are."""
        return self._writer.queue.failure

    async def append(
        self,
        type: str,  # noqa: A002 - the name of the field
        data: object,
        *,
        after: int | None = None,
    ) -> Event:
        """Add one event; it is durable on return. `data` is any JSON value, with references.

        `after` says which `seq` the caller believes to be the head. To retry after a
        CancelledError without writing twice, give the head from before the first try.

        Events that were emitted before are written first. If that fails its error is raised,
        and this event is not written.

        Raises:
            InvalidEventError, EventTooLargeError: it cannot be written exactly.
            DanglingReferenceError, HeaderMismatchError: a reference in it is not what the
                store holds.
            SequenceConflictError: the head is not at `after`.
            LogPoisonedError: an earlier append failed; load the session again.
            UnavailableError: the medium failed; whether the event is there, a load will show.
        """
        events = await self._writer.append([self._writer.log.draft(type, data)], after)
        return events[0]

    async def append_many(
        self, events: Iterable[tuple[str, object]], *, after: int | None = None
    ) -> list[Event]:
        """Add (type, data) pairs as one contiguous batch with one sync. Raises as `append`."""
        drafts = [self._writer.log.draft(*pair_of(event)) for event in events]
        return await self._writer.append(drafts, after)

    async def attach(
        self,
        source: Any,
        *,
        type: str = "attachment",  # noqa: A002 - as in `append`
        name: str | None = None,
        declared: str | None = None,
        after: int | None = None,
    ) -> Event:
        """Commit an attachment and append the event `{"file": reference}`.

        Raises as `Store.attach` and `append`. If the append fails, the object stays,
        unreferenced.
        """
        if after is not None:
            check_int("after", after, 0)
        committed = await self._put(source, name=name, declared=declared)
        return await self.append(type, {"file": committed.reference}, after=after)

    async def emit(self, type: str, data: object) -> None:  # noqa: A002 - as in `append`
        """Queue one event, to be written soon; what is wrong with it is raised now.

        Returns at once unless the queue is full: then it waits for room. Nothing is promised
        before a `flush`, `append` or `close` that was called after it has returned. Events come
        into the log in the order in which their emits returned, with the time of the call. If
        writing fails they wait, in order, until a `flush` succeeds (`failure`). A reference that
        the store did not see committed is confirmed first, which reads the object.

        Raises:
            InvalidEventError, EventTooLargeError, DanglingReferenceError, HeaderMismatchError:
                the event is at fault, as in `append`; it is not queued.
            LogPoisonedError: an append failed; load the session again.
        """
        draft = self._writer.draft_now(type, data)
        if not self._writer.queue.admit_now(draft):
            await self._writer.admit(draft)

    async def flush(self) -> None:
        """Wait until every event emitted before is durable; try again what had failed.

        The one call that raises why emitted events could not be written, besides an `append` or
        a `close` that comes after them. After a failure the log is opened anew, and what of the
        batch had reached it is not written twice. Works also after a `close` that failed: what
        it left is tried again, and the session stays closed.

        Raises:
            UnavailableError, SessionBusyError, LogDamagedError: they could not be written. They
                stay queued, unchanged; flush again.
        """
        await self._writer.queue.drain()

    async def adopt(self, closed: Session) -> None:
        """Take over the events that a closed handle of this session could not write.

        For a store that was closed, or poisoned, before they could be: open it anew, load the
        session with `close_turn=False`, adopt, `flush`. What did reach the log is found there
        and not written again. Raises ValueError unless `closed` is closed, of the same session,
        and nothing waits here.
        """
        check_kind("what is adopted", closed, Session)
        await self._writer.adopt(closed._writer)

    async def close(self) -> None:
        """Write what was emitted, then let other writers have the session.

        From the call on nothing new is taken. Repeated calls share one outcome. If the events
        could not be written the error is raised, and the session is closed and unlocked all the
        same. The events stay in this object, `queued` of them: `flush` tries again.
        """
        await self._writer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
