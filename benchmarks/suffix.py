"""Do the last ten events of a long session cost a hundredth of reading all of it?

On each medium. Floor: `sessions.read` from the first event on, which checks the whole chain. Ours
finds the event before the ten by halving the log (attachstore/sessions/suffix.py).
"""

from __future__ import annotations

import dataclasses

from attachstore import Store
from benchmarks.measure import Plan, Question, Row, interleave

QUESTION = Question(
    text="read the last 10 events, 100 times / read all, once",
    floor="read and check all events",
    target=1.0,
    ours_durable="reads only",
    floor_durable="reads only",
    group="others",
)
APPEND_EVENTS = 10_000
LAST = 10
TIMES = 100


async def measure(plan: Plan) -> list[Row]:
    return [row for kind in ("jsonl", "sqlite") for row in await _measure(plan, kind)]


async def _measure(plan: Plan, kind: str) -> list[Row]:
    events = plan.choose(full=1_000_000, quick=10_000)
    async with Store.open(plan.directory / kind, sessions=kind) as store:
        session = await store.sessions.create("s-1")
        for _ in range(events // APPEND_EVENTS):
            await session.append_many([("message", {"content": "x" * 100})] * APPEND_EVENTS)
        await session.close()

        async def ours() -> None:
            for _ in range(TIMES):
                seen = 0
                async for _event in store.sessions.read("s-1", after=events - LAST):
                    seen += 1
                assert seen == LAST

        async def floor() -> None:
            seen = 0
            async for _ in store.sessions.read("s-1"):
                seen += 1
            assert seen == events

        ratios = await interleave(ours, floor, rounds=plan.rounds(3))
    question = dataclasses.replace(QUESTION, text=f"{QUESTION.text}: {kind}")
    return [Row(question=question, size=f"{events} events", ratios=ratios)]
