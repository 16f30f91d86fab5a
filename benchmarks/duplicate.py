"""What does attaching the same file again cost beyond hashing it?

Floor: one BLAKE3 over the file by the library's own fastest way, all cores on a mapping, as
`b3sum` does. Ours may not trust a name: it hashes the source, hashes what is stored, and syncs.
"""

from __future__ import annotations

from blake3 import blake3

from attachstore import AdmissionPolicy, Store
from benchmarks.measure import Plan, Question, Row, interleave, kibibytes, main, noise

QUESTION = Question(
    text="attach a duplicate file / hash it",
    floor="blake3 of the file, mapped, all cores",
    target=1.2,
    ours_durable="durable: stored bytes hashed again, file and directory synced",
    floor_durable="reads only",
)


async def measure(plan: Plan) -> list[Row]:
    size_bytes = plan.choose(full=64 << 20, quick=1 << 20)
    path = plan.directory / "file"
    path.write_bytes(noise(size_bytes))
    async with Store.open(plan.directory / "store", policy=AdmissionPolicy.any()) as store:
        await store.attach(path)

        async def ours() -> None:
            await store.attach(path)

        async def floor() -> None:
            blake3(max_threads=blake3.AUTO).update_mmap(path).digest()

        ratios = await interleave(ours, floor, rounds=plan.choose(full=15, quick=2))
    return [Row(question=QUESTION, size=kibibytes(size_bytes), ratios=ratios)]


if __name__ == "__main__":
    main(measure)
