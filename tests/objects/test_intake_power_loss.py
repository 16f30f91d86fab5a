"""Power is cut while objects are in the intake, on their way out of it, or being replayed.

The work of an intake on the disks and with the gate of power_cuts.py: every state that a cut
may leave keeps what was acknowledged, and no sync can be left out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from attachstore.attachment import BytesContent
from attachstore.digest import Digest
from attachstore.disk import Disk
from attachstore.objects.filesystem import FilesystemBackend
from attachstore.objects.intake_backend import IntakeBackend
from attachstore.objects.store import CommitOutcome, ObjectStore
from tests.objects.power_cuts import (
    Acknowledge,
    Work,
    check_every_cut,
    check_every_sync_is_needed,
)
from tests.objects.samples import (
    abandon,
    attachment,
    damage,
    make_intake_store,
    make_store,
    object_path,
    open_intake_store,
    open_store,
    reference,
)

REPLAYED = "replayed"
MANY = [bytes([number]) * size for number, size in enumerate((17, 5_000, 300, 9_000))]


LARGE = bytes(65 << 10)
"""More than an intake's file of the tests."""


def an_empty_store(world: Path) -> None:
    make_store(world / "store")


def a_dead_writers_intake(world: Path) -> None:
    """Its process is gone with four objects in it, all of them acknowledged."""
    store = make_intake_store(world / "store")
    for data in MANY:
        store.commit(attachment(data))
    abandon(store)


def a_dead_writers_intake_and_a_bad_object(world: Path) -> None:
    a_dead_writers_intake(world)
    open_store(world / "store").commit(attachment(MANY[1]))
    damage(object_path(world / "store", MANY[1]))


def put(world: Path, disk: Disk, acknowledge: Acknowledge) -> None:
    store = open_intake_store(world / "store", disk)
    for data in MANY:
        committed = store.commit(attachment(data))
        assert committed.outcome is CommitOutcome.STORED
        acknowledge((committed.reference, data))
    abandon(store)


def put_together(world: Path, disk: Disk, acknowledge: Acknowledge) -> None:
    """One of them is too large for the intake."""
    offered = [*MANY, LARGE]
    store = open_intake_store(world / "store", disk)
    committed = store.commit_many([attachment(it) for it in offered])
    for one, data in zip(committed, offered, strict=True):
        acknowledge((one.reference, data))
    abandon(store)


def put_and_close(world: Path, disk: Disk, acknowledge: Acknowledge) -> None:
    store = open_intake_store(world / "store", disk)
    for data in MANY:
        acknowledge((store.commit(attachment(data)).reference, data))
    store.close()


def put_drain_and_put(world: Path, disk: Disk, acknowledge: Acknowledge) -> None:
    """The second filling of the file lies over the first."""
    store = open_intake_store(world / "store", disk)
    for data in MANY:
        acknowledge((store.commit(attachment(data)).reference, data))
        store.backend.drain()  # type: ignore[attr-defined] - an IntakeBackend here
    acknowledge((store.commit(attachment(b"last")).reference, b"last"))
    abandon(store)


def duplicate_in_the_intake(world: Path, disk: Disk, acknowledge: Acknowledge) -> None:
    store = open_intake_store(world / "store", disk)
    for data in (MANY[1], MANY[0], MANY[1]):
        acknowledge((store.commit(attachment(data)).reference, data))
    abandon(store)


def replay(world: Path, disk: Disk, acknowledge: Acknowledge) -> None:
    for data in MANY:
        acknowledge((reference(data), data))  # by the process that is dead now
    open_intake_store(world / "store", disk, intake=False)
    acknowledge(REPLAYED)
    assert not [*(world / "store" / "intake").iterdir()]


def vouch_for_another_processes_object(world: Path, disk: Disk, acknowledge: Acknowledge) -> None:
    """It lives, has written the record, and has not synced it."""
    other = open_intake_store(world / "store", disk)
    cast("Any", other.backend)._own._make_durable = do_nothing
    other.backend.publish(Digest.of(MANY[1]), BytesContent(MANY[1]))
    committed = open_intake_store(world / "store", disk, intake=False).commit(attachment(MANY[1]))
    acknowledge((committed.reference, MANY[1]))
    abandon(other)


def do_nothing(*_: object) -> None:
    """In the place of a sync that has not come yet."""


def check(world: Path, acknowledged: list[Any]) -> None:
    """First where they are, as a store that is opened read-only finds them; then replayed, twice;
    then as plain files."""
    root = world / "store"
    untouched = ObjectStore(IntakeBackend(FilesystemBackend(root, Disk()), Disk()))
    acknowledged = [it for it in acknowledged if it != REPLAYED]
    for promised, data in acknowledged:
        assert untouched.read(promised) == data
    for _ in range(2):
        store = open_intake_store(root)
        for promised, data in acknowledged:
            assert store.read(promised) == data
        for digest in store.digests():
            assert store.verify(digest).error is None
        store.close()
    plain = open_store(root)
    for promised, data in acknowledged:
        assert plain.read(promised) == data
    assert not (root / "intake").exists() or not [*(root / "intake").iterdir()]
    assert not [*(root / "staging").iterdir()]
    assert not [*(root / "quarantine").iterdir()]


def check_with_a_bad_object(world: Path, acknowledged: list[Any]) -> None:
    store = open_intake_store(world / "store")
    for promised, data in acknowledged[: len(MANY)]:
        assert store.read(promised) == data
    if REPLAYED in acknowledged:
        assert not [*(world / "store" / "staging").glob("heal-*")]
        notes = [*(world / "store" / "quarantine").glob("*.json")]
        assert [json.loads(it.read_bytes())["found_by"] for it in notes] == ["intake"]
        assert [it.with_suffix("").read_bytes() for it in notes] == [b"rotten"]


WORK = {
    "put": Work(an_empty_store, put, check),
    "put together": Work(an_empty_store, put_together, check),
    "put, close": Work(an_empty_store, put_and_close, check),
    "put, drain, put": Work(an_empty_store, put_drain_and_put, check),
    "duplicate": Work(an_empty_store, duplicate_in_the_intake, check),
    "replay": Work(a_dead_writers_intake, replay, check),
    "replay, heal": Work(a_dead_writers_intake_and_a_bad_object, replay, check_with_a_bad_object),
    "vouch": Work(an_empty_store, vouch_for_another_processes_object, check),
}


@pytest.mark.parametrize("name", WORK)
def test_power_loss_at_any_call_costs_nothing_acknowledged(
    world: Path, memory_path: Path, name: str
) -> None:
    check_every_cut(WORK[name], world, memory_path, limit=12)


# Half of the syncs of "vouch" are those of a process that acknowledges nothing.
@pytest.mark.parametrize("name", [name for name in WORK if name != "vouch"])
def test_every_single_sync_is_needed(world: Path, memory_path: Path, name: str) -> None:
    check_every_sync_is_needed(WORK[name], world, memory_path)
