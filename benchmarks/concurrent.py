"""How much do tasks that attach at the same time gain, and a batch, over one writer?

The quotient is that of the times for one attachment: ours with N tasks, or `attach_many`, against
ours one by one without an intake. Each task attaches one after the other, until all have attached
the same number together.
"""

from __future__ import annotations

import asyncio
import itertools

from attachstore import AdmissionPolicy, Store
from benchmarks.measure import Plan, Question, Row, Side, spent, text

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
        Store.open(plan.directory / "store", policy=policy) as files,
        Store.open(plan.directory / "intake", policy=policy, intake=True) as intake,
    ):
        sides: dict[tuple[str, str], tuple[int, Side]] = {}
        for how, store in (("files", files), ("intake", intake)):
            for tasks in TASKS:
                sides[how, f"{tasks} tasks"] = (each, _with_tasks(store, tasks, each))
            sides[how, f"attach_many of {batch:,}"] = (batch, _batch(store, batch))
        rounds = await spent([side for _, side in sides.values()], rounds=plan.rounds(12))
    return [
        Row(
            question=_question(how, what),
            size=what,
            ratios=tuple((ns[number] / count) / (ns[0] / each) for ns in rounds),
        )
        for number, ((how, what), (count, _)) in enumerate(sides.items())
    ]


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


def _with_tasks(store: Store, tasks: int, count: int) -> Side:
    async def side() -> None:
        left = itertools.count()

        async def attach() -> None:
            while next(left) < count:
                await store.attach(text(SIZE_BYTES))

        await asyncio.gather(*(attach() for _ in range(tasks)))

    return side


def _batch(store: Store, count: int) -> Side:
    async def side() -> None:
        await store.attach_many([text(SIZE_BYTES) for _ in range(count)])

    return side
