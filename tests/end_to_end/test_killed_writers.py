"""Processes that attach and append are killed at random moments; the store stays whole.

Real processes and a real SIGKILL. A writer acknowledges each event through a pipe after `append`
has returned, so the test knows what must be there. Writers are forks of a process that has
imported everything and done nothing else: starting Python would take most of the time.
"""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from attachstore import Store
from attachstore.sessions.event import Event

KILLS = int(os.environ.get("ATTACHSTORE_TEST_KILLS", "200"))
WORKERS = 2

WRITERS = """
import asyncio, os, random, sys
from attachstore import Store
from attachstore.errors import SessionMissingError

async def write(root, session_id, seed):
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

for line in sys.stdin:
    session_id, seed, pipe = line.split()
    writer = os.fork()
    if not writer:
        os.dup2(os.open(pipe, os.O_WRONLY), 1)
        asyncio.run(write(sys.argv[1], session_id, int(seed)))
    print(writer, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1]), flush=True)
"""


class Writers:
    """Starts writers on one store, one at a time."""

    def __init__(self, root: Path) -> None:
        self._pipe = root.with_name("acknowledged")
        os.mkfifo(self._pipe)
        self._process = subprocess.Popen(
            [sys.executable, "-c", WRITERS, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def killed(self, session_id: str, seed: int, after_s: float) -> list[str]:
        """Run a writer, kill it `after_s` seconds into its work; return what it acknowledged."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(session_id, seed, self._pipe, file=self._process.stdin, flush=True)
        writer = int(self._process.stdout.readline())
        with self._pipe.open("rb") as output:
            assert output.readline() == b"ready\n"
            select.select([], [], [], after_s)
            os.kill(writer, signal.SIGKILL)
            lines = output.read().decode().splitlines()
        assert int(self._process.stdout.readline()) == -signal.SIGKILL
        return lines

    def close(self) -> None:
        self._process.communicate()
        assert self._process.returncode == 0


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

    with closing(Writers(root)) as writers:
        for number in range(KILLS // WORKERS):
            session_id = f"s-{number % 10}"
            lines = writers.killed(session_id, draw.getrandbits(32), draw.random() * 0.1)
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
