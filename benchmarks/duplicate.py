"""What does attaching the same file again cost beyond hashing it?

Floor: one BLAKE3 over the file by the library's own fastest way, all cores on a mapping, as
`b3sum` does. Ours may not trust a name: it compares the source with what is stored, hashes that,
and syncs.
"""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from pathlib import Path

from blake3 import blake3

from attachstore import AdmissionPolicy, Store
from benchmarks.measure import Plan, Question, Row, Side, kibibytes, noise, spent

QUESTION = Question(
    text="attach a duplicate file / hash it",
    floor="blake3 of the file, mapped, all cores",
    target=1.2,
    ours_durable="durable: stored bytes hashed again, file and directory synced",
    floor_durable="reads only",
    group="duplicate",
)


PROGRAMS = ("sha256sum", "b3sum")


async def measure(plan: Plan) -> list[Row]:
    size_bytes = plan.choose(full=64 << 20, quick=1 << 20)
    path = plan.directory / "file"
    path.write_bytes(noise(size_bytes))

    async def floor() -> None:
        blake3(max_threads=blake3.AUTO).update_mmap(path).digest()

    programs = [program for program in PROGRAMS if shutil.which(program)]
    async with Store.open(plan.directory / "store", policy=AdmissionPolicy.any()) as store:
        await store.attach(path)

        async def ours() -> None:
            await store.attach(path)

        sides = [ours, floor, *(_hash_with(program, path) for program in programs)]
        each = await spent(sides, rounds=plan.rounds(15))
    questions = [QUESTION, *(_question(program) for program in programs)]
    return [
        Row(
            question=question,
            size=kibibytes(size_bytes),
            ratios=tuple(round_ns[0] / round_ns[number] for round_ns in each),
        )
        for number, question in enumerate(questions, 1)
    ]


def _question(program: str) -> Question:
    return dataclasses.replace(
        QUESTION,
        text=f"attach a duplicate file / {program}",
        floor=f"{program} of the file, with the start of its process",
    )


def _hash_with(program: str, path: Path) -> Side:
    async def side() -> None:
        subprocess.run([program, str(path)], check=True, stdout=subprocess.DEVNULL)

    return side
