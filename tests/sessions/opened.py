"""Sessions on a place of their own, for tests of the asynchronous face."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

from attachstore.disk import Disk
from attachstore.reference import Reference
from attachstore.sessions import EmitPolicy, SessionLogs, Sessions
from attachstore.threads import Worker
from tests.conformance.session_medium import REFERENCE, confirm
from tests.faults import InterceptedDisk
from tests.sessions.places import JsonlPlace


@dataclass
class Committed:
    reference: Reference


async def put(source: Any, *, name: str | None = None, declared: str | None = None) -> Committed:
    assert source == b"shot"
    return Committed(REFERENCE)


class GateDisk(InterceptedDisk):
    """Stops before one kind of call, at paths that end so, until it is let go on."""

    def __init__(self, method: str, path_end: str = "") -> None:
        super().__init__()
        self.method = method
        self.path_end = path_end
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def intercept(self, method: str, call: Any, arguments: tuple[Any, ...]) -> Any:
        if method == self.method and str(arguments[0]).endswith(self.path_end):
            self.reached.set()
            assert self.go_on.wait(30)
        return call()

    async def wait_reached(self) -> None:
        while not self.reached.is_set():
            await asyncio.sleep(0.001)


class Opened:
    """Sessions with a worker of their own."""

    def __init__(
        self, place: JsonlPlace, disk: Disk | None = None, emit: EmitPolicy | None = None
    ) -> None:
        self.worker = Worker("test", 4)
        self.logs = SessionLogs(place.medium(disk), confirm)
        self.sessions = Sessions(self.logs, self.worker, put)
        self.sessions.emit_policy = emit or EmitPolicy()

    async def close(self) -> None:
        try:
            await self.sessions.close_all()
        finally:
            self.worker.close()


async def data_of(sessions: Sessions, session_id: str, **options: Any) -> list[Any]:
    return [event.data async for event in sessions.read(session_id, **options)]
