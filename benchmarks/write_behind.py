"""What does an emitted event of 500 bytes cost, against a write and a sync for each?

Floor: as many bytes written at the end of a file, and fdatasync, event by event, in plain Python.
Ours: events are emitted as fast as they are taken, then flushed; the flush is inside the clock,
so at its end every event is as durable as the floor's. A sync there stands for many events, so
ours emits many more: the quotient is that of the times for one event.
"""

from __future__ import annotations

import os

from attachstore import Store
from benchmarks.append import EVENT_BYTES
from benchmarks.measure import Plan, Question, Row, interleave

QUESTION = Question(
    text="emit an event, flush at the end / append a line",
    floor="write at the end, fdatasync",
    target=0.05,
    ours_durable="durable: all of them after the flush",
    floor_durable="durable: synced one by one",
    group="events",
)


async def measure(plan: Plan) -> list[Row]:
    ours_events, floor_events = plan.choose(full=10_000, quick=20), plan.choose(full=200, quick=4)
    text = "x" * (EVENT_BYTES - len('{"role":"user","content":""}'))
    line = b"y" * (EVENT_BYTES - 1) + b"\n"
    descriptor = os.open(plan.directory / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        async with Store.open(plan.directory / "store") as store:
            session = await store.sessions.create("s-1")

            async def ours() -> None:
                for _ in range(ours_events):
                    await session.emit("message", {"role": "user", "content": text})
                await session.flush()

            async def floor() -> None:
                for _ in range(floor_events):
                    os.write(descriptor, line)
                    os.fdatasync(descriptor)

            ratios = await interleave(ours, floor, rounds=plan.rounds(30))
    finally:
        os.close(descriptor)
    per_event = tuple(ratio * floor_events / ours_events for ratio in ratios)
    return [Row(question=QUESTION, size=f"{EVENT_BYTES} B", ratios=per_event)]
