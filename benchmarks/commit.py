"""What does attaching new bytes cost beyond a durable file?

Floor: the least durable file there can be, in plain Python: an unnamed file, written, synced,
linked to its name, and the directory synced. The second row puts the bytes into SQLite, one
transaction each. Ours includes sniffing the type, hashing, and the way to a thread and back.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from attachstore import AdmissionPolicy, Store
from benchmarks.measure import Plan, Question, Row, interleave, kibibytes, main, noise

SIZES_BYTES = (4 << 10, 16 << 10, 100 << 10)

FILE = Question(
    text="attach new bytes / durable file",
    floor="write, fsync, link, fsync directory",
    target=0.5,
    ours_durable="durable: bytes and name synced",
    floor_durable="durable: bytes and name synced",
)
SQLITE = Question(
    text="attach new bytes / SQLite blob",
    floor="INSERT of a blob and COMMIT, WAL, synchronous=FULL",
    target=1.0,
    ours_durable="durable: bytes and name synced",
    floor_durable="durable: write-ahead log synced",
)


async def measure(plan: Plan) -> list[Row]:
    rows = list[Row]()
    rounds = plan.choose(full=100, quick=3)
    files = plan.directory / "files"
    files.mkdir()
    database = _database(plan.directory / "blobs.sqlite")
    async with Store.open(plan.directory / "store", policy=AdmissionPolicy.any()) as store:
        for size_bytes in SIZES_BYTES:

            async def ours(size_bytes: int = size_bytes) -> None:
                await store.attach(noise(size_bytes))

            async def file(size_bytes: int = size_bytes) -> None:
                write_durably(files, noise(size_bytes))

            async def sqlite(size_bytes: int = size_bytes) -> None:
                database.execute("INSERT INTO blobs (bytes) VALUES (?)", [noise(size_bytes)])

            size = kibibytes(size_bytes)
            for question, floor in ((FILE, file), (SQLITE, sqlite)):
                ratios = await interleave(ours, floor, rounds=rounds)
                rows.append(Row(question=question, size=size, ratios=ratios))
    database.close()
    return rows


def write_durably(directory: Path, data: bytes) -> None:
    """A new file in `directory`, durable with its name when this returns."""
    path = directory / os.urandom(16).hex()
    descriptor = os.open(directory, os.O_TMPFILE | os.O_WRONLY, 0o444)
    try:
        os.write(descriptor, data)
        os.fsync(descriptor)
        os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor, follow_symlinks=True)
    finally:
        os.close(descriptor)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _database(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None)  # every statement is a transaction
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE blobs (id INTEGER PRIMARY KEY, bytes BLOB)")
    return database


if __name__ == "__main__":
    main(measure)
