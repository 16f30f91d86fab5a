"""The order of calls is the argument for durability, so the order is tested."""

from __future__ import annotations

from pathlib import Path

import pytest

from attachstore.objects.store import CommitOutcome
from tests.faults import SYNCS, RecordingDisk
from tests.objects.samples import (
    BESIDE,
    DATA,
    DIGEST,
    PlainDisk,
    attachment,
    damage,
    make_store,
    object_path,
    open_store,
    spooled,
)

SHARD = f"objects/blake3/{DIGEST.hex[:2]}"
OBJECT = f"{SHARD}/<digest>"
MIB = 1 << 20
UNNAMED = "staging/<unnamed>"
NOTE = [
    ("open_temporary", "staging"),
    ("write", UNNAMED),
    ("sync_file", UNNAMED),
    ("link_open_file", f"{UNNAMED} quarantine/<digest>-<random>.json"),
]


@pytest.fixture
def root(memory_path: Path) -> Path:
    make_store(memory_path / "store")
    return memory_path / "store"


def test_bytes_are_synced_before_their_name_and_the_name_before_the_promise(root: Path) -> None:
    disk = RecordingDisk(root)

    open_store(root, disk).commit(attachment())

    assert disk.trace == [
        ("open_temporary", "staging"),
        ("write", UNNAMED),
        ("sync_file", UNNAMED),
        ("sync_directory", "objects/blake3"),  # the shard's own name, once per handle and shard
        ("link_open_file", f"{UNNAMED} {OBJECT}"),
        ("sync_directory", SHARD),
    ]


def test_many_take_each_step_together_and_their_shard_is_synced_once(root: Path) -> None:
    """One after the other the file system would write its journal twice for each."""
    disk = RecordingDisk(root, methods={"start_writeout", *SYNCS, "link_open_file"})

    open_store(root, disk).commit_many([attachment(), attachment(BESIDE)])

    assert [call for call, _ in disk.trace] == [
        *["start_writeout"] * 2,
        *["sync_file"] * 2,
        "sync_directory",  # the shard's own name, once per handle and shard
        *["link_open_file"] * 2,
        "sync_directory",
    ]
    assert disk.trace[-1] == ("sync_directory", SHARD)


def test_spooled_bytes_are_not_written_a_second_time(root: Path) -> None:
    disk = RecordingDisk(root)
    store = open_store(root, disk)
    content = spooled(store.backend, DATA)  # type: ignore[arg-type] - a FilesystemBackend here

    store.commit(attachment(content=content))

    assert [method for method, _ in disk.trace] == [
        "open_temporary",
        "write",
        "sync_file",
        "sync_directory",
        "link_open_file",
        "sync_directory",
    ]
    content.close()


def test_a_named_temporary_file_takes_the_same_steps(root: Path) -> None:
    disk = RecordingDisk(root, disk=PlainDisk())

    open_store(root, disk).commit(attachment())

    assert disk.trace[1:] == [
        ("create", "staging/spool-<random>"),
        ("write", "staging/spool-<random>"),
        ("sync_file", "staging/spool-<random>"),
        ("sync_directory", "objects/blake3"),
        ("link", f"staging/spool-<random> {OBJECT}"),
        ("sync_directory", SHARD),
        ("unlink", "staging/spool-<random>"),
    ]


def test_the_disk_is_at_work_on_large_content_before_it_is_synced(root: Path) -> None:
    """And on nothing twice: what is on its way is not started again."""
    disk = RecordingDisk(root, methods={"start_writeout", "sync_file"})
    started: list[tuple[int, int]] = []

    def start_writeout(descriptor: int, offset_bytes: int, size_bytes: int) -> None:
        started.append((offset_bytes, size_bytes))
        RecordingDisk.start_writeout(disk, descriptor, offset_bytes, size_bytes)

    disk.start_writeout = start_writeout
    store = open_store(root, disk)
    content = spooled(store.backend, bytes(9 * MIB + 1))  # type: ignore[arg-type] - a FilesystemBackend here

    store.commit(attachment(content=content))

    assert [call for call, _ in disk.trace] == ["start_writeout", "start_writeout", "sync_file"]
    assert started == [(0, 4 * MIB), (4 * MIB, 4 * MIB)]


def test_a_duplicate_is_read_and_synced_before_it_is_promised(root: Path) -> None:
    """Another writer may have linked it without being done syncing."""
    open_store(root).commit(attachment())
    disk = RecordingDisk(root, methods={"write", "read_into", "sync_file", "sync_directory"})

    assert open_store(root, disk).commit(attachment()).outcome is CommitOutcome.DUPLICATE

    assert disk.trace == [
        ("read_into", OBJECT),
        ("read_into", OBJECT),
        ("sync_file", OBJECT),
        ("sync_directory", SHARD),
        ("sync_directory", "objects/blake3"),
    ]


def test_healing_exchanges_synced_bytes_before_the_bad_ones_leave(root: Path) -> None:
    open_store(root).commit(attachment())
    damage(object_path(root))
    disk = RecordingDisk(root)

    assert open_store(root, disk).commit(attachment()).outcome is CommitOutcome.HEALED

    beside = "staging/heal-<digest>-<random>"
    assert disk.trace == [
        ("open_temporary", "staging"),
        ("write", UNNAMED),
        ("sync_file", UNNAMED),
        *NOTE,
        ("link_open_file", f"{UNNAMED} {beside}"),
        ("exchange", f"{beside} {OBJECT}"),
        ("sync_directory", SHARD),
        ("rename", f"{beside} quarantine/<digest>-<random>"),
        ("sync_directory", "quarantine"),
        ("sync_directory", "staging"),
    ]


def test_without_exchange_the_bad_bytes_get_a_second_name_first(root: Path) -> None:
    open_store(root).commit(attachment())
    damage(object_path(root))
    disk = RecordingDisk(root, disk=PlainDisk())

    assert open_store(root, disk).commit(attachment()).outcome is CommitOutcome.HEALED

    aside, beside = "quarantine/<digest>-<random>", "staging/heal-<digest>-<random>"
    last = [step for step in disk.trace if "spool" not in step[1]]
    assert last == [
        ("open_temporary", "staging"),
        ("exchange", f"{beside} {OBJECT}"),
        ("link", f"{OBJECT} {aside}"),
        ("sync_directory", "quarantine"),
        ("rename", f"{beside} {OBJECT}"),
        ("sync_directory", SHARD),
        ("sync_directory", "staging"),
    ]


def test_the_judge_looks_under_the_lock_and_past_the_cache(root: Path) -> None:
    """Two healers: the second must see what the first has done, and both what is on the disk."""
    open_store(root).commit(attachment())
    damage(object_path(root))
    disk = RecordingDisk(root, methods={"lock", "drop_cache", "read_into", "exchange"})

    open_store(root, disk).commit(attachment())

    calls = [method for method, _ in disk.trace]
    under_lock = calls[calls.index("lock") :]
    assert "read_into" in calls[: -len(under_lock)]
    assert under_lock[1:3] == ["drop_cache", "read_into"]
    assert under_lock[-1] == "exchange"


def test_quarantine_writes_the_note_first(root: Path) -> None:
    open_store(root).commit(attachment())
    damage(object_path(root))
    disk = RecordingDisk(root)

    assert open_store(root, disk).quarantine(DIGEST, "test")

    assert disk.trace == [
        *NOTE,
        ("rename", f"{OBJECT} quarantine/<digest>-<random>"),
        ("sync_directory", "quarantine"),
        ("sync_directory", SHARD),
    ]


def test_creation_syncs_every_directory_after_what_it_holds(memory_path: Path) -> None:
    """Also where another process made it: its sync may not have happened yet."""
    disk = RecordingDisk(memory_path, methods={"make_directory", "sync_directory"})
    (memory_path / "new").mkdir()

    make_store(memory_path / "new", disk)

    made = [name for method, name in disk.trace if method == "make_directory"]
    synced = [name for method, name in disk.trace if method == "sync_directory"]
    assert len(made) == 1 + 2 + 256 + 2
    assert sorted(synced) == sorted([*made, "."])
    assert synced[-3:] == ["new/objects", "new", "."]
    assert [method for method, _ in disk.trace] == sorted(method for method, _ in disk.trace)


def test_copying_out_replaces_with_synced_bytes(root: Path, tmp_path: Path) -> None:
    reference = open_store(root).commit(attachment()).reference
    disk = RecordingDisk(tmp_path)

    open_store(root, disk).copy_out(reference, tmp_path / "copy")

    hidden = ".attachstore-<random>.part"
    assert disk.trace == [
        ("create", hidden),
        ("truncate", hidden),
        ("write", hidden),
        ("sync_file", hidden),
        ("rename", f"{hidden} copy"),
        ("sync_directory", "."),
    ]


def test_reading_changes_and_syncs_nothing(root: Path) -> None:
    reference = open_store(root).commit(attachment()).reference
    disk = RecordingDisk(root)
    store = open_store(root, disk)

    store.read(reference)
    store.stream(reference).close()
    store.verify(DIGEST)
    list(store.digests())
    list(store.entries())

    assert disk.trace == []
