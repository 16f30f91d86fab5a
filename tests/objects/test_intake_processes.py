"""The intake with real processes: killed while they write, reading each other, all at once."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from attachstore import AdmissionPolicy, Digest, Reference, Store

WRITER = textwrap.dedent("""
    import asyncio, os, sys
    from attachstore import AdmissionPolicy, Store

    async def main(root: str, seed: str) -> None:
        async with Store.open(root, policy=AdmissionPolicy.any(), intake=True,
                              decode_in_process=True) as store:
            for number in range(100_000):
                data = f"{seed} {number}\\n".encode() * (1 + number % 200)
                reference = await store.attach(data)
                os.write(1, f"{reference.digest.hex} {len(data)}\\n".encode())
                await asyncio.sleep(0.005)  # the others shall keep up on a busy machine

    asyncio.run(main(*sys.argv[1:]))
""")


Start = Callable[[Path, str, Path], subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a writer; none of them outlives the test."""
    writers: list[subprocess.Popen[bytes]] = []

    def started(root: Path, seed: str, log: Path) -> subprocess.Popen[bytes]:
        with log.open("ab") as out:
            command = [sys.executable, "-c", WRITER, str(root), seed]
            writers.append(subprocess.Popen(command, stdout=out))
        return writers[-1]

    yield started
    for writer in writers:
        writer.kill()
        writer.wait()


def acknowledged(log: Path) -> dict[str, int]:
    """Digest and size of what the writer was told is durable; a torn last line is not."""
    lines = log.read_bytes().splitlines(keepends=True)
    pairs = [line.split() for line in lines if line.endswith(b"\n")]
    return {digest.decode(): int(size) for digest, size in pairs}


async def read_all(root: Path, wanted: dict[str, int], *, read_only: bool = False) -> int:
    async with Store.open(root, create=False, read_only=read_only) as store:
        for digest, size in wanted.items():
            reference = Reference(digest=Digest(digest), size=size, media_type="text/plain")
            assert len(await store.read(reference)) == size
        return len([it async for it in store.list()])


def wait_for(log: Path, lines: int) -> None:
    deadline_s = time.monotonic() + 120
    while log.read_bytes().count(b"\n") < lines:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_what_a_killed_writer_was_told_is_there(tmp_path: Path, start: Start) -> None:
    """Read where it is, then by whoever opens the store for writing, then as plain files."""
    root, log = tmp_path / "store", tmp_path / "log"
    choose = random.Random(1)
    wanted: dict[str, int] = {}
    for round_ in range(4):
        done = len(acknowledged(log)) if log.exists() else 0
        writer = start(root, str(round_), log)
        wait_for(log, done + choose.randrange(5, 60))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        wanted = acknowledged(log)
        if round_ % 2:
            assert asyncio.run(read_all(root, wanted, read_only=True)) >= len(wanted)
            assert any((root / "intake").iterdir())
    assert asyncio.run(read_all(root, wanted)) >= len(wanted)
    assert not any((root / "intake").iterdir())
    for digest, size in wanted.items():
        assert (root / "objects" / "blake3" / digest[:2] / digest).stat().st_size == size


def test_what_a_living_writer_has_taken_in_is_found_by_others(tmp_path: Path, start: Start) -> None:
    root, log = tmp_path / "store", tmp_path / "log"
    start(root, "alive", log)
    for lines in (20, 60, 100):
        wait_for(log, lines)
        wanted = acknowledged(log)
        asyncio.run(read_all(root, wanted, read_only=True))
        asyncio.run(read_all(root, wanted))


@pytest.mark.parametrize("kills", [0, 4])
def test_many_writers_of_the_same_bytes_and_a_scan(
    tmp_path: Path, start: Start, kills: int
) -> None:
    root = tmp_path / "store"
    logs = [tmp_path / f"log-{number}" for number in range(4)]
    seeds = ("same", "same", "same", "other")
    choose = random.Random(2)
    writers = [start(root, seed, log) for seed, log in zip(seeds, logs, strict=True)]
    for log in logs:
        wait_for(log, 20)
    for _ in range(kills):
        victim = choose.randrange(len(writers))
        writers[victim].kill()
        writers[victim].wait()
        writers[victim] = start(root, seeds[victim], logs[victim])
        asyncio.run(scanned(root))
    asyncio.run(scanned(root))
    for writer in writers:
        writer.kill()
        writer.wait()
    wanted = {digest: size for log in logs for digest, size in acknowledged(log).items()}
    asyncio.run(read_all(root, wanted))
    asyncio.run(scanned(root))
    assert not any((root / "intake").iterdir())


async def scanned(root: Path) -> None:
    async with Store.open(root, create=False, policy=AdmissionPolicy.any()) as store:
        report = await store.scan()
        assert not report.findings, report.findings


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
async def test_a_forked_child_does_not_hold_its_parents_intake(tmp_path: Path) -> None:
    """Else the parent's objects would wait for the child's end after a crash of the parent."""
    async with Store.open(tmp_path / "store", intake=True) as store:
        for number in range(3):
            await store.attach(b"text %d\n" % number)
        assert any((tmp_path / "store" / "intake").iterdir())
        pid = os.fork()
        if not pid:
            held = [str(it.resolve()) for it in Path("/proc/self/fd").iterdir()]
            os._exit(any(it.endswith(".intake") for it in held))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
