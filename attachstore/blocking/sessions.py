"""Session and Sessions without asyncio."""

from __future__ import annotations

import builtins
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from attachstore import store as asynchronous
from attachstore.arguments import check_kind
from attachstore.blocking.loop import Loop
from attachstore.sessions import prepared_session as asynchronous_prepared
from attachstore.sessions import sessions as asynchronous_sessions
from attachstore.sessions.event import (
    Event,
    RepairReport,
    SealReport,
    SessionHeader,
    SessionSummary,
    SessionView,
)
from attachstore.sessions.lineage import Branch, Divergence
from attachstore.sessions.reading import Damaged
from attachstore.sessions.snapshot import SessionSnapshot


class Session:
    """`attachstore.Session` with blocking methods."""

    def __init__(self, loop: Loop, session: asynchronous_sessions.Session) -> None:
        self._loop = loop
        self._session = session

    @property
    def id(self) -> str:
        return self._session.id

    @property
    def header(self) -> SessionHeader:
        return self._session.header

    @property
    def head(self) -> int:
        return self._session.head

    @property
    def head_chain(self) -> str:
        return self._session.head_chain

    def append(
        self,
        type: str,  # noqa: A002 - the name of the field
        data: object,
        *,
        after: int | None = None,
    ) -> Event:
        return self._loop.wait(self._session.append(type, data, after=after))

    def append_many(
        self, events: Iterable[tuple[str, object]], *, after: int | None = None
    ) -> list[Event]:
        return self._loop.wait(self._session.append_many(events, after=after))

    def attach(
        self,
        source: asynchronous.Source,
        *,
        type: str = "attachment",  # noqa: A002 - as in `append`
        name: str | None = None,
        declared: str | None = None,
        after: int | None = None,
    ) -> Event:
        work = self._session.attach(source, type=type, name=name, declared=declared, after=after)
        return self._loop.wait(work)

    @property
    def queued(self) -> int:
        return self._session.queued

    @property
    def failure(self) -> BaseException | None:
        return self._session.failure

    def emit(self, type: str, data: object) -> None:  # noqa: A002 - as in `append`
        self._loop.wait(self._session.emit(type, data))

    def flush(self) -> None:
        self._loop.wait(self._session.flush())

    def adopt(self, closed: Session) -> None:
        check_kind("what is adopted", closed, Session)
        self._loop.wait(self._session.adopt(closed._session))

    def close(self) -> None:
        self._loop.wait(self._session.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class PreparedSession:
    """What `attachstore.Sessions.prepare` returns, with blocking methods."""

    def __init__(self, loop: Loop, prepared: asynchronous_prepared.PreparedSession) -> None:
        self._loop = loop
        self._prepared = prepared

    @property
    def view(self) -> SessionView:
        return self._prepared.view

    def resume(self, *, close_turn: bool = True) -> Session:
        return Session(self._loop, self._loop.wait(self._prepared.resume(close_turn=close_turn)))

    def release(self) -> None:
        self._loop.wait(self._prepared.release())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Sessions:
    """`attachstore.Sessions` with blocking methods."""

    def __init__(self, loop: Loop, sessions: asynchronous_sessions.Sessions) -> None:
        self._loop = loop
        self._sessions = sessions

    @staticmethod
    def _parts(name: str, of: Sessions) -> tuple[Loop, asynchronous_sessions.Sessions]:
        check_kind(name, of, Sessions, "`sessions` of an open store")
        return of._loop, of._sessions

    def create(
        self,
        session_id: str,
        *,
        meta: Mapping[str, Any] | None = None,
        cwd: str | Path | None = None,
    ) -> Session:
        work = self._sessions.create(session_id, meta=meta, cwd=cwd)
        return Session(self._loop, self._loop.wait(work))

    def load(self, session_id: str, *, close_turn: bool = True) -> Session:
        work = self._sessions.load(session_id, close_turn=close_turn)
        return Session(self._loop, self._loop.wait(work))

    def prepare(self, session_id: str) -> PreparedSession:
        work = self._sessions.prepare(session_id)
        return PreparedSession(self._loop, self._loop.wait(work))

    def read(
        self, session_id: str, *, after: int = 0, damaged: Damaged = "raise"
    ) -> Generator[Event]:
        return self._loop.each(self._sessions.read(session_id, after=after, damaged=damaged))

    def inspect(self, session_id: str) -> SessionView:
        return self._loop.wait(self._sessions.inspect(session_id))

    def verify(self, session_id: str) -> SessionView:
        return self._loop.wait(self._sessions.verify(session_id))

    def list(self) -> list[SessionSummary]:
        return self._loop.wait(self._sessions.list())

    def list_snapshots(self) -> builtins.list[SessionSnapshot]:
        return self._loop.wait(self._sessions.list_snapshots())

    def tree(self) -> tuple[Branch, ...]:
        return self._loop.wait(self._sessions.tree())

    def divergence(
        self, session_id: str, other_id: str, *, of: Sessions | None = None
    ) -> Divergence:
        _, other = self._parts("of", self if of is None else of)
        return self._loop.wait(self._sessions.divergence(session_id, other_id, of=other))

    def fork(
        self,
        session_id: str,
        *,
        id: str,  # noqa: A002 - as in the asynchronous store
        at: int | None = None,
        meta: Mapping[str, Any] | None = None,
        into: Sessions | None = None,
    ) -> Session:
        loop, target = self._parts("into", self if into is None else into)
        work = self._sessions.fork(session_id, id=id, at=at, meta=meta, into=target)
        return Session(loop, self._loop.wait(work))

    def delete(self, session_id: str) -> None:
        self._loop.wait(self._sessions.delete(session_id))

    def repair(self, session_id: str) -> RepairReport:
        return self._loop.wait(self._sessions.repair(session_id))

    def seal(self, session_id: str) -> SealReport:
        return self._loop.wait(self._sessions.seal(session_id))

    def unseal(self, session_id: str) -> None:
        self._loop.wait(self._sessions.unseal(session_id))

    def close(self, session_id: str) -> None:
        self._loop.wait(self._sessions.close(session_id))
