"""The storage of each session medium, as the conformance suite and the fault tests see it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Generator
from pathlib import Path

from attachstore.disk import Disk
from attachstore.sessions.jsonl import JsonlMedium
from attachstore.sessions.memory import MemoryMedium
from attachstore.sessions.names import escape
from attachstore.sessions.sqlite import SqliteMedium
from attachstore.sessions.zstd_frames import library


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


class SqlitePlace:
    def __init__(self, root: Path, disk: Disk | None = None) -> None:
        self.root = root
        self.disk = disk or Disk()
        SqliteMedium.create(root, Disk()).close()

    @property
    def path(self) -> Path:
        return self.root / "sessions.db"

    def medium(self) -> SqliteMedium:
        return SqliteMedium(self.root, self.disk)

    @contextlib.contextmanager
    def connection(self) -> Generator[sqlite3.Connection]:
        """Another program's. What it commits is not synced, which saves the suite much time."""
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            with connection:
                yield connection

    def read(self, session_id: str) -> bytes:
        with self.connection() as connection:
            (number,) = self._row(connection, session_id)
            rows = connection.execute(
                "SELECT bytes FROM line WHERE session = ? ORDER BY offset_bytes", (number,)
            )
            return b"".join(row for (row,) in rows)

    def write(self, session_id: str, content: bytes) -> None:
        with self.connection() as connection:
            (number,) = self._row(connection, session_id)
            connection.execute("DELETE FROM line WHERE session = ?", (number,))
            offset_bytes = 0
            for line in content.split(b"\n"):
                row = line + b"\n" if offset_bytes + len(line) < len(content) else line
                if row:
                    insert = "INSERT INTO line VALUES (?, ?, ?)"
                    connection.execute(insert, (number, offset_bytes, row))
                offset_bytes += len(row)

    def torn(self, session_id: str) -> list[bytes]:
        with self.connection() as connection:
            (number,) = self._row(connection, session_id)
            cuts: dict[int, bytes] = {}
            rows = connection.execute(
                "SELECT revision, bytes FROM torn WHERE session = ?"
                " ORDER BY revision, offset_bytes",
                (number,),
            )
            for revision, row in rows:
                cuts[revision] = cuts.get(revision, b"") + row
            return list(cuts.values())

    def _row(self, connection: sqlite3.Connection, session_id: str) -> tuple[int]:
        return connection.execute(
            "SELECT number FROM session WHERE segment = ?", (escape(session_id),)
        ).fetchone()


class SealedPlace(JsonlPlace):
    """Logs that are written from outside lie in frames, one for each line."""

    def sealed_path(self, session_id: str) -> Path:
        return self.directory(session_id) / "log.jsonl.zst"

    def read(self, session_id: str) -> bytes:
        sealed = self.sealed_path(session_id)
        if not sealed.exists():
            return super().read(session_id)
        with library().open(sealed) as file:
            return file.read()

    def write(self, session_id: str, content: bytes) -> None:
        lines = content.splitlines(keepends=True) if b"\r" not in content else [content]
        frames = [library().compress(line) for line in lines]
        self.sealed_path(session_id).write_bytes(b"".join(frames))
        self.path(session_id).unlink(missing_ok=True)
