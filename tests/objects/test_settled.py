"""A duplicate is read each time, and synced again as soon as anything about it has changed."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from attachstore.digest import Digest
from attachstore.objects import filesystem, settled
from attachstore.objects.settled import SETTLED_MAX, Settled, State
from attachstore.objects.store import CommitOutcome, ObjectStore
from tests.faults import SYNCS, RecordingDisk
from tests.objects.samples import (
    DATA,
    attachment,
    damage,
    make_store,
    object_path,
    open_store,
)
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here ctimes are finer than the tests are fast; `let_the_clock_go_on` sees to that."""
    monkeypatch.setattr(settled, "_FRESH_NS", 0)


def let_the_clock_go_on(directory: Path) -> None:
    """Until a change made now has another ctime than one made before."""
    probe = directory / "probe"
    probe.touch()
    before = probe.stat().st_ctime_ns

    def has_moved() -> bool:
        probe.chmod(0o600)
        return probe.stat().st_ctime_ns != before

    wait_until(has_moved)


@pytest.fixture
def root(memory_path: Path) -> Path:
    make_store(memory_path / "store").commit(attachment())
    return memory_path / "store"


@pytest.fixture
def disk(root: Path) -> RecordingDisk:
    return RecordingDisk(root, methods={"read_into", *SYNCS})


@pytest.fixture
def store(root: Path, disk: RecordingDisk) -> ObjectStore:
    """It has made the object durable once."""
    store = open_store(root, disk)
    assert store.commit(attachment()).outcome is CommitOutcome.DUPLICATE
    assert synced(disk) == 3
    let_the_clock_go_on(root.parent)
    return store


def synced(disk: RecordingDisk) -> int:
    calls = [call for call, _ in disk.trace]
    disk.trace.clear()
    assert "read_into" in calls, "its bytes are read each time"
    return sum(call in SYNCS for call in calls)


def test_what_nobody_has_touched_is_read_and_not_synced_again(
    store: ObjectStore, disk: RecordingDisk
) -> None:
    for _ in range(3):
        assert store.commit(attachment()).outcome is CommitOutcome.DUPLICATE
        assert synced(disk) == 0


def test_another_handle_syncs_for_itself(root: Path, store: ObjectStore) -> None:
    disk = RecordingDisk(root, methods={"read_into", *SYNCS})

    open_store(root, disk).commit(attachment())

    assert synced(disk) == 3


def touch_the_file(path: Path) -> None:
    path.chmod(0o400)


def move_the_file_away_and_back(path: Path) -> None:
    path.rename(path.with_name("away"))
    path.with_name("away").rename(path)


def put_a_copy_in_its_place(path: Path) -> None:
    """With the times of the old one, as a restore does it."""
    shutil.copy2(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


def give_another_name_beside_it(path: Path) -> None:
    path.with_name("other").touch()


def move_the_shard_away_and_back(path: Path) -> None:
    away = path.parent.with_name("away")
    path.parent.rename(away)
    away.rename(path.parent)


def copy_the_shard(path: Path) -> None:
    copy = path.parent.with_name("copy")
    shutil.copytree(path.parent, copy)
    shutil.rmtree(path.parent)
    copy.rename(path.parent)


def move_all_shards_away_and_back(path: Path) -> None:
    away = path.parents[1].with_name("away")
    path.parents[1].rename(away)
    away.rename(path.parents[1])


def write_the_same_bytes_again(path: Path) -> None:
    """And set the file's times back, which its ctime shows."""
    times = path.stat()
    path.chmod(0o600)
    path.write_bytes(DATA)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    path.chmod(0o444)


CHANGES = [
    touch_the_file,
    move_the_file_away_and_back,
    put_a_copy_in_its_place,
    give_another_name_beside_it,
    move_the_shard_away_and_back,
    copy_the_shard,
    move_all_shards_away_and_back,
    write_the_same_bytes_again,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda it: it.__name__)
def test_what_has_been_changed_is_synced_again(
    root: Path, store: ObjectStore, disk: RecordingDisk, change: Callable[[Path], None]
) -> None:
    change(object_path(root))

    assert store.commit(attachment()).outcome is CommitOutcome.DUPLICATE
    assert synced(disk) == 3


def test_what_has_been_damaged_is_healed(root: Path, store: ObjectStore) -> None:
    damage(object_path(root))
    assert object_path(root).read_bytes() != DATA

    assert store.commit(attachment()).outcome is CommitOutcome.HEALED
    assert store.commit(attachment()).outcome is CommitOutcome.DUPLICATE


def test_what_is_fresh_is_synced_each_time(
    root: Path, disk: RecordingDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two changes within one tick of the file system's clock look like one."""
    monkeypatch.setattr(settled, "_FRESH_NS", 3_600_000_000_000)
    store = open_store(root, disk)

    for _ in range(3):
        store.commit(attachment())
        assert synced(disk) == 3


def test_what_was_fresh_when_it_was_seen_is_not_remembered_though_the_syncs_took_long(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settled, "_FRESH_NS", 2_000_000_000)
    clock_ns = 0

    class Slow(RecordingDisk):
        def sync_directory(self, path: Path) -> None:
            nonlocal clock_ns
            super().sync_directory(path)
            clock_ns += 3_000_000_000

    monkeypatch.setattr(filesystem, "time", SimpleNamespace(time_ns=lambda: clock_ns))
    disk = Slow(root, methods={"read_into", *SYNCS})
    store = open_store(root, disk)

    for _ in range(2):
        clock_ns = object_path(root).stat().st_ctime_ns + 1
        store.commit(attachment())
        assert synced(disk) == 3


def test_the_state_counts_that_was_seen_before_the_sync(root: Path) -> None:
    """What changes while it is synced is not what was synced."""
    path = object_path(root)

    class Touching(RecordingDisk):
        def sync_file(self, descriptor: int) -> None:
            super().sync_file(descriptor)
            let_the_clock_go_on(root.parent)
            path.chmod(0o400)

    disk = Touching(root, methods={"read_into", *SYNCS})
    store = open_store(root, disk)
    store.commit(attachment())
    disk.trace.clear()

    store.commit(attachment())

    assert synced(disk) == 3


def test_so_many_are_remembered_and_the_one_not_asked_for_is_forgotten() -> None:
    known, state = Settled(), old_state()
    digests = [Digest.of(b"%d" % number) for number in range(SETTLED_MAX + 1)]
    for digest in digests[:-1]:
        known.remember(digest, state, time.time_ns())
    assert known.is_settled(digests[0], state)

    known.remember(digests[-1], state, time.time_ns())

    assert known.is_settled(digests[0], state), "it was asked for"
    assert not known.is_settled(digests[1], state)
    assert known.is_settled(digests[-1], state)


def old_state() -> State:
    return ((1, 2, time.time_ns() - 3_600_000_000_000),)
