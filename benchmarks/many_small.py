"""Ten thousand texts of 1 KiB: one by one, with 8 tasks, in a batch; then a scan (case 151).

Three things are asked: what a batch costs beside one by one, per object; how many syncs each
makes until all have files, counted, which no busy machine changes; and whether anything grows
with the number: the last tenth against the first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from attachstore import AdmissionPolicy, Store
from attachstore.disk import Disk
from benchmarks.measure import Plan, Question, Row, text

SIZE_BYTES = 1 << 10
TENTHS = 10
TASKS = 8
FIRST = "one by one, no intake"

Way = Callable[[Store, list[bytes]], Awaitable[object]]


class CountingDisk(Disk):
    """A disk that counts what it is asked to sync."""

    def __init__(self) -> None:
        self.syncs = 0

    def sync_file(self, descriptor: int) -> None:
        self.syncs += 1
        super().sync_file(descriptor)

    def sync_data(self, descriptor: int) -> None:
        self.syncs += 1
        super().sync_data(descriptor)

    def sync_directory(self, path: Path) -> None:
        self.syncs += 1
        super().sync_directory(path)


async def measure(plan: Plan) -> list[Row]:
    count = plan.choose(full=2_000 if plan.reduced else 10_000, quick=10)
    size = f"{count} x 1 KiB"
    ways: dict[str, tuple[Way, bool]] = {
        FIRST: (_one_by_one, False),
        f"{TASKS} tasks, no intake": (_with_tasks, False),
        "in batches, no intake": (_batch, False),
        "one by one": (_one_by_one, True),
        f"{TASKS} tasks": (_with_tasks, True),
        "in batches": (_batch, True),
    }
    rows, spent_s, syncs = list[Row](), dict[str, float](), dict[str, int]()
    for number, (name, (way, intake)) in enumerate(ways.items()):
        root, disk = plan.directory / str(number), CountingDisk()
        policy = AdmissionPolicy.any()
        async with Store.open(root, policy=policy, intake=intake, disk=disk) as store:
            before = disk.syncs
            tenths = [await _timed(way, store, count // TENTHS) for _ in range(TENTHS)]
            start_s = time.perf_counter()
            await store.drain()
            spent_s[name] = sum(tenths) + time.perf_counter() - start_s
            syncs[name] = disk.syncs - before
            rows.append(_row(f"{name}: last tenth / first", size, tenths[-1] / tenths[0], 1.5))
    for name in list(ways)[1:]:
        batch = name == "in batches"
        time_ratio, sync_ratio = spent_s[name] / spent_s[FIRST], syncs[name] / syncs[FIRST]
        rows += [
            _row(f"{name} / {FIRST}, time", size, time_ratio, 1.0 if batch else None),
            _row(f"{name} / {FIRST}, syncs", size, sync_ratio, 0.5 if batch else None),
        ]
    rows.append(_row(f"{FIRST}: syncs for each object", size, syncs[FIRST] / count, None))
    rows.append(await _scanned(plan.directory, size, count, spent_s[FIRST]))
    return rows


async def _timed(way: Way, store: Store, count: int) -> float:
    contents = [text(SIZE_BYTES) for _ in range(count)]
    start_s = time.perf_counter()
    await way(store, contents)
    return time.perf_counter() - start_s


async def _scanned(directory: Path, size: str, count: int, attached_s: float) -> Row:
    async with Store.open(directory / "0", policy=AdmissionPolicy.any()) as store:
        start_s = time.perf_counter()
        report = await store.scan()
        scanned_s = time.perf_counter() - start_s
    assert report.clean
    assert report.objects == count
    return _row("scan of them / attaching them one by one", size, scanned_s / attached_s, 1.0)


async def _one_by_one(store: Store, contents: list[bytes]) -> None:
    for content in contents:
        await store.attach(content)


async def _with_tasks(store: Store, contents: list[bytes]) -> None:
    shares = [contents[first::TASKS] for first in range(TASKS)]
    await asyncio.gather(*(_one_by_one(store, share) for share in shares))


async def _batch(store: Store, contents: list[bytes]) -> None:
    await store.attach_many(contents)


def _row(what: str, size: str, ratio: float, target: float | None) -> Row:
    question = Question(
        text=f"many small, {what}",
        floor=what.partition(" / ")[2] or "nothing",
        target=target,
        ours_durable="durable: bytes and names synced",
        floor_durable="durable: bytes and names synced",
        group="many small",
    )
    return Row(question=question, size=size, ratios=(ratio,))
