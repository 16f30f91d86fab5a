"""What does reading a session back cost beyond parsing and hashing its lines?

Floor: the log read line by line in plain Python, `json.loads` and BLAKE3 of each line. Ours checks
the chain, decodes the events, and looks for references in them (there are none here: what
verifying an attachment costs is the question of read.py).
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from blake3 import blake3

from attachstore import Store
from benchmarks.measure import Plan, Question, Row, interleave

QUESTION = Question(
    text="replay a session / parse and hash its lines",
    floor="json.loads and BLAKE3 of each line",
    target=0.75,
    ours_durable="reads only",
    floor_durable="reads only",
    group="replay",
)
APPEND_EVENTS = 1000


async def measure(plan: Plan) -> list[Row]:
    events = plan.choose(full=1_000_000 if plan.million else 100_000, quick=2_000)
    async with Store.open(plan.directory / "store") as store:
        session = await store.sessions.create("s-1")
        for _ in range(events // APPEND_EVENTS):
            await session.append_many([("message", message()) for _ in range(APPEND_EVENTS)])
        await session.close()
        (log,) = (plan.directory / "store" / "sessions").rglob("log.jsonl")

        async def ours() -> None:
            seen = 0
            async for _ in store.replay("s-1"):
                seen += 1
            assert seen == events

        async def floor() -> None:
            assert parse_and_hash(log) == events + 1

        ratios = await interleave(ours, floor, rounds=plan.rounds(7))
    return [Row(question=QUESTION, size=f"{events} events", ratios=ratios)]


def parse_and_hash(path: Path) -> int:
    """Lines of the log, each parsed and hashed; the header is one of them."""
    lines = 0
    with path.open("rb") as file:
        for line in file:
            json.loads(line)
            blake3(line).digest()
            lines += 1
    return lines


def message() -> dict[str, object]:
    """About 400 bytes, as an agent's turns are: some structure, some text."""
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": os.urandom(100).hex()}],
        "usage": {"input_tokens": 1200, "output_tokens": 85},
        "model": "example-1",
    }
