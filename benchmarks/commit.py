"""What does attaching new bytes cost beyond a durable file?

Floor: the least durable file there can be, in plain Python: an unnamed file, written, synced,
linked to its name, and the directory synced. The second row puts the bytes into SQLite, one
transaction each. Ours includes sniffing the type, hashing, and the way to a thread and back.

Once as a store is opened by default, with the intake, once without; and with it what many cost in
all, until every object has a file of its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sqlite3
from pathlib import Path

from attachstore import AdmissionPolicy, Store
from benchmarks.measure import (
    NOISE_FRONT,
    Plan,
    Question,
    Row,
    Supply,
    interleave,
    kibibytes,
    spent,
)

SIZES_BYTES = (1 << 10, 4 << 10, 16 << 10, 100 << 10, 1 << 20)
AIMED_BYTES = range(4 << 10, (100 << 10) + 1)

FILE = Question(
    text="attach new bytes, no intake / durable file",
    floor="write, fsync, link, fsync directory",
    target=None,
    ours_durable="durable: bytes and name synced",
    floor_durable="durable: bytes and name synced",
    group="attach",
)
INTAKE = Question(
    text="attach new bytes / durable file",
    floor="write, fsync, link, fsync directory",
    target=0.5,
    ours_durable="durable: bytes synced in the intake, replayed by the next open",
    floor_durable="durable: bytes and name synced",
    group="attach",
)
NOISE = Question(
    text="attach bytes that only libmagic names / durable file",
    floor="write, fsync, link, fsync directory",
    target=None,
    ours_durable=INTAKE.ours_durable,
    floor_durable="durable: bytes and name synced",
    group="attach",
)
SUSTAINED = Question(
    text="attach 200 and close / 200 durable files",
    floor="write, fsync, link, fsync directory, one after the other",
    target=1.0,
    ours_durable="durable: bytes and names synced",
    floor_durable="durable: bytes and names synced",
    group="attach",
)
SQLITE = Question(
    text="attach new bytes / SQLite blob",
    floor="INSERT of a blob and COMMIT, WAL, synchronous=FULL",
    target=1.0,
    ours_durable=INTAKE.ours_durable,
    floor_durable="durable: write-ahead log synced",
    group="attach",
)
FILE_SQLITE = dataclasses.replace(
    SQLITE,
    text="attach new bytes, no intake / SQLite blob",
    target=None,
    ours_durable=FILE.ours_durable,
)
SUSTAINED_OBJECTS = 200


async def measure(plan: Plan) -> list[Row]:
    rows = list[Row]()
    files = plan.directory / "floor"
    files.mkdir()
    policy = AdmissionPolicy.any()
    async with (
        Store.open(plan.directory / "files", policy=policy, intake=False) as at_once,
        Store.open(plan.directory / "store", policy=policy) as store,
    ):
        with contextlib.closing(_database(plan.directory / "blobs.sqlite")) as database:
            for size_bytes in SIZES_BYTES[:1] if plan.quick else SIZES_BYTES:
                rows += await _of_size(plan, size_bytes, store, at_once, files, database)
    return [*rows, await _sustained(plan, files)]


async def _of_size(
    plan: Plan,
    size_bytes: int,
    store: Store,
    at_once: Store,
    files: Path,
    database: sqlite3.Connection,
) -> list[Row]:
    new = Supply(size_bytes, 5)

    async def no_intake() -> None:
        await at_once.attach(new())

    async def unnamed() -> None:
        await store.attach(NOISE_FRONT + new()[len(NOISE_FRONT) :])

    async def ours() -> None:
        await store.attach(new())

    async def file() -> None:
        write_durably(files, new())

    async def sqlite() -> None:
        database.execute("INSERT INTO blobs (bytes) VALUES (?)", [new()])

    sides = [no_intake, ours, unnamed, file, sqlite]
    each = await spent(sides, rounds=plan.rounds(100), prepare=new.refill)
    pairs = [
        (FILE, no_intake, file),
        (INTAKE, ours, file),
        (SQLITE, ours, sqlite),
        (FILE_SQLITE, no_intake, sqlite),
        (NOISE, unnamed, file),
    ]
    return [
        Row(
            question=question
            if size_bytes in AIMED_BYTES
            else dataclasses.replace(question, target=None),
            size=kibibytes(size_bytes),
            ratios=tuple(
                round_ns[sides.index(mine)] / round_ns[sides.index(theirs)] for round_ns in each
            ),
        )
        for question, mine, theirs in pairs
    ]


async def _sustained(plan: Plan, files: Path) -> Row:
    count = plan.choose(full=SUSTAINED_OBJECTS, quick=5)
    root, size_bytes = plan.directory / "sustained", 16 << 10
    async with Store.open(root):  # making its directories is not the question
        pass

    new = Supply(size_bytes, 2 * count)

    async def ours() -> None:
        # In process: the start of a worker would be most of it.
        async with Store.open(root, policy=AdmissionPolicy.any(), decode_in_process=True) as store:
            for _ in range(count):
                await store.attach(new())

    async def floor() -> None:
        for _ in range(count):
            write_durably(files, new())

    ratios = await interleave(ours, floor, rounds=plan.rounds(8), prepare=new.refill)
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
