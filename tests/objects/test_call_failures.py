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
    UnavailableError,
)
from attachstore.objects.filesystem import FilesystemBackend
from tests.faults import Effect, FailingDisk, failing_disks
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


def commit_together(root: Path, disk: Disk) -> None:
    open_store(root, disk).commit_many([attachment(BESIDE), attachment()])


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
    "commit together": (an_empty_store, commit_together),
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
