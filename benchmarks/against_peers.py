"""The same work with other stores: attach, attach again, read, scan.

Each peer is called as its own API has it; ours goes to a thread and back. One that does not sync
is measured as it is, and with a barrier added that syncs its files and their folders. One that does
not verify what it reads is measured as it is, and with a BLAKE3 of what it read; one that holds the
caller's thread while it reads also in a thread, as an asyncio program has to call it, since that
is more than all of a small read.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from blake3 import blake3

from attachstore import AdmissionPolicy, Store
from benchmarks.measure import Plan, Question, Row, Side, Supply, kibibytes, spent, text
from benchmarks.peers.catalog import CATALOG
from benchmarks.peers.peer import AbsentError, Opened, Peer, sync

SIZES_BYTES = (4 << 10, 100 << 10, 10 << 20)
SCANNED = ((4 << 10, 1000), (100 << 10, 80), (10 << 20, 4))
OURS, FILES = "attachstore", "attachstore, no intake"
DURABLE = {
    OURS: "durable: bytes synced in the intake, replayed by the next open; from 1 MiB on, and name",
    FILES: "durable: bytes and name synced",
}


class Compared:
    """Our stores and every peer that is here, each in a folder of its own, all open."""

    def __init__(self, stack: contextlib.AsyncExitStack, folder: Path) -> None:
        self._stack, self._folder = stack, folder
        self.ours: dict[str, Store] = {}
        self.peers: list[tuple[Peer, Opened]] = []

    async def open(self) -> None:
        policy = AdmissionPolicy.any()
        for name, intake in ((OURS, True), (FILES, False)):
            opening = Store.open(self._folder / name, policy=policy, intake=intake)
            self.ours[name] = await self._stack.enter_async_context(opening)
        for peer in CATALOG:
            folder = self._folder / peer.name
            folder.mkdir()
            with contextlib.suppress(AbsentError):  # the page names what is absent
                self.peers.append((peer, await self._stack.enter_async_context(peer.open(folder))))


class Operation:
    """The sides of one comparison, and which of them promise as much as ours."""

    def __init__(self, name: str, size: str, prepare: Callable[[], None] = lambda: None) -> None:
        self._name, self._size = name, size
        self._ours: dict[str, Side] = {}
        self._theirs: dict[str, tuple[Side, str, bool]] = {}
        self._prepare = prepare

    def add_ours(self, name: str, side: Side) -> None:
        self._ours[name] = side

    def add(self, name: str, side: Side, promise: str, *, equal: bool) -> None:
        self._theirs[name] = (side, promise, equal)

    async def rows(self, plan: Plan) -> list[Row]:
        sides = [*self._ours.values(), *(side for side, _, _ in self._theirs.values())]
        each = await spent(sides, rounds=plan.rounds(60), prepare=self._prepare)
        first = len(self._ours)
        return [
            Row(
                question=self._question(ours, theirs),
                size=self._size,
                ratios=tuple(round_ns[mine] / round_ns[first + their] for round_ns in each),
            )
            for mine, ours in enumerate(self._ours)
            for their, theirs in enumerate(self._theirs)
        ]

    def _question(self, ours: str, theirs: str) -> Question:
        _, promise, equal = self._theirs[theirs]
        return Question(
            text=f"{self._name}: {ours} / {theirs}",
            floor=theirs,
            target=1.0 if equal and ours == OURS else None,
            ours_durable=DURABLE[ours] if self._name in {"attach", "duplicate"} else "verified",
            floor_durable=promise,
            group="peers",
        )


async def measure(plan: Plan) -> list[Row]:
    rows = list[Row]()
    sizes = SIZES_BYTES[:1] if plan.quick else SIZES_BYTES
    async with contextlib.AsyncExitStack() as stack:
        compared = Compared(stack, plan.directory)
        await compared.open()
        for size_bytes in sizes:
            size = kibibytes(size_bytes)
            new = Supply(size_bytes, len(compared.ours) + 2 * len(compared.peers))
            rows += await _writing(compared, "attach", size, new, new.refill).rows(plan)
            same = text(size_bytes)
            await compared.ours[OURS].attach(same)
            await compared.ours[OURS].drain()
            rows += await _writing(compared, "duplicate", size, lambda same=same: same).rows(plan)
            rows += await (await _reading(compared, size, text(size_bytes))).rows(plan)
    for size_bytes, count in SCANNED[:1] if plan.quick else SCANNED:
        rows += await _scan(plan, size_bytes, plan.choose(full=count, quick=3))
    return rows


def _writing(
    compared: Compared,
    name: str,
    size: str,
    made: Callable[[], bytes],
    prepare: Callable[[], None] = lambda: None,
) -> Operation:
    operation = Operation(name, size, prepare)
    for ours, store in compared.ours.items():
        if name == "attach" or ours == OURS:
            operation.add_ours(ours, _attach(store, made))
    for peer, opened in compared.peers:
        operation.add(peer.name, _put(opened, made), peer.durable, equal=peer.syncs)
        if not peer.syncs:
            side = _put_and_sync(opened, made)
            operation.add(f"{peer.name} + barrier", side, "files and folders synced", equal=True)
    return operation


async def _reading(compared: Compared, size: str, data: bytes) -> Operation:
    operation = Operation("read", size)
    store = compared.ours[OURS]
    reference = await store.attach(data)
    await store.drain()  # a file is what is read most of the time

    async def ours() -> None:
        await store.read(reference)

    operation.add_ours(OURS, ours)
    for peer, opened in compared.peers:
        key = await opened.put(data)
        as_it_is = _read(opened, key, verified=False)
        promise = "verified" if peer.verifies else "not verified"
        equal = peer.verifies and not peer.blocks
        operation.add(peer.name, as_it_is, promise, equal=equal)
        side, name, promise = as_it_is, peer.name, "verified"
        if not peer.verifies:
            side, name = _read(opened, key, verified=True), f"{peer.name} + hash"
            promise = "BLAKE3 of what was read"
            operation.add(name, side, promise, equal=not peer.blocks)
        if peer.blocks:
            operation.add(f"{name}, in a thread", _in_thread(side), promise, equal=True)
    return operation


async def _scan(plan: Plan, size_bytes: int, count: int) -> list[Row]:
    operation = Operation("scan", f"{count} x {kibibytes(size_bytes)}")
    async with contextlib.AsyncExitStack() as stack:
        folder = plan.directory / f"scan-{size_bytes}"
        folder.mkdir()
        compared = Compared(stack, folder)
        await compared.open()
        store = compared.ours[OURS]
        contents = [text(size_bytes) for _ in range(count)]
        await store.attach_many(contents)
        await store.drain()

        async def ours() -> None:
            report = await store.scan()
            assert report.clean
            assert report.objects == count

        operation.add_ours(OURS, ours)
        for peer, opened in compared.peers:
            for data in contents:
                await opened.put(data)
            with contextlib.suppress(AbsentError):
                await opened.scan()  # whether it has one
                operation.add(peer.name, opened.scan, "every object hashed", equal=True)
        return await operation.rows(plan)


def _in_thread(side: Side) -> Side:
    """Of a side that never waits for the loop, so that one step ends it."""

    def ended() -> None:
        try:
            side().__await__().__next__()
        except StopIteration:
            return
        raise TypeError("it waits for the loop")

    async def threaded() -> None:
        await asyncio.get_running_loop().run_in_executor(None, ended)

    return threaded


def _attach(store: Store, made: Callable[[], bytes]) -> Side:
    async def side() -> None:
        await store.attach(made())

    return side


def _put(opened: Opened, made: Callable[[], bytes]) -> Side:
    async def side() -> None:
        await opened.put(made())

    return side


def _put_and_sync(opened: Opened, made: Callable[[], bytes]) -> Side:
    async def side() -> None:
        sync(opened.files(await opened.put(made())))

    return side


def _read(opened: Opened, key: Any, *, verified: bool) -> Side:
    async def side() -> None:
        data = await opened.read(key)
        if verified:
            blake3(data).digest()

    return side
