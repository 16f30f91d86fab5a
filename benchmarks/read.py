"""What does a verified read cost beyond reading and hashing?

Floors, in plain Python: for small objects open, read and BLAKE3 in one `run_in_executor` call
(the least an asyncio program can do without blocking its loop); for large ones the same without
a thread. Ours compares the object with its reference as well.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from blake3 import blake3

from attachstore import AdmissionPolicy, Store
from benchmarks.measure import Plan, Question, Rounds, Row, interleave, kibibytes, noise

SMALL = Question(
    text="verified read / read + hash in a thread",
    floor="open, read, BLAKE3 in one run_in_executor call",
    target=1.5,
    ours_durable="reads only",
    floor_durable="reads only",
    group="read",
)
LARGE = Question(
    text="verified read / read + hash",
    floor="open, read, BLAKE3",
    target=1.1,
    ours_durable="reads only",
    floor_durable="reads only",
    group="read",
)


async def measure(plan: Plan) -> list[Row]:
    async with Store.open(plan.directory / "store", policy=AdmissionPolicy.any()) as store:
        return [
            await _read(store, plan, SMALL, 16 << 10, rounds=plan.rounds(300)),
            await _read(
                store,
                plan,
                LARGE,
                plan.choose(full=64 << 20, quick=1 << 20),
                rounds=plan.rounds(20),
            ),
        ]


async def _read(
    store: Store, plan: Plan, question: Question, size_bytes: int, *, rounds: Rounds
) -> Row:
    data = noise(size_bytes)
    path = plan.directory / f"file-{size_bytes}"
    path.write_bytes(data)
    reference = await store.attach(data)
    loop = asyncio.get_running_loop()

    async def ours() -> None:
        await store.read(reference)

    async def in_thread() -> None:
        await loop.run_in_executor(None, read_and_hash, path)

    async def directly() -> None:
        read_and_hash(path)

    floor = in_thread if question is SMALL else directly
    ratios = await interleave(ours, floor, rounds=rounds)
    return Row(question=question, size=kibibytes(size_bytes), ratios=ratios)


def read_and_hash(path: Path) -> tuple[bytes, bytes]:
    """What somebody would write without attachstore."""
    data = path.read_bytes()
    return data, blake3(data).digest()
