"""Power is cut after any call: what was acknowledged is there, and no object is ever in part.

Each piece of work runs on a disk that knows every state a power cut may leave. Then the gate:
the same work with one sync left out must fail, for every sync, so that each is proven to be
needed and the instrument to see it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attachstore.attachment import BytesContent
from attachstore.disk import Disk
from attachstore.errors import ObjectMissingError
from attachstore.objects import settled
from attachstore.objects.inventory import SHARDS
from attachstore.objects.store import CommitOutcome, ObjectStore
from tests.faults import InterceptedDisk
from tests.objects.power_cuts import (
    Acknowledge,
    Work,
    check_every_cut,
    check_every_sync_is_needed,
)
from tests.objects.samples import (
    BESIDE,
    DATA,
    DIGEST,
    PlainDisk,
    attachment,
    damage,
    make_store,
    names_in,
    object_path,
    open_store,
    reference,
    spooled,
)

BAD = b"rotten"
BIG = bytes(range(256)) * 64  # four blocks of the model's disk


def nothing(world: Path) -> None:
    """Start on an empty disk."""


def an_empty_store(world: Path) -> None:
    make_store(world / "store")


def an_empty_store_without_its_empty_directories(world: Path) -> None:
    """As some tools restore it: all there is of an empty store is its marker, and its root."""
    (world / "store").mkdir()


def a_store_with_one_object(world: Path) -> None:
    make_store(world / "store").commit(attachment())


def a_store_with_a_bad_object(world: Path) -> None:
    a_store_with_one_object(world)
    damage(object_path(world / "store"), BAD)


def no_object_is_in_part(world: Path) -> ObjectStore:
    store = open_store(world / "store")
    for digest in store.digests():
        verdict = store.verify(digest)
        assert verdict.error is None, verdict.error
    return store


# -- the layout ------------------------------------------------------------------------------


def create(world: Path, disk: Disk, acknowledge: Acknowledge) -> None:
    make_store(world / "store", disk)
    acknowledge("layout")


def check_layout(world: Path, acknowledged: list[Any]) -> None:
    if acknowledged:
        assert names_in(world / "store") == ["objects", "quarantine", "staging"]
        assert names_in(world / "store" / "objects" / "blake3") == SHARDS
    make_store(world / "store").commit(attachment())  # a killed creation is simply repeated


# -- commit ----------------------------------------------------------------------------------


def commit(world: Path, disk: Disk, acknowledge: Acknowledge) -> None:
    committed = open_store(world / "store", disk).commit(attachment())
    assert committed.outcome is CommitOutcome.STORED
    acknowledge((committed.reference, DATA))


def commit_together(world: Path, disk: Disk, acknowledge: Acknowledge) -> None:
    """Two share a shard; nobody is told before all are durable."""
    offered = [DATA, BIG, BESIDE]
    committed = open_store(world / "store", disk).commit_many([attachment(it) for it in offered])
    assert committed[0].outcome is CommitOutcome.STORED
    for one, data in zip(committed, offered, strict=True):
        acknowledge((one.reference, data))


def commit_spooled(world: Path, disk: Disk, acknowledge: Acknowledge) -> None:
    store = open_store(world / "store", disk)
    content = spooled(store.backend, BIG)  # type: ignore[arg-type] - a FilesystemBackend here
    acknowledge((store.commit(attachment(content=content)).reference, BIG))
    content.close()


def commit_staged_ahead(world: Path, disk: Disk, acknowledge: Acknowledge) -> None:
    store = open_store(world / "store", disk)
    content = store.stage(BytesContent(BIG))
    acknowledge((store.commit(attachment(content=content)).reference, BIG))
    content.close()


def commit_into_a_missing_shard(world: Path, disk: Disk, acknowledge: Acknowledge) -> None:
    disk.remove_directory(object_path(world / "store").parent)
    commit(world, disk, acknowledge)


def commit_into_the_shard_of_a_killed_maker(
    world: Path, disk: Disk, acknowledge: Acknowledge
) -> None:
    """Another process has made the directory, and was killed before it could sync its name."""
    shard = object_path(world / "store").parent
    disk.remove_directory(shard)
    disk.make_directory(shard)
    commit(world, disk, acknowledge)


def commit_below_the_directory_of_a_killed_maker(
    world: Path, disk: Disk, acknowledge: Acknowledge
) -> None:
    """As above, and he had come no further than to the directory of all shards."""
    for directory in ("objects", "objects/blake3"):
        disk.make_directory(world / "store" / directory)
    commit(world, disk, acknowledge)


def commit_duplicate(world: Path, disk: Disk, acknowledge: Acknowledge) -> None:
    """Somebody has copied a shard into place, with plain tools and without any sync."""
    path = object_path(world / "store")
    disk.remove_directory(path.parent)
    disk.make_directory(path.parent)
    descriptor = disk.create(path, 0o444)
    disk.write(descriptor, DATA, 0)
    disk.close(descriptor)
    committed = open_store(world / "store", disk).commit(attachment())
    assert committed.outcome is CommitOutcome.DUPLICATE
    acknowledge((committed.reference, DATA))


def commit_duplicate_again(world: Path, disk: Disk, acknowledge: Acknowledge) -> None:
    """The second time nothing is synced, and nothing need be."""
    commit_duplicate(world, disk, acknowledge)
    store = open_store(world / "store", disk)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settled, "_FRESH_NS", 0)
        for _ in range(2):
            committed = store.commit(attachment())
            assert committed.outcome is CommitOutcome.DUPLICATE
            acknowledge((committed.reference, DATA))


def check_commit(world: Path, acknowledged: list[Any]) -> None:
    store = no_object_is_in_part(world)
    for promised, data in acknowledged:
        assert store.read(promised) == data
    assert store.commit(attachment()).outcome is not CommitOutcome.HEALED
    assert names_in(world / "store" / "staging") == []


def check_duplicate(world: Path, acknowledged: list[Any]) -> None:
    """Whoever copies without sync may leave parts; a commit mends them, an acknowledged one is
    whole."""
    store = open_store(world / "store")
    for promised, data in acknowledged:
        assert store.read(promised) == data
    assert store.read(store.commit(attachment()).reference) == DATA


# -- heal and quarantine ---------------------------------------------------------------------


def heal(world: Path, disk: Disk, acknowledge: Acknowledge) -> None:
    committed = open_store(world / "store", disk).commit(attachment())
    assert committed.outcome is CommitOutcome.HEALED
    acknowledge(committed.reference)


def heal_on_a_plain_disk(world: Path, disk: Disk, acknowledge: Acknowledge) -> None:
    plain = InterceptedDisk(disk)
    plain.open_temporary = PlainDisk().open_temporary
    plain.exchange = PlainDisk().exchange
    heal(world, plain, acknowledge)


def check_heal(world: Path, acknowledged: list[Any]) -> None:
    store = open_store(world / "store")
    assert store.size(DIGEST) is not None, "the name was absent for a moment"
    if acknowledged:
        assert store.read(acknowledged[0]) == DATA
        assert is_in_quarantine(world)
        assert not [it for it in names_in(world / "store" / "staging") if it[:5] == "heal-"]
    store.sweep()
    assert store.read(store.commit(attachment()).reference) == DATA


def quarantine(world: Path, disk: Disk, acknowledge: Acknowledge) -> None:
    assert open_store(world / "store", disk).quarantine(DIGEST, "test")
    acknowledge("moved")


def check_quarantine(world: Path, acknowledged: list[Any]) -> None:
    store = open_store(world / "store")
    if acknowledged:
        with pytest.raises(ObjectMissingError):
            store.read(reference())
        assert is_in_quarantine(world)
    assert store.read(store.commit(attachment()).reference) == DATA


def is_in_quarantine(world: Path) -> bool:
    """Whether the bad bytes are there with a note about them."""
    directory = world / "store" / "quarantine"
    copies = [path for path in directory.iterdir() if path.suffix != ".json"]
    notes = [json.loads(path.with_suffix(".json").read_bytes()) for path in copies]
    return [path.read_bytes() for path in copies] == [BAD] and [
        note["expected"] for note in notes
    ] == [str(DIGEST)]


# -- copy out --------------------------------------------------------------------------------


def an_object_and_an_older_copy(world: Path) -> None:
    make_store(world / "store").commit(attachment(BIG))
    (world / "out").mkdir()
    (world / "out" / "copy").write_bytes(b"older")


def copy_out(world: Path, disk: Disk, acknowledge: Acknowledge) -> None:
    store = open_store(world / "store", disk)
    store.copy_out(reference(BIG), world / "out" / "copy")
    acknowledge("copied")


def check_copy_out(world: Path, acknowledged: list[Any]) -> None:
    found = (world / "out" / "copy").read_bytes()
    assert found in ([BIG] if acknowledged else [BIG, b"older"])
    if acknowledged:
        assert names_in(world / "out") == ["copy"]


WORK = {
    "create": Work(nothing, create, check_layout),
    "commit": Work(an_empty_store, commit, check_commit),
    "commit together": Work(an_empty_store, commit_together, check_commit),
    "commit spooled": Work(an_empty_store, commit_spooled, check_commit),
    "commit staged ahead": Work(an_empty_store, commit_staged_ahead, check_commit),
    "missing shard": Work(an_empty_store, commit_into_a_missing_shard, check_commit),
    "killed maker's shard": Work(
        an_empty_store, commit_into_the_shard_of_a_killed_maker, check_commit
    ),
    "missing directories": Work(an_empty_store_without_its_empty_directories, commit, check_commit),
    "killed maker's directories": Work(
        an_empty_store_without_its_empty_directories,
        commit_below_the_directory_of_a_killed_maker,
        check_commit,
    ),
    "duplicate": Work(an_empty_store, commit_duplicate, check_duplicate),
    "duplicate again": Work(an_empty_store, commit_duplicate_again, check_duplicate),
    "heal": Work(a_store_with_a_bad_object, heal, check_heal),
    "heal, plain disk": Work(a_store_with_a_bad_object, heal_on_a_plain_disk, check_heal),
    "quarantine": Work(a_store_with_a_bad_object, quarantine, check_quarantine),
    "copy out": Work(an_object_and_an_older_copy, copy_out, check_copy_out),
}


@pytest.mark.parametrize("name", WORK)
def test_power_loss_at_any_call_costs_nothing_acknowledged(
    world: Path, memory_path: Path, name: str
) -> None:
    # 260 directories take their time to build, and making them is 260 times the same.
    limit, step = (3, 29) if name == "create" else (40, 1)
    check_every_cut(WORK[name], world, memory_path, limit=limit, step=step)


@pytest.mark.parametrize("name", WORK)
def test_every_single_sync_is_needed(world: Path, memory_path: Path, name: str) -> None:
    syncs_max = 19 if name == "create" else None
    check_every_sync_is_needed(WORK[name], world, memory_path, syncs_max=syncs_max)
