"""How much do tasks that attach at the same time gain, and a batch, over one writer?

The quotient is that of the times for one attachment: ours with N tasks, or `attach_many`, against
ours one by one without the intake. Each task attaches one after the other, until all have attached
the same number together.
"""

from __future__ import annotations

import asyncio
import itertools
import time

from attachstore import AdmissionPolicy, Store
from benchmarks.measure import Plan, Question, Row, Side, Supply, spent

TASKS = (1, 8, 32, 64)
SIZE_BYTES = 16 << 10
ROUND = 256
"""Attachments of all tasks together, each time."""
BATCH = 1_000
TARGET = round(1 / 6, 3)
DURABLE = "durable: bytes and names synced"


async def measure(plan: Plan) -> list[Row]:
    policy = AdmissionPolicy.any()
    batch, each = plan.choose(full=BATCH, quick=8), plan.choose(full=ROUND, quick=8)
    async with (
        Store.open(plan.directory / "files", policy=policy, intake=False) as files,
        Store.open(plan.directory / "intake", policy=policy) as intake,
    ):
        sides: dict[tuple[str, str], tuple[int, Side]] = {}
        new = Supply(SIZE_BYTES, 2 * (len(TASKS) * each + batch))
        for how, store in (("files", files), ("intake", intake)):
            for tasks in TASKS:
                sides[how, f"{tasks} tasks"] = (each, _with_tasks(store, tasks, each, new))
            sides[how, f"attach_many of {batch:,}"] = (batch, _batch(store, batch, new))
        calls = [side for _, side in sides.values()]
        rounds = await spent(calls, rounds=plan.rounds(12), prepare=new.refill)
        used = [
            await _processor_use(f"{how}, {what}", sides[how, what][1], new, plan)
            for how, what in sides
            if what == "32 tasks"
        ]
    compared = [
        Row(
            question=_question(how, what),
            size=what,
            ratios=tuple((ns[number] / count) / (ns[0] / each) for ns in rounds),
        )
        for number, ((how, what), (count, _)) in enumerate(sides.items())
    ]
    return [*compared, *used]


async def _processor_use(what: str, side: Side, new: Supply, plan: Plan) -> Row:
    """What share of the time this process computes: at 1 and above it waits for no disk."""
    shares = list[float]()
    for _ in range(plan.choose(full=5, quick=2)):
        new.refill()
        start_ns, start_used_ns = time.perf_counter_ns(), time.process_time_ns()
        await side()
        used_ns = time.process_time_ns() - start_used_ns
        shares.append(used_ns / (time.perf_counter_ns() - start_ns))
    return Row(
        question=Question(
            text=f"attach 16 KiB, {what}: processor time / elapsed",
            floor="the elapsed time of the same calls",
            target=None,
            ours_durable="a step",
            floor_durable="the whole",
            group="steps",
        ),
        size="16 KiB",
        ratios=tuple(shares),
    )


def _question(how: str, what: str) -> Question:
    aimed = what.startswith(("32", "attach_many"))
    return Question(
        text=f"attach 16 KiB, {how}: {what} / one writer",
        floor="ours, one by one, without an intake",
        target=TARGET if aimed else None,
        ours_durable=DURABLE if how == "files" else "durable: bytes synced in the intake",
        floor_durable=DURABLE,
        group="concurrent",
    )


def _with_tasks(store: Store, tasks: int, count: int, new: Supply) -> Side:
    async def side() -> None:
        left = itertools.count()

        async def attach() -> None:
            while next(left) < count:
                await store.attach(new())

        await asyncio.gather(*(attach() for _ in range(tasks)))

    return side


def _batch(store: Store, count: int, new: Supply) -> Side:
    async def side() -> None:
        await store.attach_many([new() for _ in range(count)])

    return side
