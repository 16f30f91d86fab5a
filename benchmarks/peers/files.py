"""What a program does that has no store: plain files, or rows of SQLite."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from blake3 import blake3

from benchmarks.peers.peer import AbsentError, Peer, sync


class PlainFiles:
    """A file for each object, named by its digest, written beside and renamed."""

    def __init__(self, folder: Path, *, synced: bool) -> None:
        self._folder, self._synced = folder, synced

    async def put(self, data: bytes) -> str:
        name = blake3(data).hexdigest()
        path, temporary = self._folder / name, self._folder / f".{name}"
        with temporary.open("wb") as file:
            file.write(data)
            if self._synced:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
        if self._synced:
            descriptor = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        return name

    async def read(self, key: str) -> bytes:
        return (self._folder / key).read_bytes()

    async def scan(self) -> None:
        for path in self._folder.iterdir():
            if blake3(path.read_bytes()).hexdigest() != path.name:
                raise ValueError(path)

    def files(self, key: str) -> Sequence[Path]:
        return [self._folder / key]


class SqliteBlobs:
    """A row for each object, its digest the key."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def put(self, data: bytes) -> str:
        name = blake3(data).hexdigest()
        self._connection.execute("INSERT OR IGNORE INTO object VALUES (?, ?)", (name, data))
        return name

    async def read(self, key: str) -> bytes:
        query = "SELECT bytes FROM object WHERE name = ?"
        (data,) = self._connection.execute(query, (key,)).fetchone()
        return bytes(data)

    async def scan(self) -> None:
        for name, data in self._connection.execute("SELECT name, bytes FROM object"):
            if blake3(data).hexdigest() != name:
                raise ValueError(name)

    def files(self, key: str) -> Sequence[Path]:  # noqa: ARG002 - one file holds them all
        raise AbsentError("needs no barrier")


@contextlib.asynccontextmanager
async def _plain(folder: Path) -> AsyncGenerator[PlainFiles]:
    yield PlainFiles(folder, synced=False)


@contextlib.asynccontextmanager
async def _synced(folder: Path) -> AsyncGenerator[PlainFiles]:
    yield PlainFiles(folder, synced=True)


@contextlib.asynccontextmanager
async def _sqlite(folder: Path) -> AsyncGenerator[SqliteBlobs]:
    opening = sqlite3.connect(folder / "db", isolation_level=None, check_same_thread=False)
    with contextlib.closing(opening) as connection:
        assert connection.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE object (name TEXT PRIMARY KEY, bytes BLOB) STRICT")
        sync([folder / "db"])
        yield SqliteBlobs(connection)


FILES = (
    Peer(
        name="plain files",
        durable="nothing synced",
        syncs=False,
        verifies=False,
        open=_plain,
    ),
    Peer(
        name="plain files, fsync",
        durable="file and folder synced",
        syncs=True,
        verifies=False,
        open=_synced,
    ),
    Peer(
        name="SQLite blobs",
        durable="WAL, synchronous=FULL",
        syncs=True,
        verifies=False,
        open=_sqlite,
    ),
)
