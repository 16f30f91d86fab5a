"""The storage of each session medium, as the conformance suite and the fault tests see it."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

from attachstore.disk import Disk
from attachstore.sessions.jsonl import JsonlMedium
from attachstore.sessions.medium import LogWriter
from attachstore.sessions.memory import MemoryMedium
from attachstore.sessions.names import SessionName, escape
from attachstore.sessions.sqlite import SqliteMedium
from attachstore.sessions.zstd_frames import library
from tests.faults import SYNCS, InterceptedDisk


class UnsyncedDisk(InterceptedDisk):
    """For tests that write hundreds of logs, and ask what is there, not what is durable."""

    def intercept(self, method: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        return None if method in SYNCS else call()


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

    def medium(self, disk: Disk | None = None) -> JsonlMedium:
        return JsonlMedium(self.root, disk or self.disk)

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
    """Sessions in a database."""

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

    def hide_last_line(self) -> None:
        """As one bit can: the page with the lines counts one cell less. Nobody may have it open."""
        with self.connection() as connection:
            (page,) = connection.execute(
                "SELECT rootpage FROM sqlite_schema WHERE name = 'line'"
            ).fetchone()
            (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        content = bytearray(self.path.read_bytes())
        start = (page - 1) * page_bytes
        assert content[start] == 10, "the lines have outgrown one page"
        content[start + 4] -= 1
        self.path.write_bytes(content)

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
        return unpacked(sealed.read_bytes())

    def write(self, session_id: str, content: bytes) -> None:
        lines = content.splitlines(keepends=True) if b"\r" not in content else [content]
        frames = [library().compress(line) for line in lines]
        self.sealed_path(session_id).write_bytes(b"".join(frames))
        self.path(session_id).unlink(missing_ok=True)

    def torn(self, session_id: str) -> list[bytes]:
        torn = self.directory(session_id) / "torn"
        return [_cut_off(path) for path in torn.iterdir()] if torn.exists() else []


class BornSealedPlace(SealedPlace):
    """Every log is sealed as soon as it is there, so that all else happens to sealed logs."""

    def medium(self, disk: Disk | None = None) -> JsonlMedium:
        return BornSealedMedium(self.root, disk or self.disk)


class BornSealedMedium(JsonlMedium):
    def add(self, name: SessionName, content: Iterable[bytes]) -> LogWriter:
        super().add(name, content).close()
        self.seal(name, lambda _: None)
        return self.open_writer(name)


def unpacked(stored: bytes) -> bytes:
    """What comes out of frames; of one without its end, what it gives."""
    pieces: list[bytes] = []
    while stored:
        unpacker = library().ZstdDecompressor()
        pieces.append(unpacker.decompress(stored))
        stored = unpacker.unused_data
    return b"".join(pieces)


def _cut_off(path: Path) -> bytes:
    """What was cut off a log; of a sealed one the frame is kept in which the cut lies."""
    match = re.fullmatch(r"log\.jsonl\.zst-(\d+)-(\d+)-[0-9a-f]+", path.name)
    if match is None:
        return path.read_bytes()
    start, offset = map(int, match.groups())
    return unpacked(path.read_bytes())[offset - start :]
