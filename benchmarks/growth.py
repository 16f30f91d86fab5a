"""What grows with the number of objects in a store? Attach, read, list, a scan's start, its memory.

Stores of 1 000, 10 000 and 100 000 objects side by side; the quotient is that to the smallest.
What has to look at every object is divided by their number. The objects are put where the format
says without syncing them, as attaching so many is not the question; a tenth of a tenth as many
sessions are created as a caller does. `--million` adds a store of 1 000 000.
"""

from __future__ import annotations

import dataclasses
import itertools
import subprocess
import sys
from pathlib import Path

from blake3 import blake3

from attachstore import AdmissionPolicy, Digest, Store
from benchmarks.listing import fill
from benchmarks.measure import Plan, Question, Rounds, Row, Side, spent, text

COUNTS = (1_000, 10_000, 100_000)
MILLION = 1_000_000
OBJECT_BYTES = 100
READ, ATTACHED = 20, 5
SESSIONS_EACH = 100
TARGET = 1.25
MEMORY_TARGET = 1.5

MEMORY = """
import asyncio, sys
from pathlib import Path
from attachstore import Store

async def main():
    async with Store.open(sys.argv[1], read_only=True) as store:
        assert (await store.scan()).clean

asyncio.run(main())
status = Path("/proc/self/status").read_text().split()
print(status[status.index("VmHWM:") + 1])
"""
"""Not `ru_maxrss`: Linux hands that on to a program from the process that has started it."""


async def measure(plan: Plan) -> list[Row]:
    full = (*(COUNTS[:2] if plan.reduced else COUNTS), *([MILLION] if plan.million else []))
    counts = (20, 40) if plan.quick else full
    found: dict[str, dict[int, tuple[float, ...]]] = {}
    roots = {count: plan.directory / str(count) for count in counts}
    for count, root in roots.items():
        await _make(root, count)
    stores = {
        count: Store.open(root, policy=AdmissionPolicy.any()) for count, root in roots.items()
    }
    opened = {count: await opening for count, opening in stores.items()}
    try:
        for what, sides in {
            "attach": {count: _attach(store) for count, store in opened.items()},
            "read": {count: await _read(store) for count, store in opened.items()},
            "list, for each object": {count: _list(store) for count, store in opened.items()},
            "list the sessions, for each": {
                count: _sessions(store) for count, store in opened.items()
            },
            "start a scan, for each object": {
                count: _scan_start(store) for count, store in opened.items()
            },
        }.items():
            found[what] = await _spent(sides, plan.rounds(30), per_object="each" in what)
    finally:
        for store in opened.values():
            await store.close()
    found["memory of a scan, peak"] = {count: (_memory(root),) for count, root in roots.items()}
    return [row for what, each in found.items() for row in _rows(what, each)]


async def _make(root: Path, count: int) -> None:
    async with Store.open(root) as store:
        await fill(store, max(1, count // SESSIONS_EACH))
    for _ in range(count):
        data = text(OBJECT_BYTES)
        name = blake3(data).hexdigest()
        path = root / "objects" / "blake3" / name[:2] / name
        path.write_bytes(data)
        path.chmod(0o444)


async def _spent(
    sides: dict[int, Side], rounds: Rounds, *, per_object: bool
) -> dict[int, tuple[float, ...]]:
    each = await spent(list(sides.values()), rounds=rounds)
    return {
        count: tuple(round_ns[number] / (count if per_object else 1) for round_ns in each)
        for number, count in enumerate(sides)
    }


def _rows(what: str, each: dict[int, tuple[float, ...]]) -> list[Row]:
    smallest = min(each)
    question = Question(
        text=f"growth: {what} / in a store of {smallest:,}",
        floor=f"the same in a store of {smallest:,} objects",
        target=MEMORY_TARGET if what.startswith("memory") else TARGET,
        ours_durable="as attach, else reads only",
        floor_durable="the same",
        group="growth",
    )
    return [
        Row(
            question=question if count > smallest else dataclasses.replace(question, target=None),
            size=f"{count:,}",
            ratios=tuple(mine / base for mine, base in zip(spent, each[smallest], strict=True)),
        )
        for count, spent in each.items()
    ]


def _attach(store: Store) -> Side:
    async def side() -> None:
        for _ in range(ATTACHED):
            await store.attach(text(OBJECT_BYTES))

    return side


async def _read(store: Store) -> Side:
    digests = list[Digest]()
    async for digest in store.list():
        digests.append(digest)
    chosen = itertools.cycle(digests[:: max(1, len(digests) // 500)])

    async def side() -> None:
        for _ in range(READ):
            await store.read(next(chosen))

    return side


def _list(store: Store) -> Side:
    async def side() -> None:
        async for _ in store.list():
            pass

    return side


def _sessions(store: Store) -> Side:
    async def side() -> None:
        await store.sessions.list()

    return side


def _scan_start(store: Store) -> Side:
    """All objects are listed and all logs are read; next to no object is."""

    async def side() -> None:
        await store.scan(subset=(1, 4096))

    return side


def _memory(root: Path) -> float:
    command = [sys.executable, "-c", MEMORY, str(root)]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1]
    )
    return float(done.stdout)
