"""Workloads on scans: one that mends from a copy, one that is interrupted and gone on with."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Generator
from typing import Any
from unittest import mock

from attachstore import Digest, ScanReport, Store
from attachstore.integrity import Kind, Phase, Progress
from tests.rigs.workloads.contents import LARGE, SMALL
from tests.rigs.workloads.objects import object_path
from tests.rigs.workloads.scene import Scene
from tests.rigs.workloads.workload import Workload

COPY = "copy"
CHECKPOINT = "scan.json"


class _InterruptedError(Exception):
    """What the scan's caller raises in the middle of it."""


async def damaged_with_copy(scene: Scene) -> None:
    """Four objects in a log, a whole copy beside; then one gets corrupt and one lost."""
    async with scene.store() as store:
        contents = [*SMALL, LARGE[0]]
        references = [await scene.put(store, content) for content in contents]
        handle = await scene.create(store, "s-1")
        assert handle is not None
        for number, reference in enumerate(references, start=1):
            await handle.append(f"kept/{number}", file=reference)
    shutil.copytree(scene.root, scene.beside / COPY)
    corrupt, lost = (Digest.of(content) for content in (SMALL[0], SMALL[1]))
    for digest in (corrupt, lost):
        object_path(scene.root, digest).unlink()
    object_path(scene.root, corrupt).write_bytes(SMALL[0].upper())
    scene.journal.given("corrupt", digest=corrupt.hex)
    scene.journal.given("lost", digest=lost.hex)
    scene.journal.given("checkpoint", path=f"{scene.beside.name}/{CHECKPOINT}")


async def repair_from(scene: Scene) -> None:
    async with scene.store() as store:
        for _ in range(2):
            await _scan(scene, store, repair_from=scene.beside / COPY)


async def scan_with_resume(scene: Scene) -> None:
    """Interrupted after each object, gone on with by another opening, and once more as a whole."""
    checkpoint = scene.beside / CHECKPOINT
    for objects in (1, 3):
        async with scene.store() as store:
            await _scan(scene, store, resume=checkpoint, progress=_until(objects))
    async with scene.store() as store:
        await _scan(scene, store, resume=checkpoint)
        await _scan(scene, store)


async def _scan(scene: Scene, store: Store, **options: Any) -> None:
    """Record what a scan said, unless it was interrupted."""
    mends = "repair_from" in options
    with _one_by_one(), scene.operation("scanned", mends=mends):
        try:
            report = await store.scan(**options)
        except _InterruptedError:
            return
        scene.journal.acknowledge("scanned", mends=mends, **_facts(report))


def _facts(report: ScanReport) -> dict[str, Any]:
    def digests(*kinds: Kind) -> list[str]:
        found = (*report.findings, *report.notes)
        return sorted(it.digest.hex for it in found if it.kind in kinds and it.digest)

    others = {it.kind.value for it in report.findings}
    return {
        "corrupt": digests(Kind.OBJECT_CORRUPT),
        "lost": digests(Kind.DANGLING_REFERENCE),
        "mended": digests(Kind.MENDED),
        "others": sorted(others - {Kind.OBJECT_CORRUPT.value, Kind.DANGLING_REFERENCE.value}),
    }


def _until(objects: int) -> Callable[[Progress], None]:
    def progress(now: Progress) -> None:
        if now.phase is Phase.OBJECTS and now.objects_done >= objects:
            raise _InterruptedError

    return progress


@contextlib.contextmanager
def _one_by_one() -> Generator[None]:
    """One thread, each object alone, each step told and kept: the same calls in each run."""
    with (
        mock.patch("attachstore.integrity.checking.BATCH_OBJECTS_MAX", 1),
        mock.patch("attachstore.integrity.checking.usable_cores", return_value=1),
        mock.patch("attachstore.integrity.coverage.SAVE_INTERVAL_S", 0.0),
        mock.patch("attachstore.integrity.progress.INTERVAL_S", 0.0),
    ):
        yield


SCAN_WORKLOADS = (
    Workload("repair-from", damaged_with_copy, repair_from),
    Workload("scan-with-resume", damaged_with_copy, scan_with_resume),
)
