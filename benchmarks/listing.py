"""Are ten thousand sessions listed in a second, and ten times as many in ten times the time?

On each medium. The figure is seconds, which no quotient can say: those on the clock, and those that
this process had a processor for, which are the same on a machine that does nothing else. A listing
reads a header and a last line for each session, from the machine's disk cache here. The growth is
that of listing a tenth of them ten times, in the same round.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time

from attachstore import Store
from benchmarks.measure import Plan, Question, Row, interleave

IN_A_SECOND = Question(
    text="seconds to list 10 000 sessions",
    floor="one second",
    target=1.0,
    ours_durable="reads only",
    floor_durable="no call at all",
    group="listing",
)
OF_CPU = dataclasses.replace(IN_A_SECOND, text="CPU seconds to list 10 000 sessions")
GROWTH = Question(
    text="list all sessions / a tenth of them, 10 times",
    floor="a store with a tenth of the sessions",
    target=1.25,
    ours_durable="reads only",
    floor_durable="reads only",
    group="listing",
)
EVENTS = 4
TASKS = 16


async def measure(plan: Plan) -> list[Row]:
    return [row for kind in ("jsonl", "sqlite") for row in await _measure(plan, kind)]


async def _measure(plan: Plan, kind: str) -> list[Row]:
    count = plan.choose(full=10_000, quick=40)
    seconds, cpu_seconds = list[float](), list[float]()
    async with (
        Store.open(plan.directory / f"{kind}-all", sessions=kind) as large,
        Store.open(plan.directory / f"{kind}-tenth", sessions=kind) as small,
    ):
        await fill(large, count)
        await fill(small, count // 10)

        async def ours() -> None:
            start_s, start_cpu_s = time.perf_counter(), time.process_time()
            assert len(await large.sessions.list()) == count
            seconds.append(time.perf_counter() - start_s)
            cpu_seconds.append(time.process_time() - start_cpu_s)

        async def floor() -> None:
            for _ in range(10):
                assert len(await small.sessions.list()) == count // 10

        growth = await interleave(ours, floor, rounds=plan.rounds(15))
    answers = [
        (IN_A_SECOND, tuple(seconds[1:])),
        (OF_CPU, tuple(cpu_seconds[1:])),
        (GROWTH, growth),
    ]
    return [
        Row(
            question=dataclasses.replace(question, text=f"{question.text}: {kind}"),
            size=f"{count} sessions",
            ratios=ratios,
        )
        for question, ratios in answers
    ]


async def fill(store: Store, count: int) -> None:
    """Many at a time: each costs its syncs, which a journal groups."""

    async def fill(numbers: range) -> None:
        for number in numbers:
            session = await store.sessions.create(f"s-{number}", meta={"title": f"No. {number}"})
            await session.append_many(
                [("message", {"role": "user", "content": "x" * 450})] * EVENTS
            )
            await session.close()

    await asyncio.gather(*(fill(range(first, count, TASKS)) for first in range(TASKS)))
