"""What does a durable event of 500 bytes cost beyond the write and the sync?

Floor: as many bytes written at the end of a file, and fdatasync, in plain Python. Ours checks and
encodes the event, chains it to the one before, and goes to a thread and back; what it saves is the
file's length, which most events do not change (docs/decisions/0086-room-for-the-next-events.md).
"""

from __future__ import annotations

import os

from attachstore import Store
from benchmarks.measure import Plan, Question, Row, interleave

QUESTION = Question(
    text="append an event / append a line",
    floor="write at the end, fdatasync",
    target=1.25,
    ours_durable="durable: synced before it returns",
    floor_durable="durable: synced before it returns",
    group="append",
)
EVENT_BYTES = 500


async def measure(plan: Plan) -> list[Row]:
    text = "x" * (EVENT_BYTES - len('{"role":"user","content":""}'))
    line = b"y" * (EVENT_BYTES - 1) + b"\n"
    descriptor = os.open(plan.directory / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        async with Store.open(plan.directory / "store") as store:
            session = await store.sessions.create("s-1")

            async def ours() -> None:
                await session.append("message", {"role": "user", "content": text})

            async def floor() -> None:
                os.write(descriptor, line)
                os.fdatasync(descriptor)

            ratios = await interleave(ours, floor, rounds=plan.rounds(300))
    finally:
        os.close(descriptor)
    return [Row(question=QUESTION, size=f"{EVENT_BYTES} B", ratios=ratios)]
