"""What does attaching a large file cost beyond copying it?

Floor: `cp` of the file, and fsync of the copy. Ours hashes on the way, sniffs the type, and
makes the name durable too.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from attachstore import AdmissionPolicy, Store
from benchmarks.measure import Plan, Question, Row, interleave, kibibytes, noise

QUESTION = Question(
    text="attach a large file / copy it",
    floor="cp, fsync of the copy",
    target=1.1,
    ours_durable="durable: bytes and name synced",
    floor_durable="bytes synced, name not",
    group="large",
)


async def measure(plan: Plan) -> list[Row]:
    size_bytes = plan.choose(full=64 << 20, quick=1 << 20)
    path, copy = plan.directory / "file", plan.directory / "copy"
    path.write_bytes(noise(size_bytes))
    async with Store.open(plan.directory / "store", policy=AdmissionPolicy.any()) as store:

        async def ours() -> None:
            reference = await store.attach(path)
            assert reference.size == size_bytes

        async def floor() -> None:
            copy_durably(path, copy)

        def prepare() -> None:
            """New content each round, or the second attach would be a duplicate."""
            with path.open("r+b") as file:
                file.write(noise(1024))
                file.flush()
                os.fsync(file.fileno())  # else whoever syncs first pays for it
            copy.unlink(missing_ok=True)
            for stored in (plan.directory / "store" / "objects").rglob("*"):
                leave_the_cache(stored)

        rounds = plan.rounds(12)
        ratios = await interleave(ours, floor, rounds=rounds, prepare=prepare)
    return [Row(question=QUESTION, size=kibibytes(size_bytes), ratios=ratios)]


def leave_the_cache(path: Path) -> None:
    """Let the memory go that holds a file's bytes, as removing the file does.

    Without this the copy is written into memory that the last one has left, and an object, which
    stays, into memory that nobody has touched yet: to a virtual machine its host must give that
    first, page by page, at several times the price of writing it.
    """
    if path.is_file():
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def copy_durably(source: Path, target: Path) -> None:
    subprocess.run(["cp", "--", str(source), str(target)], check=True)
    descriptor = os.open(target, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
