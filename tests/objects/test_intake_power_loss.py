"""Power is cut while objects are in the intake, on their way out of it, or being replayed.

The work of an intake on the disks and with the gate of test_power_loss.py: every state that a cut
may leave keeps what was acknowledged, and no sync can be left out.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, cast

import pytest

from attachstore.attachment import BytesContent
from attachstore.digest import Digest
from attachstore.disk import Disk
from attachstore.objects.filesystem import FilesystemBackend
from attachstore.objects.intake_backend import IntakeBackend
from attachstore.objects.store import CommitOutcome, ObjectStore
from tests.faults import PowerLossDisk
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
from tests.objects.test_power_loss import Acknowledge, ForgetfulDisk, Work

REPLAYED = "replayed"
MANY = [bytes([number]) * size for number, size in enumerate((17, 5_000, 300, 9_000))]


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
    "put, close": Work(an_empty_store, put_and_close, check),
    "put, drain, put": Work(an_empty_store, put_drain_and_put, check),
    "duplicate": Work(an_empty_store, duplicate_in_the_intake, check),
    "replay": Work(a_dead_writers_intake, replay, check),
    "replay, heal": Work(a_dead_writers_intake_and_a_bad_object, replay, check_with_a_bad_object),
    "vouch": Work(an_empty_store, vouch_for_another_processes_object, check),
}


@pytest.fixture
def world(memory_path: Path) -> Path:
    """The disk that loses power."""
    world = memory_path / "world"
    world.mkdir()
    return world


@pytest.mark.parametrize("name", WORK)
def test_power_loss_at_any_call_costs_nothing_acknowledged(
    world: Path, memory_path: Path, name: str
) -> None:
    work = WORK[name]
    work.prepare(world)
    disk = PowerLossDisk(world)

    work.run(world, disk, disk.acknowledge)

    states = 0
    for state, acknowledged in disk.crash_moments(memory_path, limit=12):
        work.check(state, acknowledged)
        states += 1
    assert states > 1


# Half of the syncs of "vouch" are those of a process that acknowledges nothing.
@pytest.mark.parametrize("name", [name for name in WORK if name != "vouch"])
def test_every_single_sync_is_needed(world: Path, memory_path: Path, name: str) -> None:
    """Leave one out, and some state must break a promise."""
    work = WORK[name]
    for leave_out in range(1, 40):
        for path in world.iterdir():
            shutil.rmtree(path)
        work.prepare(world)
        power = PowerLossDisk(world)
        disk = ForgetfulDisk(power, leave_out)
        work.run(world, disk, power.acknowledge)
        if disk.left_out is None:
            assert leave_out > 1
            return
        assert breaks(work, power, memory_path), f"nobody misses {disk.left_out}"


def breaks(work: Work, power: PowerLossDisk, memory_path: Path) -> bool:
    """At any moment: a later sync of the same file makes up for one that was left out."""
    try:
        for state, acknowledged in power.crash_moments(memory_path, limit=40):
            work.check(state, acknowledged)
    except Exception:  # noqa: BLE001 - whatever shows it
        return True
    return False
