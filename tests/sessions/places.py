"""The storage of each session medium, as the conformance suite and the fault tests see it."""

from __future__ import annotations

from pathlib import Path

from attachstore.disk import Disk
from attachstore.sessions.jsonl import JsonlMedium
from attachstore.sessions.memory import MemoryMedium
from attachstore.sessions.names import escape


class MemoryPlace:
    def __init__(self) -> None:
        self._medium = MemoryMedium()

    def medium(self) -> MemoryMedium:
        return self._medium

    def read(self, session_id: str) -> bytes:
        return bytes(self._medium.logs[escape(session_id)])

    def write(self, session_id: str, content: bytes) -> None:
        self._medium.logs[escape(session_id)][:] = content

    def torn(self, session_id: str) -> list[bytes]:
        return self._medium.torn.get(escape(session_id), [])


class JsonlPlace:
    def __init__(self, root: Path, disk: Disk | None = None) -> None:
        self.root = root
        self.disk = disk or Disk()
        (root / "sessions").mkdir(exist_ok=True)
        (root / "locks").mkdir(exist_ok=True)

    def medium(self) -> JsonlMedium:
        return JsonlMedium(self.root, self.disk)

    def directory(self, session_id: str) -> Path:
        return self.root / "sessions" / escape(session_id)

    def path(self, session_id: str) -> Path:
        return self.directory(session_id) / "log.jsonl"

    def read(self, session_id: str) -> bytes:
        return self.path(session_id).read_bytes()

    def write(self, session_id: str, content: bytes) -> None:
        self.path(session_id).write_bytes(content)

    def torn(self, session_id: str) -> list[bytes]:
        torn = self.directory(session_id) / "torn"
        return [path.read_bytes() for path in torn.iterdir()] if torn.exists() else []
