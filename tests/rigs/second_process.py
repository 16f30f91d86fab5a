"""What a second process does with the store that a killed one has left.

The kernel still holds all that the first one wrote, synced or not. So the second sees whole
objects and whole events that are on no disk yet, and whatever it makes of them must not be lost
when the power goes a moment later: a fork of such events, a duplicate of such an object, a
session that it was shown and goes on with.

What it was shown is recorded as "shown": from then on it must be there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from attachstore import Store
from tests.rigs.journal import Journal, Record
from tests.rigs.workloads.contents import LARGE, SMALL
from tests.rigs.workloads.scene import Halt, Scene, object_facts

_CONTENTS = {object_facts(content)["digest"]: content for content in (*SMALL, *LARGE)}
_FORK = "s-second"


def go_on(root: Path, records: Sequence[Record], journal: Journal) -> None:
    """Put the same objects, fork, load and append; go on with the next thing after an error."""
    asyncio.run(_go_on(Scene(root, journal), records))


async def _go_on(scene: Scene, records: Sequence[Record]) -> None:
    deleted = {it.facts["id"] for it in records if it.kind == "deleted"}
    sessions = dict.fromkeys(
        it.facts["id"] for it in records if it.kind in {"events", "created", "fork"}
    )
    digests = dict.fromkeys(
        it.facts["digest"] for it in records if it.kind in {"object", "corrupt"}
    )
    try:
        async with scene.store() as store:
            for digest in digests:
                if digest in _CONTENTS:
                    await scene.put(store, _CONTENTS[digest])
            # Each makes durable what it relies on, so either must be tried as the first.
            forks_first = len(records) % 2 == 0
            for forks in (forks_first, not forks_first):
                for session_id in sessions:
                    if forks:
                        await _fork(scene, store, session_id, f"{_FORK}-{session_id}")
                    else:
                        may_create = session_id not in deleted
                        await _append(scene, store, session_id, may_create=may_create)
    except Halt:
        return


async def _fork(scene: Scene, store: Store, parent_id: str, session_id: str) -> None:
    """Copy all that a reader sees; then neither session may lose it."""
    marks: list[str] = []
    with scene.operation("listed", id=parent_id):
        marks = await _marks(store, parent_id)
    if not marks:
        return
    scene.journal.attempt("events", id=session_id, handle=0, marks=marks)
    with scene.operation("forked", id=session_id):
        await store.sessions.fork(parent_id, id=session_id, at=len(marks))
        scene.journal.acknowledge("shown", id=session_id, marks=marks)
        scene.journal.acknowledge("shown", id=parent_id, marks=marks)


async def _append(scene: Scene, store: Store, session_id: str, *, may_create: bool) -> None:
    handle = await scene.load(store, session_id)
    if handle is None:
        is_missing = scene.journal.records[-1].facts.get("error_code") == "session-missing"
        if not is_missing or not may_create:
            return
        handle = await scene.create(store, session_id)
    elif marks := await _marks(store, session_id):
        scene.journal.acknowledge("shown", id=session_id, marks=marks)
    if handle is not None:
        await handle.append(f"second/{session_id}")


async def _marks(store: Store, session_id: str) -> list[str]:
    return [event.data["mark"] async for event in store.sessions.read(session_id)]
