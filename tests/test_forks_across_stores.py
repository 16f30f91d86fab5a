"""A session of one store forked into another, on the same kind of medium or a different one."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from attachstore import AdmissionPolicy, Reference, Store
from attachstore.blocking import Store as BlockingStore
from attachstore.errors import (
    HeaderMismatchError,
    ObjectCorruptError,
    ObjectMissingError,
    SequenceConflictError,
    SessionExistsError,
)
from attachstore.sessions.lineage import Basis
from attachstore.sessions.logs import SessionLogs

MEDIA = [(one, other) for one in ("jsonl", "sqlite") for other in ("jsonl", "sqlite")]


@dataclass
class Scene:
    one: Store
    """s-1 has four events, the second with an attachment."""
    other: Store
    reference: Reference


def object_file(store: Store, reference: Reference) -> Path:
    return store.root / "objects" / "blake3" / reference.digest.hex[:2] / reference.digest.hex


@pytest.fixture(params=MEDIA, ids=[f"{one} to {other}" for one, other in MEDIA])
async def scene(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    one, other = request.param
    refusing = AdmissionPolicy(bytes_max=4)
    async with (
        Store.open(tmp_path / "one", sessions=one, decode_in_process=True) as first,
        Store.open(
            tmp_path / "other", sessions=other, decode_in_process=True, policy=refusing
        ) as second,
    ):
        reference = await first.attach(b"a note", declared="text/plain", name="note.txt")
        session = await first.sessions.create("s-1", meta={"title": "First"})
        await session.append("message", 1)
        await session.append("message", {"deep": [{"file": reference}]})
        await session.append_many([("message", 3), ("message", 4)])
        yield Scene(first, second, reference)


async def data_of(store: Store, session_id: str) -> list[object]:
    return [event.data async for event in store.sessions.read(session_id)]


async def test_the_history_and_its_objects_come_along(scene: Scene) -> None:
    """Whatever the other store would admit: the bytes were admitted once."""
    fork = await scene.one.sessions.fork("s-1", id="s-2", at=3, into=scene.other.sessions)

    assert (fork.head, fork.header.meta) == (3, {"title": "First"})
    assert await data_of(scene.other, "s-2") == (await data_of(scene.one, "s-1"))[:3]
    assert await scene.other.read(scene.reference) == b"a note"
    assert (await scene.other.scan()).clean
    assert await scene.other.sessions.load("s-2") is fork
    assert (await fork.append("message", "of its own")).seq == 4
    assert (await scene.one.sessions.inspect("s-1")).head_seq == 4
    with pytest.raises(SessionExistsError):
        await scene.one.sessions.fork("s-1", id="s-2", into=scene.other.sessions)


async def test_lineage_is_told_by_header_and_chain(scene: Scene) -> None:
    fork = await scene.one.sessions.fork("s-1", id="s-2", at=2, into=scene.other.sessions)
    await fork.append("message", "of its own")

    (branch,) = await scene.other.sessions.tree()
    assert branch.origin is not None
    assert (branch.origin.id, branch.origin.seq) == ("s-1", 2)
    assert branch.origin.basis is Basis.GONE, "it is not in this store"
    parted = await scene.other.sessions.divergence("s-2", "s-1", of=scene.one.sessions)
    assert (parted.seq, parted.chain) == (2, branch.origin.chain)
    await scene.one.sessions.fork("s-1", id="s-1", into=scene.other.sessions)
    (root,) = await scene.other.sessions.tree()
    assert [each.origin and each.origin.basis for _, each in root.walk()][1:] == [Basis.PROVEN]


async def test_what_is_not_needed_is_not_brought(scene: Scene) -> None:
    await scene.one.sessions.fork("s-1", id="s-2", at=1, into=scene.other.sessions)

    assert [digest async for digest in scene.other.list()] == []


async def test_an_object_that_is_corrupt_there_is_healed(scene: Scene) -> None:
    await scene.one.sessions.fork("s-1", id="s-2", into=scene.other.sessions)
    file = object_file(scene.other, scene.reference)
    file.chmod(0o644)
    file.write_bytes(b"A NOTE")
    root = scene.other.root
    await scene.other.close()

    async with Store.open(root, decode_in_process=True) as other:
        await scene.one.sessions.fork("s-1", id="s-3", into=other.sessions)
        assert await other.read(scene.reference) == b"a note"


@pytest.mark.parametrize("damage", [b"A NOTE", None], ids=["corrupt", "missing"])
async def test_no_fork_without_its_objects(scene: Scene, damage: bytes | None) -> None:
    file = object_file(scene.one, scene.reference)
    file.unlink()
    if damage is not None:
        file.write_bytes(damage)

    with pytest.raises((ObjectCorruptError, ObjectMissingError)):
        await scene.one.sessions.fork("s-1", id="s-2", into=scene.other.sessions)

    assert await scene.other.sessions.list() == []
    await scene.one.sessions.fork("s-1", id="s-2", at=1, into=scene.other.sessions)


async def test_a_reference_that_misdescribes_its_object_is_not_forked(scene: Scene) -> None:
    """No append lets one in, but logs come from anywhere; the fork's would promise what is not."""
    wrong = dataclasses.replace(scene.reference, size=scene.reference.size + 1)
    log = SessionLogs(scene.one.logs.medium, lambda _: None).create("s-9")
    log.append("message", wrong)
    log.close()

    with pytest.raises(HeaderMismatchError):
        await scene.one.sessions.fork("s-9", id="s-2", into=scene.other.sessions)

    assert await scene.other.sessions.list() == []


async def test_there_must_be_such_an_event(scene: Scene) -> None:
    with pytest.raises(SequenceConflictError):
        await scene.one.sessions.fork("s-1", id="s-2", at=5, into=scene.other.sessions)
    assert await scene.other.sessions.list() == []


async def test_the_fork_outlives_its_parent_s_store(scene: Scene) -> None:
    await scene.one.sessions.fork("s-1", id="s-2", into=scene.other.sessions)
    await scene.one.close()

    assert [step.event.seq async for step in scene.other.replay("s-2")] == [1, 2, 3, 4]


async def test_a_live_parent_is_forked_where_it_was_acknowledged(scene: Scene) -> None:
    async with AsyncExitStack() as forks:
        parent = await scene.one.sessions.load("s-1")
        for number in range(5, 9):
            await parent.append("message", number)
            fork = await scene.one.sessions.fork("s-1", id=f"s-{number}", into=scene.other.sessions)
            assert fork.head == number
            await forks.enter_async_context(fork)


def test_scripts_fork_across_stores_too(tmp_path: Path) -> None:
    with (
        BlockingStore.open(tmp_path / "one", decode_in_process=True) as one,
        BlockingStore.open(tmp_path / "other", sessions="sqlite", decode_in_process=True) as other,
    ):
        one.sessions.create("s-1").append("message", 1)
        fork = one.sessions.fork("s-1", id="s-2", into=other.sessions)
        assert fork.append("message", 2).seq == 2
        assert one.sessions.divergence("s-1", "s-2", of=other.sessions).seq == 1
