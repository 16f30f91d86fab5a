"""A sync that fails: not retried; what was visible is taken back; nothing more is promised."""

from __future__ import annotations

import errno
import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from attachstore.disk import Disk
from attachstore.errors import (
    ResourceExhaustedError,
    StorageIOError,
    StorageUnsupportedError,
    StorePoisonedError,
    UnavailableError,
)
from attachstore.objects.filesystem import FilesystemBackend
from attachstore.objects.store import CommitOutcome, ObjectStore
from tests.faults import SYNCS, FailingDisk, PowerLossDisk, failing_disks
from tests.objects.samples import (
    DATA,
    DIGEST,
    attachment,
    make_store,
    object_path,
    open_store,
    reference,
    spooled,
)
from tests.objects.test_call_failures import BAD, WORK, Run, a_bad_object, a_good_object, commit


def publishing_syncs_fail(root: Path, method: str, error: int = errno.EIO) -> ObjectStore:
    return open_store(root, FailingDisk(1, methods={method}, error=error))


def test_bytes_whose_sync_failed_are_thrown_away(memory_path: Path) -> None:
    """The kernel says OK the second time, and the data are gone."""
    root = memory_path / "store"
    make_store(root)
    disk = FailingDisk(1, methods={"sync_file"})
    store = open_store(root, disk)
    assert isinstance(store.backend, FilesystemBackend)
    content = spooled(store.backend, DATA)

    for _ in range(3):
        with pytest.raises(StorageIOError):
            store.commit(attachment(content=content))
    assert disk.calls == 1, "the same bytes were synced again"
    content.close()

    assert store.size(DIGEST) is None
    assert store.commit(attachment()).outcome is CommitOutcome.STORED


def test_a_name_whose_sync_failed_is_taken_back_and_the_handle_promises_nothing_more(
    memory_path: Path,
) -> None:
    """Others would find it, sync it, be told OK, and vouch for it."""
    root = memory_path / "store"
    make_store(root).commit(attachment(b"older"))
    store = publishing_syncs_fail(root, "sync_directory")

    with pytest.raises(StorageIOError):
        store.commit(attachment())

    assert not object_path(root).exists()
    for wrong in (
        lambda: store.commit(attachment()),
        lambda: store.confirm(reference(b"older")),
        lambda: store.quarantine(DIGEST, "test"),
        store.spool,
        store.sweep,
    ):
        with pytest.raises(StorePoisonedError):
            wrong()
    assert store.read(reference(b"older")) == b"older"
    assert open_store(root).commit(attachment()).outcome is CommitOutcome.STORED


@pytest.mark.parametrize("error", [errno.EMFILE, errno.EINVAL])
def test_a_sync_that_was_not_even_tried_poisons_nothing(memory_path: Path, error: int) -> None:
    """No descriptor to open the directory with, or a file system that knows no such sync."""
    root = memory_path / "store"
    make_store(root)
    store = publishing_syncs_fail(root, "sync_directory", error)

    with pytest.raises((ResourceExhaustedError, StorageUnsupportedError)):
        store.commit(attachment())

    assert not object_path(root).exists(), "the shard comes first"
    assert store.commit(attachment()).outcome is CommitOutcome.STORED


class _Overtaken(Disk):
    """Before its first sync of the shard, another writer acts; the sync itself is not tried."""

    def __init__(self, shard: Path, act: Callable[[], None]) -> None:
        self._shard = shard
        self._acts = [act]

    def sync_directory(self, path: Path) -> None:
        if path == self._shard and self._acts:
            self._acts.pop()()
            raise OSError(errno.EMFILE, "no descriptor is left", str(path))
        super().sync_directory(path)


@pytest.mark.parametrize("how", ["one", "many", "healing", "healing without exchange"])
def test_what_another_writer_has_vouched_for_is_not_taken_back(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """It found the name that we gave, synced it, and was acknowledged."""
    root = memory_path / "store"
    make_store(root).commit(attachment(b"older"))
    if how.startswith("healing"):
        a_bad_object(root)
    outcomes: list[CommitOutcome] = []

    def act() -> None:
        outcomes.append(open_store(root).commit(attachment()).outcome)

    disk = _Overtaken(object_path(root).parent, act)
    if how == "healing without exchange":
        monkeypatch.setattr(disk, "exchange", _unsupported)
    store = open_store(root, disk)
    given = [attachment(), attachment(b"other")]
    with pytest.raises(ResourceExhaustedError):
        store.commit_many(given) if how == "many" else store.commit(given[0])

    assert outcomes == [CommitOutcome.DUPLICATE]
    assert open_store(root).read(reference()) == DATA
    assert store.commit(attachment()).outcome is CommitOutcome.DUPLICATE


def _unsupported(*_: object) -> None:
    raise OSError(errno.EINVAL, "this file system cannot exchange")


def test_a_duplicate_whose_sync_fails_is_not_vouched_for(memory_path: Path) -> None:
    root = memory_path / "store"
    make_store(root).commit(attachment())
    store = publishing_syncs_fail(root, "sync_file")

    with pytest.raises(StorageIOError):
        store.commit(attachment())
    with pytest.raises(StorePoisonedError):
        store.commit(attachment())


def test_a_failed_sync_while_healing_puts_the_bad_bytes_back(memory_path: Path) -> None:
    """Good bytes under an unsynced name would pass for a durable duplicate."""
    root = memory_path / "store"
    a_bad_object(root)
    store = publishing_syncs_fail(root, "sync_directory")

    with pytest.raises(StorageIOError):
        store.commit(attachment())

    assert object_path(root).read_bytes() == BAD
    assert open_store(root).commit(attachment()).outcome is CommitOutcome.HEALED


def test_an_exchange_that_happened_and_reported_an_error_loses_neither_side(
    memory_path: Path,
) -> None:
    root = memory_path / "store"
    a_bad_object(root)
    disk = FailingDisk(1, methods={"exchange"}, effect="done")

    with pytest.raises(StorageIOError):
        open_store(root, disk).commit(attachment())

    assert object_path(root).read_bytes() == DATA
    assert [path.read_bytes() for path in (root / "staging").iterdir()] == [BAD]
    assert open_store(root).sweep() == 1
    kept = [path.read_bytes() for path in (root / "quarantine").iterdir()]
    assert BAD in kept


@pytest.mark.parametrize("name", ["commit", "commit spooled", "heal"])
def test_no_sync_error_is_ever_turned_into_a_false_promise(memory_path: Path, name: str) -> None:
    """The caller tries again, with a new handle, on a kernel that reports each loss once."""
    prepare, run = WORK[name]
    for fail_sync_at in itertools.count(1):
        world = memory_path / "world"
        shutil.rmtree(world, ignore_errors=True)
        world.mkdir()
        prepare(world / "store")
        disk = PowerLossDisk(world, fail_sync_at=fail_sync_at)
        try:
            run(world / "store", disk)
        except UnavailableError:
            run(world / "store", disk)
        for state in disk.crash_states(memory_path, limit=100):
            assert open_store(state / "store").read(reference()) == DATA
        if disk.syncs < fail_sync_at:
            return


def test_a_duplicate_whose_bytes_were_lost_in_a_failed_sync_is_healed(memory_path: Path) -> None:
    """The pages that the failed sync left in the cache look good; they are dropped at once."""
    world = memory_path / "world"
    world.mkdir()
    make_store(world / "store")
    disk = PowerLossDisk(world, fail_sync_at=1)
    descriptor = disk.create(object_path(world / "store"), 0o444)
    disk.write(descriptor, DATA, 0)
    disk.close(descriptor)
    with pytest.raises(StorageIOError):
        commit(world / "store", disk)

    retried = open_store(world / "store", disk).commit(attachment())

    assert retried.outcome is CommitOutcome.HEALED
    for state in disk.crash_states(memory_path):
        assert open_store(state / "store").read(retried.reference) == DATA


def test_every_sync_reports_to_the_caller(memory_path: Path) -> None:
    """No sync's failure is swallowed anywhere on the way in."""
    for name in ("commit", "commit spooled", "duplicate", "heal", "quarantine", "copy out"):
        prepare, run = WORK[name]
        for disk in failing_disks(methods=SYNCS):
            root = memory_path / name / "store"
            shutil.rmtree(root.parent, ignore_errors=True)
            root.parent.mkdir()
            prepare(root)
            if disk.fail_at > _syncs(prepare, run, memory_path / "count"):
                run(root, disk)
            else:
                with pytest.raises(StorageIOError):
                    run(root, disk)


def _syncs(prepare: Callable[[Path], None], run: Run, place: Path) -> int:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    prepare(place / "store")
    disk = FailingDisk(methods=SYNCS)
    run(place / "store", disk)
    return disk.calls


def test_a_read_error_is_no_verdict_on_the_bytes(memory_path: Path) -> None:
    """An unreadable object may be well again tomorrow: nothing moves it, a commit replaces it."""
    root = memory_path / "store"
    a_good_object(root)
    disk = FailingDisk(1, methods={"read_into"}, sticky=True)
    store = open_store(root, disk)

    with pytest.raises(StorageIOError):
        store.read(reference())
    with pytest.raises(StorageIOError):
        store.quarantine(DIGEST, "scan")
    assert isinstance(store.verify(DIGEST).error, StorageIOError)
    assert object_path(root).read_bytes() == DATA

    assert store.commit(attachment()).outcome is CommitOutcome.HEALED
    disk.heal()
    assert store.read(reference()) == DATA
