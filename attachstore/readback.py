"""Readback: one session read back in several forms, each attachment verified once for all."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Generator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from attachstore.arguments import check_int
from attachstore.deferred import Deferred
from attachstore.errors import LogDamagedError
from attachstore.objects.store import ObjectStore
from attachstore.replay import (
    ExportReport,
    Resolver,
    Step,
    check_at,
    export,
    replay,
    replay_deferred,
    strict,
)
from attachstore.sessions.event import SessionView, view_without_header
from attachstore.sessions.logs import SessionLogs
from attachstore.sessions.reading import Damaged
from attachstore.threads import CancelFlag, Worker

if TYPE_CHECKING:
    from attachstore.replay.page import PageReport


class Readback:
    """Made by `Store.readback`. What one form has verified the next does not verify again.

    For one task at a time. What each method promises and raises `Store.replay`, `Store.export`
    and `Store.write_page` say.
    """

    def __init__(
        self,
        worker: Worker,
        logs: SessionLogs,
        objects: ObjectStore,
        session_id: str,
        at: int | None,
    ) -> None:
        if at is not None:
            check_int("at", at, 0)
        self._worker = worker
        self._logs = logs
        self._objects = objects
        self._session_id = session_id
        self._at = at
        self._resolver = Resolver(objects)

    def steps(self, *, lenient: bool = False) -> AsyncGenerator[Step]:
        """As `Store.replay`."""

        def start(cancel: CancelFlag) -> Generator[list[Step] | Deferred[Step]]:
            if self._at is None:
                return replay_deferred(
                    self._logs, self._resolver, self._session_id, lenient=lenient, cancel=cancel
                )
            found = self._replay("resync" if lenient else "raise", cancel)
            return found if lenient else strict(found)

        return self._worker.iterate_runs(start)

    async def export(self, directory: str | os.PathLike[str]) -> ExportReport:
        """As `Store.export`."""
        target = Path(directory)

        def run(cancel: CancelFlag) -> ExportReport:
            view = self._logs.inspect(self._session_id, cancel=cancel)
            check_at(view, self._at, self._logs.where(self._session_id))
            steps = chain.from_iterable(self._replay("raise", cancel))
            return export(steps, target, view, self._objects, at=self._at, cancel=cancel)

        return await self._worker.run(run)

    async def write_page(self, path: str | os.PathLike[str]) -> PageReport:
        """As `Store.write_page`."""
        from attachstore.replay.page import write_page  # noqa: PLC0415 - most readers want none

        target = Path(path)

        def run(cancel: CancelFlag) -> PageReport:
            view = self._view(cancel)
            check_at(view, self._at, self._logs.where(self._session_id))
            steps = chain.from_iterable(self._replay("resync", cancel))
            return write_page(steps, target, view, self._objects, at=self._at, cancel=cancel)

        return await self._worker.run(run)

    async def view(self) -> SessionView:
        """As `Sessions.inspect`; of a damaged header it says that, instead of raising it."""
        return await self._worker.run(self._view)

    def _view(self, cancel: CancelFlag) -> SessionView:
        try:
            return self._logs.inspect(self._session_id, cancel=cancel)
        except LogDamagedError as error:
            return view_without_header(error)

    def _replay(self, damaged: Damaged, cancel: CancelFlag) -> Generator[list[Step]]:
        return replay(
            self._logs,
            self._objects,
            self._session_id,
            at=self._at,
            damaged=damaged,
            cancel=cancel,
            resolver=self._resolver,
        )
