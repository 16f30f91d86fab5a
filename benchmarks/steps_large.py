"""Where the time of large work goes: a file attached, attached again, a session read back.

As benchmarks/steps.py: no targets, each step against the floor of its call.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

from blake3 import blake3

from attachstore import AdmissionPolicy, Store
from benchmarks.large import copy_durably
from benchmarks.measure import Plan, Row, kibibytes, noise
from benchmarks.replay import APPEND_EVENTS, message, parse_and_hash
from benchmarks.steps import at_once, steps

BLOCK_BYTES = 1 << 20


async def measure(plan: Plan) -> list[Row]:
    size_bytes = plan.choose(full=64 << 20, quick=1 << 20)
    path = plan.directory / "file"
    path.write_bytes(noise(size_bytes))
    async with Store.open(plan.directory / "store", policy=AdmissionPolicy.any()) as store:
        return [
            *await _copied(path, kibibytes(size_bytes), plan),
            *await _hashed(store, path, kibibytes(size_bytes), plan),
            *await _read_back(store, plan),
        ]


async def _copied(path: Path, size: str, plan: Plan) -> list[Row]:
    copy = plan.directory / "copy"

    async def floor() -> None:
        copy_durably(path, copy)

    def copied() -> None:
        subprocess.run(["cp", "--", str(path), str(copy)], check=True)

    def written() -> None:
        _write_and_sync(path, plan.directory / "written")

    return await steps(
        f"attach {size}",
        "cp, fsync of the copy",
        {
            "cp, nothing synced": at_once(copied),
            "read, write in 1 MiB blocks, fsync": at_once(written),
            "read, BLAKE3": at_once(lambda: _hash_blocks(path)),
        },
        floor,
        plan,
    )


async def _hashed(store: Store, path: Path, size: str, plan: Plan) -> list[Row]:
    reference = await store.attach(path)

    async def floor() -> None:
        _hash_mapped(path)

    async def whole() -> None:
        await store.attach(path)

    return await steps(
        f"duplicate {size}",
        "BLAKE3 of the file, mapped, all cores",
        {
            "attach again": whole,
            "the stored object hashed and synced": at_once(
                lambda: store.objects.confirm(reference)
            ),
            "read in 1 MiB blocks, BLAKE3 by one thread": at_once(lambda: _hash_blocks(path)),
            "read in 1 MiB blocks": at_once(lambda: _read_blocks(path)),
        },
        floor,
        plan,
    )


async def _read_back(store: Store, plan: Plan) -> list[Row]:
    events = plan.choose(full=20_000, quick=1_000)
    await _write_events(store, events)
    (log,) = (plan.directory / "store" / "sessions").rglob("log.jsonl")

    async def floor() -> None:
        parse_and_hash(log)

    async def whole() -> None:
        async for _ in store.replay("s-1"):
            pass

    async def events_only() -> None:
        async for _ in store.sessions.read("s-1"):
            pass

    def without_a_thread() -> None:
        for _ in store.logs.events("s-1"):
            pass

    def chain_only() -> None:
        for _ in store.logs.deferred_runs("s-1"):
            pass

    return await steps(
        f"replay {events:,} events",
        "json.loads and BLAKE3 of each line",
        {
            "replay": whole,
            "read the events": events_only,
            "read the events, without a thread": at_once(without_a_thread),
            "cut the lines and check their chain": at_once(chain_only),
            "json.loads of each line": at_once(lambda: _parse(log)),
            "one switch of the loop for each": lambda: _switch(events),
        },
        floor,
        plan,
    )


async def _write_events(store: Store, events: int) -> None:
    session = await store.sessions.create("s-1")
    for _ in range(events // APPEND_EVENTS):
        await session.append_many([("message", message()) for _ in range(APPEND_EVENTS)])
    await session.close()


def _parse(path: Path) -> None:
    with path.open("rb") as file:
        for line in file:
            json.loads(line)


async def _switch(times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


def _hash_mapped(path: Path) -> None:
    blake3(max_threads=blake3.AUTO).update_mmap(path).digest()


def _read_blocks(path: Path) -> None:
    buffer = bytearray(BLOCK_BYTES)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def _hash_blocks(path: Path) -> None:
    state, buffer = blake3(), memoryview(bytearray(BLOCK_BYTES))
    with path.open("rb", buffering=0) as file:
        while filled := file.readinto(buffer):
            state.update(buffer[:filled])
    state.digest()


def _write_and_sync(source: Path, target: Path) -> None:
    with source.open("rb", buffering=0) as given, target.open("wb", buffering=0) as made:
        while block := given.read(BLOCK_BYTES):
            made.write(block)
        os.fsync(made.fileno())
    target.unlink()
