"""Processes that attach and append are killed at random moments; the store stays whole.

Real processes and a real SIGKILL. The writer acknowledges each event on its standard output
after `append` has returned, so the test knows what must be there.
"""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from attachstore import Store
from attachstore.sessions.event import Event

KILLS = int(os.environ.get("ATTACHSTORE_TEST_KILLS", "200"))
WORKERS = 2

WRITER = """
import asyncio, os, random, sys
from pathlib import Path
from attachstore import Store
from attachstore.errors import SessionMissingError

async def main(root, session_id, seed):
    draw = random.Random(seed)
    async with Store.open(root) as store:
        try:
            session = await store.sessions.load(session_id)
        except SessionMissingError:
            session = await store.sessions.create(session_id)
        os.write(1, b"ready\\n")
        while True:
            # Small ones, spooled ones, and now and then a duplicate of what others attach.
            size = draw.choice([0, 100, 5_000, 200_000, 3_000_000])
            data = draw.randbytes(size) if draw.random() < 0.8 else b"shared" * 1000
            reference = await store.attach(data, name="x.txt", declared="text/plain")
            event = await session.append("attachment", {"file": reference})
            os.write(1, f"{event.seq} {event.chain}\\n".encode())

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def killed_writer(root: Path, session_id: str, seed: int, after_s: float) -> list[str]:
    """Run a writer, kill it `after_s` seconds into its work; return what it acknowledged."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(root), session_id, str(seed)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    with process.stdout as output:
        assert output.readline() == b"ready\n"
        select.select([], [], [], after_s)
        process.send_signal(signal.SIGKILL)
        lines = output.read().decode().splitlines()
    assert process.wait() == -signal.SIGKILL
    return lines


async def read(store: Store, session_id: str) -> list[Event]:
    return [event async for event in store.sessions.read(session_id)]


@pytest.mark.parametrize("worker", range(WORKERS))
async def test_a_kill_at_any_moment_loses_nothing_acknowledged(tmp_path: Path, worker: int) -> None:
    """No dangling reference, no partial object, every acknowledged event, leftovers swept."""
    draw = random.Random(worker)
    root = tmp_path / "store"
    async with Store.open(root):
        pass
    acknowledged: dict[str, list[str]] = {}

    for number in range(KILLS // WORKERS):
        session_id = f"s-{number % 10}"
        lines = killed_writer(root, session_id, draw.getrandbits(32), draw.random() * 0.1)
        acknowledged.setdefault(session_id, []).extend(lines)

    async with Store.open(root) as store:
        for session_id, lines in acknowledged.items():
            chains = {f"{e.seq} {e.chain}" for e in await read(store, session_id)}
            assert set(lines) <= chains, session_id
        await store.drain()
        report = await store.scan()
        assert report.clean, report.findings
    assert list((root / "staging").iterdir()) == []
    assert any(acknowledged.values()), "no writer ever got some work done"
