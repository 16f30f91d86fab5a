"""A real process that emits and flushes, killed at any moment."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attachstore.sessions import SessionLogs
from tests.conformance.session_medium import confirm, content_of
from tests.sessions.places import JsonlPlace, SqlitePlace

EMITTER = """
import asyncio, os, sys
from attachstore import EmitPolicy, Store

async def main():
    emit = EmitPolicy(delay_s=0.002, events_max=50, batch_events_max=7)
    async with Store.open(sys.argv[1], emit=emit, sessions=sys.argv[2]) as store:
        if any(summary.id == "s-1" for summary in await store.sessions.list()):
            session = await store.sessions.load("s-1")
        else:
            session = await store.sessions.create("s-1")
            if sys.argv[3] == "sealed":
                await session.append("message", [0, ""])
                await session.close()
                await store.sessions.seal("s-1")
                session = await store.sessions.load("s-1")
        number = session.head
        while True:
            await session.emit("message", [number, "x" * (number % 3000)])
            number += 1
            if number % 13 == 0:
                await session.flush()
                os.write(1, b"%d\\n" % number)
            if number % 5 == 0:
                await asyncio.sleep(0)

asyncio.run(main())
"""


@pytest.mark.parametrize("form", ["jsonl", "sealed", "sqlite"])
def test_after_a_kill_every_flushed_event_is_there_and_the_rest_is_a_prefix(
    tmp_path: Path, form: str
) -> None:
    """At moments that differ from round to round; each round goes on where the last ended."""
    root = tmp_path / "store"
    promised = 0
    medium = "sqlite" if form == "sqlite" else "jsonl"
    for round_ in range(6):
        command = [sys.executable, "-c", EMITTER, str(root), medium, form]
        emitter = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert emitter.stdout is not None
        flushed = [int(emitter.stdout.readline())]
        time.sleep(0.004 * round_)
        emitter.send_signal(signal.SIGKILL)
        output, _ = emitter.communicate()
        flushed += map(int, output.split(b"\n")[:-1])
        promised = max(promised, *flushed)

        place = JsonlPlace(root) if medium == "jsonl" else SqlitePlace(root)
        logs = SessionLogs(place.medium(), confirm)
        log = logs.load("s-1")
        assert log.head >= promised
        assert [number for number, _ in content_of(logs, "s-1")] == list(range(log.head))
        promised = log.head
        logs.close()
        assert (root / "sessions/s-1/log.jsonl.zst").exists() == (form == "sealed")
