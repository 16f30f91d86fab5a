"""Every call fails, in every way: the error is typed, nothing is half done, a retry works."""

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
    StorageFullError,
    StorageIOError,
    StorageReadOnlyError,
    StorageUnsupportedError,
    StorePoisonedError,
    UnavailableError,
)
from attachstore.objects.filesystem import FilesystemBackend
from attachstore.objects.store import CommitOutcome, ObjectStore
from tests.faults import SYNCS, Effect, FailingDisk, PowerLossDisk, failing_disks
from tests.objects.samples import (
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

Run = Callable[[Path, Disk], None]
BAD = b"rotten"

ERRORS: dict[int, type[UnavailableError]] = {
    errno.EIO: StorageIOError,
    errno.ENOSPC: StorageFullError,
    errno.EDQUOT: StorageFullError,
    errno.EROFS: StorageReadOnlyError,
    errno.EACCES: StorageReadOnlyError,
    errno.EMFILE: ResourceExhaustedError,
    errno.ENOMEM: ResourceExhaustedError,
}


def commit(root: Path, disk: Disk) -> None:
    open_store(root, disk).commit(attachment())


def commit_spooled(root: Path, disk: Disk) -> None:
    store = open_store(root, disk)
    assert isinstance(store.backend, FilesystemBackend)
    spool = store.spool()
    try:
        spool.write(DATA)
        content = spool.finish()
    finally:
        spool.discard()
    try:
        store.commit(attachment(content=content))
    finally:
        content.close()


def move_aside(root: Path, disk: Disk) -> None:
    open_store(root, disk).quarantine(DIGEST, "test")


def read(root: Path, disk: Disk) -> None:
    assert open_store(root, disk).read(reference()) == DATA


def copy_out(root: Path, disk: Disk) -> None:
    open_store(root, disk).copy_out(reference(), root.parent / "copy")
    assert (root.parent / "copy").read_bytes() == DATA


def stream(root: Path, disk: Disk) -> None:
    found = open_store(root, disk).stream(reference())
    try:
        assert found.read_block() == DATA
    finally:
        found.close()


def an_empty_store(root: Path) -> None:
    make_store(root)


def a_good_object(root: Path) -> None:
    make_store(root).commit(attachment())


def a_bad_object(root: Path) -> None:
    a_good_object(root)
    damage(object_path(root), BAD)


WORK: dict[str, tuple[Callable[[Path], None], Run]] = {
    "commit": (an_empty_store, commit),
    "commit spooled": (an_empty_store, commit_spooled),
    "duplicate": (a_good_object, commit),
    "heal": (a_bad_object, commit),
    "quarantine": (a_bad_object, move_aside),
    "read": (a_good_object, read),
    "stream": (a_good_object, stream),
    "copy out": (a_good_object, copy_out),
}


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def check_nothing_is_in_part(root: Path) -> None:
    """Under the object's name lie all the good bytes, or all the bad ones, or nothing."""
    path = object_path(root)
    assert not path.exists() or path.read_bytes() in (DATA, BAD)


def check_a_plain_retry_works(root: Path) -> None:
    store = open_store(root)
    store.sweep()
    assert names_in(root / "staging") == []
    assert store.read(store.commit(attachment()).reference) == DATA


@pytest.mark.parametrize("plain", [False, True], ids=["linux", "plain disk"])
@pytest.mark.parametrize("sticky", [False, True], ids=["once", "for ever"])
@pytest.mark.parametrize("effect", ["none", "done", "half"])
@pytest.mark.parametrize("name", WORK)
def test_a_failure_at_any_call_is_typed_and_leaves_nothing_half_done(
    memory_path: Path, name: str, effect: Effect, sticky: bool, plain: bool
) -> None:
    prepare, run = WORK[name]
    inner = PlainDisk() if plain else Disk()
    root = memory_path / "store"
    failures = 0
    for disk in failing_disks(effect=effect, sticky=sticky, disk=inner):
        shutil.rmtree(root, ignore_errors=True)
        prepare(root)
        before = descriptors()
        try:
            run(root, disk)
        except UnavailableError:
            failures += 1
        assert descriptors() == before, f"a descriptor is left after {disk.landed}"
        check_nothing_is_in_part(root)
        left = {it for it in memory_path.iterdir() if it.name not in {"store", "copy"}}
        assert not left or sticky or "create" in disk.landed
        for path in left:
            path.unlink()
        check_a_plain_retry_works(root)
    assert failures > 2


@pytest.mark.parametrize("number", ERRORS)
def test_each_number_of_the_system_becomes_the_error_that_says_what_to_do(
    memory_path: Path, number: int
) -> None:
    root = memory_path / "store"
    make_store(root)
    seen: set[type] = set()
    for disk in failing_disks(error=number):
        path = object_path(root)
        path.unlink(missing_ok=True)
        try:
            commit(root, disk)
        except UnavailableError as error:
            seen.add(type(error))

    assert seen == {ERRORS[number]}


def test_short_reads_and_writes_are_no_faults(memory_path: Path) -> None:
    for name, (prepare, run) in WORK.items():
        for disk in failing_disks(effect="short", methods={"write", "read_into"}):
            root = memory_path / name / "store"
            shutil.rmtree(root.parent, ignore_errors=True)
            root.parent.mkdir()
            prepare(root)
            run(root, disk)
            check_nothing_is_in_part(root)


def test_an_interrupted_call_is_an_error_like_any_other(memory_path: Path) -> None:
    """Python repeats EINTR by itself; what still reaches us is a failure to report."""
    make_store(memory_path / "store")

    with pytest.raises(StorageIOError):
        commit(memory_path / "store", FailingDisk(1, error=errno.EINTR, methods={"sync_file"}))


def test_creation_can_be_repeated_after_any_failure(memory_path: Path) -> None:
    """Every 7th call, since there are more than 500 alike."""
    for number in itertools.count():
        root = memory_path / str(number)
        disk = FailingDisk(1 + 7 * number)
        try:
            make_store(root, disk)
        except StorageIOError:
            make_store(root).commit(attachment())
        else:
            assert number > 70
            return


# -- failed syncs --------------------------------------------------------------------------


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

    assert not object_path(root).exists()
    assert store.commit(attachment()).outcome is CommitOutcome.STORED


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
