"""What does attaching new bytes cost beyond a durable file?

Floor: the least durable file there can be, in plain Python: an unnamed file, written, synced,
linked to its name, and the directory synced. The second row puts the bytes into SQLite, one
transaction each. Ours includes sniffing the type, hashing, and the way to a thread and back.

Once as a store is opened by default, once with the intake; and for the intake what many cost in
all, until every object has a file of its own.
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
INTAKE = Question(
    text="attach new bytes, intake / durable file",
    floor="write, fsync, link, fsync directory",
    target=0.5,
    ours_durable="durable: bytes synced in the intake, replayed by the next open",
    floor_durable="durable: bytes and name synced",
)
SUSTAINED = Question(
    text="attach 200 and close, intake / 200 durable files",
    floor="write, fsync, link, fsync directory, one after the other",
    target=1.0,
    ours_durable="durable: bytes and names synced",
    floor_durable="durable: bytes and names synced",
)
SQLITE = Question(
    text="attach new bytes / SQLite blob",
    floor="INSERT of a blob and COMMIT, WAL, synchronous=FULL",
    target=1.0,
    ours_durable="durable: bytes and name synced",
    floor_durable="durable: write-ahead log synced",
)


SUSTAINED_OBJECTS = 200


async def measure(plan: Plan) -> list[Row]:
    rows = list[Row]()
    rounds = plan.choose(full=100, quick=3)
    files = plan.directory / "files"
    files.mkdir()
    database = _database(plan.directory / "blobs.sqlite")
    policy = AdmissionPolicy.any()
    async with (
        Store.open(plan.directory / "store", policy=policy) as store,
        Store.open(plan.directory / "intake", policy=policy, intake=True) as bursting,
    ):
        for size_bytes in SIZES_BYTES:

            async def ours(size_bytes: int = size_bytes) -> None:
                await store.attach(noise(size_bytes))

            async def intake(size_bytes: int = size_bytes) -> None:
                await bursting.attach(noise(size_bytes))

            async def file(size_bytes: int = size_bytes) -> None:
                write_durably(files, noise(size_bytes))

            async def sqlite(size_bytes: int = size_bytes) -> None:
                database.execute("INSERT INTO blobs (bytes) VALUES (?)", [noise(size_bytes)])

            size = kibibytes(size_bytes)
            for question, side, floor in (
                (FILE, ours, file),
                (INTAKE, intake, file),
                (SQLITE, ours, sqlite),
            ):
                ratios = await interleave(side, floor, rounds=rounds)
                rows.append(Row(question=question, size=size, ratios=ratios))
    database.close()
    return [*rows, await _sustained(plan, files)]


async def _sustained(plan: Plan, files: Path) -> Row:
    count = plan.choose(full=SUSTAINED_OBJECTS, quick=5)
    root, size_bytes = plan.directory / "sustained", 16 << 10
    async with Store.open(root):  # making its directories is not the question
        pass

    async def ours() -> None:
        # In process: the start of a worker would be most of it.
        opening = Store.open(
            root, policy=AdmissionPolicy.any(), intake=True, decode_in_process=True
        )
        async with opening as store:
            for _ in range(count):
                await store.attach(noise(size_bytes))

    async def floor() -> None:
        for _ in range(count):
            write_durably(files, noise(size_bytes))

    ratios = await interleave(ours, floor, rounds=plan.choose(full=8, quick=2))
    return Row(question=SUSTAINED, size=kibibytes(size_bytes), ratios=ratios)


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
