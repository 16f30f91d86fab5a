"""MemoryMedium: session logs in this process's memory. For tests, and the model of the others."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from typing import Self

from attachstore.errors import (
    LogPoisonedError,
    SessionBusyError,
    SessionExistsError,
    SessionMissingError,
)
from attachstore.sessions.names import SessionName


class MemoryLog:
    """Reader and writer of one log."""

    def __init__(self, name: SessionName, content: bytearray, torn: list[bytes]) -> None:
        self._name = name
        self._content = content
        self._torn = torn

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def size(self) -> int:
        return len(self._content)

    def read(self, offset_bytes: int, size_bytes: int) -> bytes:
        return bytes(self._content[offset_bytes : offset_bytes + size_bytes])

    def settle(self) -> int:
        return len(self._content)

    def append(self, data: bytes, offset_bytes: int) -> None:
        if len(self._content) != offset_bytes:
            raise LogPoisonedError(
                where="memory",
                session=self._name.id,
                reason=f"the log has {len(self._content)} bytes, not {offset_bytes}",
            )
        self._content += data

    def cut(self, offset_bytes: int) -> str:
        return self.repair(offset_bytes, b"")

    def repair(self, offset_bytes: int, closers: bytes) -> str:
        """See medium.RepairingWriter."""
        self._torn.append(bytes(self._content[offset_bytes:]))
        self._content[offset_bytes:] = closers
        return f"memory:{self._name.segment}/torn/{len(self._torn) - 1}"

    def close(self) -> None:
        return


class MemoryClaim:
    """Held until released; the process is the only holder there can be."""

    def __init__(self, claimed: set[str], segment: str) -> None:
        self._claimed = claimed
        self._segment: str | None = segment

    def release(self) -> None:
        segment, self._segment = self._segment, None
        if segment is not None:
            self._claimed.discard(segment)


class MemoryMedium:
    """A dict of logs. Shared by all `SessionLogs` that are given the same one."""

    location = "memory"

    def __init__(self) -> None:
        self.logs: dict[str, bytearray] = {}
        """By segment: what a file system would hold. Tests damage it on purpose."""
        self.torn: dict[str, list[bytes]] = {}
        self._claimed: set[str] = set()
        self._guard = threading.Lock()

    def where(self, name: SessionName) -> str:
        return f"memory:{name.segment}"

    def claim(self, name: SessionName) -> MemoryClaim:
        with self._guard:
            if name.segment in self._claimed:
                raise SessionBusyError(
                    where=self.where(name), session=name.id, holder=f"process {os.getpid()}"
                )
            self._claimed.add(name.segment)
        return MemoryClaim(self._claimed, name.segment)

    def add(self, name: SessionName, content: Iterable[bytes]) -> MemoryLog:
        made = bytearray(b"".join(content))
        with self._guard:
            if name.segment in self.logs:
                raise SessionExistsError(where=self.where(name), session=name.id)
            self.logs[name.segment] = made
        return self.open_writer(name)

    def open(self, name: SessionName) -> MemoryLog:
        return self.open_writer(name)

    def open_writer(self, name: SessionName) -> MemoryLog:
        content = self.logs.get(name.segment)
        if content is None:
            raise SessionMissingError(where=self.where(name), session=name.id)
        return MemoryLog(name, content, self.torn.setdefault(name.segment, []))

    def exists(self, name: SessionName) -> bool:
        return name.segment in self.logs

    def names(self) -> Iterator[SessionName]:
        for segment in sorted(self.logs):
            name = SessionName.from_segment(segment)
            if name is not None:
                yield name

    def cuts(self, name: SessionName) -> int:
        return len(self.torn.get(name.segment, ()))

    def strays(self) -> Iterator[str]:
        return iter(())

    def delete(self, name: SessionName) -> None:
        with self._guard:
            if self.logs.pop(name.segment, None) is None:
                raise SessionMissingError(where=self.where(name), session=name.id)
            self.torn.pop(name.segment, None)

    def close(self) -> None:
        return
