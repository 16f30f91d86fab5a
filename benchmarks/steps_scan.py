"""Where the time of a scan goes: its steps one by one, each against hashing the same files.

As benchmarks/steps.py: no targets. The steps run in one thread; the floor, and a scan, in one
for each core.
"""

from __future__ import annotations

from pathlib import Path

from attachstore import AdmissionPolicy, Store
from attachstore.integrity.checking import Checker, Task
from attachstore.integrity.claims import Claim
from attachstore.reference import Reference
from attachstore.sessions.data import references_in
from attachstore.threads import CancelFlag
from benchmarks.measure import Plan, Row
from benchmarks.scan import fill, hash_all, hash_share
from benchmarks.steps import at_once, steps


async def measure(plan: Plan) -> list[Row]:
    async with Store.open(plan.directory / "store", policy=AdmissionPolicy.any()) as store:
        files = await fill(store, plan.choose(full=20, quick=1))
        return await _steps(store, files, plan)


async def _steps(store: Store, files: list[Path], plan: Plan) -> list[Row]:
    tasks = [_task(reference) for reference in _references(store)]

    async def floor() -> None:
        hash_all(files)

    async def whole() -> None:
        await store.scan()

    return await steps(
        f"scan {len(files):,} objects",
        "open, read, BLAKE3 of every object file, a thread per core",
        {
            "scan": whole,
            "list the objects": at_once(lambda: list(store.objects.entries())),
            "read the log and its references": at_once(lambda: _references(store)),
            "check every object": at_once(
                lambda: Checker(store.objects.backend, CancelFlag()).check_all(tasks)
            ),
            "open, read, BLAKE3 of every file": at_once(lambda: hash_share(files)),
        },
        floor,
        plan,
    )


def _references(store: Store) -> list[Reference]:
    return [
        reference
        for event in store.logs.events("s-1")
        for _, reference in references_in(event.data)
    ]


def _task(reference: Reference) -> Task:
    return Task(reference.digest, reference.size, (Claim.of(reference),))
