"""What power is cut in: every workload, and some whose calls leave much undecided at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from unittest import mock

from attachstore import Store
from attachstore.errors import AttachstoreError
from attachstore.thread_pool import Pool
from tests.rigs import oracle
from tests.rigs.journal import Record
from tests.rigs.stored import log_of
from tests.rigs.workloads import WORKLOADS, Workload
from tests.rigs.workloads.contents import SMALL
from tests.rigs.workloads.objects import (
    corrupt_object,
    empty,
    heal,
    put_and_log_as_files,
    put_small_as_files,
    quarantine,
)
from tests.rigs.workloads.scene import Scene
from tests.rigs.workloads.sessions import JSONL, SQLITE, no_session, one_session
from tests.rigs.workloads.workload import Part

_MARK_CHARACTERS = 170
"""An event repeats its mark twenty times: one of these takes most of a disk block."""


async def _nothing(scene: Scene) -> None:
    """No store: making one is the work."""


async def _bare(scene: Scene, start: Part) -> None:
    """A store that was copied by a tool that leaves out empty directories."""
    await start(scene)
    places = [*scene.root.iterdir(), *(scene.root / "objects" / "blake3").iterdir()]
    for place in places:
        if place.is_dir() and not any(place.iterdir()):
            place.rmdir()


async def _create(scene: Scene, medium: str) -> None:
    async with scene.store(medium, intake=False) as store:
        await scene.put(store, SMALL[0])


async def _many_blocks(scene: Scene) -> None:
    """Batches that cross several disk blocks, so that any of them may be missing."""
    async with scene.store() as store:
        handle = await scene.load(store, "s-1")
        if handle is not None:
            for batch in range(3):
                await handle.append(*(_long_mark(batch, number) for number in range(5)))


async def _side_by_side(scene: Scene) -> None:
    """Several tasks on one store, so that several things are unsynced at the same time."""
    async with scene.store() as store:
        await asyncio.gather(
            *(scene.put(store, content) for content in SMALL),
            *(_own_session(scene, store, f"s-{number}") for number in (2, 3, 4)),
        )


async def _own_session(scene: Scene, store: Store, session_id: str) -> None:
    handle = await scene.create(store, session_id)
    if handle is not None:
        await handle.append(f"{session_id}/1")
        await handle.append(_long_mark(2, 0), _long_mark(2, 1))


def _long_mark(batch: int, number: int) -> str:
    return f"block/{batch}.{number}/".ljust(_MARK_CHARACTERS, "x")


EXTRA = (
    *(Workload(f"create-{it}", _nothing, partial(_create, medium=it)) for it in (JSONL, SQLITE)),
    Workload("put-bare", partial(_bare, start=empty), put_small_as_files),
    Workload("quarantine-bare", partial(_bare, start=corrupt_object), quarantine),
    Workload("heal-bare", partial(_bare, start=corrupt_object), heal),
    Workload(
        "append-bare", partial(_bare, start=partial(no_session, medium=JSONL)), put_and_log_as_files
    ),
    Workload("many-blocks", partial(one_session, medium=JSONL), _many_blocks),
    Workload("many-blocks-sqlite", partial(one_session, medium=SQLITE), _many_blocks),
    Workload("side-by-side", partial(no_session, medium=JSONL), _side_by_side),
    Workload("side-by-side-sqlite", partial(no_session, medium=SQLITE), _side_by_side),
)

SUBJECTS = {it.name: it for it in (*WORKLOADS.values(), *EXTRA)}


def judge(disk: Path, records: Sequence[Record]) -> list[str]:
    """The oracle's verdict on the store at `disk`/store, and two of this rig's own.

    Where nothing was promised yet, a creation that was cut short must not be in the way of the
    next one. What a second process was shown (second_process.py) must still be there.
    """
    with mock.patch.object(Pool, "put", _run_now):
        return _judged(disk / "store", records)


def _run_now(_: Pool, job: Callable[[], None]) -> None:
    """In place of the store's threads: states are many, and nothing else is to happen meanwhile."""
    job()


def _judged(root: Path, records: Sequence[Record]) -> list[str]:
    wrong: list[str] = []
    if not (root / "attachstore.json").exists() and not _has_promise(records):
        try:
            asyncio.run(_opened(root))
        except AttachstoreError as error:
            return [f"the store cannot be made again: {error!r}"]
    try:
        wrong += oracle.judge(root, records)
    except Exception as error:  # noqa: BLE001 - what its own reading cannot make sense of
        wrong.append(f"the oracle cannot read the store: {error!r}")
    wrong += _evidence_lost(root, records)
    shown = [it.facts for it in records if (it.step, it.kind) == ("acknowledge", "shown")]
    for session_id, marks in {it["id"]: it["marks"] for it in shown}.items():
        wrong += _lost(root, session_id, marks)
    return wrong


def _evidence_lost(root: Path, records: Sequence[Record]) -> list[str]:
    """Bad bytes that were healed or moved aside must lie in the quarantine, each with its note."""
    bad: set[str] = set()
    done: set[str] = set()
    openings = 0
    for record in records:
        digest = record.facts.get("digest", "")
        if record.kind == "corrupt":
            bad.add(digest)
            openings = 0
        elif (record.step, record.kind) == ("attempt", "opened"):
            openings += 1
            if openings > 1:  # a second process finds the object whole and promises no more
                break
        elif record.step == "acknowledge" and record.kind in {"object", "quarantined"}:
            done.update({digest} & bad)
    wrong: list[str] = []
    for digest in done:
        kept = list((root / "quarantine").glob(f"{digest}-*"))
        notes = {it.stem for it in kept if it.suffix and it.read_bytes().endswith(b"}\n")}
        if not any(it.name in notes and it.stat().st_size for it in kept if not it.suffix):
            wrong.append(f"the bad bytes of {digest} are not in the quarantine, or have no note")
    return wrong


def _has_promise(records: Sequence[Record]) -> bool:
    return any(it.step == "acknowledge" for it in records)


async def _opened(root: Path) -> None:
    async with Store.open(root, decode_in_process=True):
        pass


def _lost(root: Path, session_id: str, shown: Sequence[str]) -> list[str]:
    log = log_of(root, session_id)
    marks = [event.mark for event in log.events] if log else []
    if marks[: len(shown)] == shown:
        return []
    return [f"{session_id}: a second process was shown {len(shown)} events, {len(marks)} are left"]
