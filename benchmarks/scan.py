"""What does a scan cost beyond hashing all files with all cores?

Floor: every object file of the same store opened, read and hashed with BLAKE3, by as many threads
as there are cores, each with one buffer. Ours also lists the store, reads the session logs that
refer to the objects, and compares each image's header with what the log says.
"""

from __future__ import annotations

import io
import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from blake3 import blake3
from PIL import Image

from attachstore import AdmissionPolicy, Store
from benchmarks.measure import Plan, Question, Row, interleave

QUESTION = Question(
    text="scan objects and logs / hash the files",
    floor="open, read, BLAKE3 of every object file, a thread per core",
    target=1.15,
    ours_durable="reads only",
    floor_durable="reads only",
    group="scan",
)
# Per 100 objects: what an agent's attachments look like, small ones first.
TEXT_BYTES = (*[4 << 10] * 40, *[64 << 10] * 20, *[512 << 10] * 9, 4 << 20)
IMAGE_SIDES = (*[64] * 20, *[200] * 10)  # PNGs of about 12 and 120 KiB
BUFFER_BYTES = 1 << 20


async def measure(plan: Plan) -> list[Row]:
    async with Store.open(plan.directory / "store", policy=AdmissionPolicy.any()) as store:
        files = await fill(store, plan.choose(full=100, quick=1))

        async def ours() -> None:
            report = await store.scan()
            assert report.clean
            assert report.objects == len(files)

        async def floor() -> None:
            hash_all(files)

        ratios = await interleave(ours, floor, rounds=plan.rounds(9))
    return [Row(question=QUESTION, size=f"{len(files)} objects", ratios=ratios)]


async def fill(store: Store, hundreds: int) -> list[Path]:
    """Attach that many hundreds of objects, and log them; returns the objects' files."""
    session = await store.sessions.create("s-1")
    for _ in range(hundreds):
        references = await store.attach_many(hundred())
        await session.append_many([("attachment", {"file": reference}) for reference in references])
    await session.close()
    await store.drain()
    return [path for path in (store.root / "objects").rglob("*") if path.is_file()]


def hash_all(files: list[Path]) -> None:
    """BLAKE3 of every file, a share of the files for each core."""
    threads = os.cpu_count() or 1
    shares = [files[start::threads] for start in range(threads)]
    with ThreadPoolExecutor(threads) as executor:
        list(executor.map(hash_share, shares))


def hash_share(files: list[Path]) -> None:
    """BLAKE3 of every file, one after the other."""
    buffer = memoryview(bytearray(BUFFER_BYTES))
    for path in files:
        state = blake3()
        with path.open("rb", buffering=0) as file:
            while filled := file.readinto(buffer):
                state.update(buffer[:filled])
        state.digest()


def hundred() -> list[bytes]:
    """A hundred contents, none of them anywhere else."""
    made = [_text(size_bytes) for size_bytes in TEXT_BYTES]
    made += [_image(side) for side in IMAGE_SIDES]
    random.shuffle(made)
    return made


def _text(size_bytes: int) -> bytes:
    return os.urandom(size_bytes // 2).hex().encode()


def _image(side: int) -> bytes:
    file = io.BytesIO()
    Image.frombytes("RGB", (side, side), os.urandom(side * side * 3)).save(
        file, "PNG", compress_level=1
    )
    return file.getvalue()
