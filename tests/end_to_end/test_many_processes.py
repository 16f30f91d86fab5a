"""Eight processes attach overlapping sets of files while a ninth scans."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from attachstore import Store
from attachstore.digest import Digest

PROCESSES = 8
FILES = 40

ATTACHER = """
import asyncio, random, sys
from pathlib import Path
from attachstore import Store

async def main(root, folder, number):
    files = sorted(Path(folder).iterdir())
    random.Random(number).shuffle(files)
    async with Store.open(root) as store:
        session = await store.sessions.create(f"s-{number}")
        for file in files[: len(files) * 3 // 4]:
            await session.attach(file)

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


async def test_eight_attaching_processes_and_a_scan_agree(tmp_path: Path) -> None:
    """No error anywhere, one object for each content, and every scan beside them is clean."""
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(FILES):
        # Sizes on both sides of what is spooled; some contents under two names.
        content = f"content {number % 30}\n".encode() * (1 if number % 2 else 100_000)
        (folder / f"{number}.txt").write_bytes(content)
    contents = {Digest.of(path.read_bytes()) for path in folder.iterdir()}
    root = tmp_path / "store"

    processes = [
        subprocess.Popen(
            [sys.executable, "-c", ATTACHER, str(root), str(folder), str(number)],
            stderr=subprocess.PIPE,
        )
        for number in range(PROCESSES)
    ]
    async with Store.open(root) as store:
        scans = 0
        while any(process.poll() is None for process in processes):
            report = await store.scan()
            assert report.clean, report.findings
            scans += 1
            await asyncio.sleep(0.05)
        errors = [process.communicate()[1].decode() for process in processes]
        report = await store.scan()
        stored = [path.name for path in (root / "objects" / "blake3").glob("*/*")]

    assert errors == [""] * PROCESSES
    assert report.clean, report.findings
    assert scans > 0
    assert set(stored) <= {digest.hex for digest in contents}
    assert len(stored) == len(set(stored))
