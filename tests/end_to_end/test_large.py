"""Large attachments go through in bounded memory, and a cancelled one leaves nothing."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from attachstore import AdmissionPolicy, Store
from tests.descriptors import open_descriptors

GIB = 1 << 30
RESIDENT_BYTES_MAX = 200 << 20

ROUND_TRIP = """
import asyncio, json, sys
from pathlib import Path
from attachstore import AdmissionPolicy, Store

async def main(root, source, target):
    policy = AdmissionPolicy.any(bytes_max=4 << 30)
    async with Store.open(root, policy=policy) as store:
        reference = await store.attach(Path(source))
        read = 0
        async with store.open_attachment(reference) as stream:
            async for block in stream:
                read += len(block)
    # VmHWM, not getrusage: that one starts at the size of the process which started this one.
    status = Path("/proc/self/status").read_text()
    peak_kib = int(status.partition("VmHWM:")[2].split()[0])
    print(json.dumps({"size": reference.size, "read": read, "peak_bytes": peak_kib << 10}))

asyncio.run(main(*sys.argv[1:]))
"""


def test_three_gib_are_attached_and_read_back_in_200_mib(tmp_path: Path) -> None:
    """In a process of its own, so that the peak is that of the work and of nothing else."""
    source = tmp_path / "large.bin"
    with source.open("wb") as file:
        for number in range(3):  # three marks in a hole: the source takes no space, the copy does
            file.seek(number * GIB)
            file.write(os.urandom(4096))
        file.truncate(3 * GIB)

    result = subprocess.run(
        [sys.executable, "-c", ROUND_TRIP, str(tmp_path / "store"), str(source), ""],
        check=True,
        capture_output=True,
    )

    seen = json.loads(result.stdout)
    assert seen["size"] == seen["read"] == 3 * GIB
    assert seen["peak_bytes"] < RESIDENT_BYTES_MAX


async def test_a_cancelled_attach_leaves_nothing_behind(tmp_path: Path) -> None:
    """Cancelled at many moments: the object is completely there, or nothing is."""
    source = tmp_path / "source.bin"
    source.write_bytes(os.urandom(24 << 20))
    root = tmp_path / "store"
    cancelled = 0
    async with Store.open(root, policy=AdmissionPolicy.any()) as store:
        # Unknown bytes are named by a worker. A cancelled task ends it; the next starts another.
        await store.attach(b"\x01\x02\x03\x04" * 16)
        descriptors = open_descriptors()
        for delay_ms in range(0, 60, 2):
            task = asyncio.create_task(store.attach(source))
            await asyncio.sleep(delay_ms / 1000)
            task.cancel()
            try:
                reference = await task
            except asyncio.CancelledError:
                cancelled += 1
            else:
                assert len(await store.read(reference)) == reference.size
            assert open_descriptors() <= descriptors
            assert list((root / "staging").iterdir()) == []
        report = await store.scan()
        assert report.clean, report.findings
    assert cancelled > 0
