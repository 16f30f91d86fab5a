"""Are ten thousand sessions listed in a second, and ten times as many in ten times the time?

On each medium. The figure is seconds, which no quotient can say; what a machine's load does to it
is seen in the growth beside it: listing the small store ten times, in the same round. A listing
reads a header and a last line for each session, from the machine's disk cache here.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time

from attachstore import Store
from benchmarks.measure import Plan, Question, Row, interleave, main

IN_A_SECOND = Question(
    text="seconds to list 10 000 sessions",
    floor="one second",
    target=1.0,
    ours_durable="reads only",
    floor_durable="no call at all",
)
GROWTH = Question(
    text="list all sessions / a tenth of them, 10 times",
    floor="a store with a tenth of the sessions",
    target=1.25,
    ours_durable="reads only",
    floor_durable="reads only",
)
EVENTS = 4
TASKS = 16


async def measure(plan: Plan) -> list[Row]:
    return [row for kind in ("jsonl", "sqlite") for row in await _measure(plan, kind)]


async def _measure(plan: Plan, kind: str) -> list[Row]:
    count = plan.choose(full=10_000, quick=40)
    seconds = list[float]()
    async with (
        Store.open(plan.directory / f"{kind}-all", sessions=kind) as large,
        Store.open(plan.directory / f"{kind}-tenth", sessions=kind) as small,
    ):
        await _fill(large, count)
        await _fill(small, count // 10)

        async def ours() -> None:
            start_ns = time.perf_counter_ns()
            assert len(await large.sessions.list()) == count
            seconds.append((time.perf_counter_ns() - start_ns) / 1e9)

        async def floor() -> None:
            for _ in range(10):
                assert len(await small.sessions.list()) == count // 10

        growth = await interleave(ours, floor, rounds=plan.choose(full=15, quick=2))
    rows = [Row(question=GROWTH, size=f"{count} sessions", ratios=growth)]
    rows.insert(0, Row(question=IN_A_SECOND, size=f"{count} sessions", ratios=tuple(seconds[1:])))
    return [
        dataclasses.replace(
            row, question=dataclasses.replace(row.question, text=f"{row.question.text}: {kind}")
        )
        for row in rows
    ]


async def _fill(store: Store, count: int) -> None:
    """Many at a time: each costs its syncs, which a journal groups."""

    async def fill(numbers: range) -> None:
        for number in numbers:
            session = await store.sessions.create(f"s-{number}", meta={"title": f"No. {number}"})
            await session.append_many(
                [("message", {"role": "user", "content": "x" * 450})] * EVENTS
            )
            await session.close()

    await asyncio.gather(*(fill(range(first, count, TASKS)) for first in range(TASKS)))


if __name__ == "__main__":
    main(measure)
