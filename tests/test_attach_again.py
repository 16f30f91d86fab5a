"""Attaching a file that is here: compared with the object, not copied, promised as ever."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from attachstore import AdmissionPolicy, attach
from attachstore.attach import SAME_BLOCK_BYTES, Attacher, Claim
from attachstore.disk import BLOCK_BYTES, Disk
from attachstore.errors import MediaTypeMismatchError, StorageIOError, StorePoisonedError
from attachstore.hashing import BESIDE_FROM_BYTES, HasherBeside
from attachstore.objects.filesystem import FilesystemBackend
from attachstore.objects.store import CommitOutcome, ObjectStore
from attachstore.threads import CancelFlag, Cancelled
from tests.descriptors import open_descriptors
from tests.faults import FailingDisk, RecordingDisk

DATA = b"\x01bytes of no type\n" * 120_000
assert len(DATA) > (1 << 20)
assert len(DATA) % SAME_BLOCK_BYTES
LARGE = DATA * (1 + BESIDE_FROM_BYTES // len(DATA))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    FilesystemBackend.create(tmp_path / "store", Disk()).close()
    return tmp_path / "store"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "source").write_bytes(DATA)
    return tmp_path / "source"


def attacher_on(disk: Disk, root: Path) -> Attacher:
    return Attacher(ObjectStore(FilesystemBackend(root, disk)), disk, AdmissionPolicy.any())


def put(attacher: Attacher, path: Path, declared: str | None = None) -> CommitOutcome:
    return attacher.put_file(CancelFlag(), path, Claim(declared=declared)).outcome


def hash_threads() -> list[threading.Thread]:
    return [it for it in threading.enumerate() if it.name.startswith("attachstore-hash")]


def object_of(root: Path) -> Path:
    (path,) = (path for path in (root / "objects").rglob("*") if path.is_file())
    return path


def damage(path: Path) -> None:
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(1_500_000)
        file.write(b"?")
    path.chmod(0o444)


def test_nothing_is_written_and_all_of_it_is_made_durable(root: Path, source: Path) -> None:
    disk = RecordingDisk(root)
    attacher = attacher_on(disk, root)
    first = attacher.put_file(CancelFlag(), source, Claim())
    disk.trace.clear()
    before = open_descriptors()

    again = attacher.put_file(CancelFlag(), source, Claim())

    assert (first.outcome, again.outcome) == (CommitOutcome.STORED, CommitOutcome.DUPLICATE)
    assert again.reference == first.reference
    assert [method for method, _ in disk.trace] == [
        "sync_file",
        "sync_directory",
        "sync_directory",
    ]
    assert open_descriptors() <= before


def test_a_wrong_guess_starts_no_thread_and_a_right_one_leaves_none(
    root: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes_bytes = list[int]()

    def recorded(size_bytes: int) -> HasherBeside:
        sizes_bytes.append(size_bytes)
        return HasherBeside(size_bytes)

    monkeypatch.setattr(attach, "HasherBeside", recorded)
    source.write_bytes(LARGE)
    attacher = attacher_on(Disk(), root)
    put(attacher, source)
    other = source.with_name("other")
    other.write_bytes(b"?" + LARGE[1:])

    assert put(attacher, source) is CommitOutcome.DUPLICATE
    assert put(attacher, other) is CommitOutcome.STORED
    assert sizes_bytes == [len(LARGE)]
    assert hash_threads() == []


@pytest.mark.parametrize("at", [BLOCK_BYTES - 1, BLOCK_BYTES, len(LARGE) - 1])
def test_what_another_thread_hashes_is_verified_to_the_last_byte(
    root: Path, source: Path, at: int
) -> None:
    source.write_bytes(LARGE)
    attacher = attacher_on(Disk(), root)
    put(attacher, source)
    damaged = source.with_name("damaged")
    damaged.write_bytes(LARGE[:at] + b"?" + LARGE[at + 1 :])
    path = object_of(root)
    path.chmod(0o644)
    path.write_bytes(damaged.read_bytes())

    assert put(attacher, damaged) is CommitOutcome.STORED
    assert put(attacher, source) is CommitOutcome.HEALED
    assert hash_threads() == []


def test_who_is_cancelled_meanwhile_leaves_no_thread(root: Path, source: Path) -> None:
    class CancellingDisk(Disk):
        def read_into(
            self, descriptor: int, buffer: memoryview | bytearray, offset_bytes: int
        ) -> int:
            if offset_bytes >= len(LARGE) // 2 and flag is not None:
                flag.set()
            return super().read_into(descriptor, buffer, offset_bytes)

    source.write_bytes(LARGE)
    flag: CancelFlag | None = None
    attacher = attacher_on(CancellingDisk(), root)
    put(attacher, source)
    before = open_descriptors()
    flag = CancelFlag()

    with pytest.raises(Cancelled):
        attacher.put_file(flag, source, Claim())

    assert hash_threads() == []
    assert open_descriptors() <= before


def test_it_is_known_by_its_size_whatever_its_name(root: Path, source: Path) -> None:
    disk = RecordingDisk(root)
    attacher = attacher_on(disk, root)
    put(attacher, source)
    disk.trace.clear()
    other = source.rename(source.with_name("other"))

    committed = attacher.put_file(CancelFlag(), other, Claim())

    assert committed.reference.name == "other"
    assert "write" not in [method for method, _ in disk.trace]


@pytest.mark.parametrize("at", [0, SAME_BLOCK_BYTES, len(DATA) - 1])
def test_other_bytes_of_the_same_size_are_another_object(root: Path, source: Path, at: int) -> None:
    attacher = attacher_on(Disk(), root)
    put(attacher, source)
    with source.open("r+b") as file:
        file.seek(at)
        file.write(b"?")

    assert put(attacher, source) is CommitOutcome.STORED
    assert put(attacher, source) is CommitOutcome.DUPLICATE


def test_a_damaged_object_is_healed(root: Path, source: Path) -> None:
    attacher = attacher_on(Disk(), root)
    put(attacher, source)
    damage(object_of(root))

    assert put(attacher, source) is CommitOutcome.HEALED
    assert object_of(root).read_bytes() == DATA


def test_bytes_that_equal_a_damaged_object_are_another_object(root: Path, source: Path) -> None:
    """Equal is not enough: the object has to be what its name says."""
    attacher = attacher_on(Disk(), root)
    first = attacher.put_file(CancelFlag(), source, Claim())
    path = object_of(root)
    damage(path)
    damage(source)

    second = attacher.put_file(CancelFlag(), source, Claim())

    assert second.outcome is CommitOutcome.STORED
    assert second.reference.digest != first.reference.digest


def test_an_object_that_is_gone_is_stored_anew(root: Path, source: Path) -> None:
    attacher = attacher_on(Disk(), root)
    put(attacher, source)
    object_of(root).unlink()

    assert put(attacher, source) is CommitOutcome.STORED
    assert object_of(root).read_bytes() == DATA


def test_a_claim_must_hold_each_time(root: Path, source: Path) -> None:
    attacher = attacher_on(Disk(), root)
    put(attacher, source)

    with pytest.raises(MediaTypeMismatchError):
        put(attacher, source, declared="image/png")


def test_a_failed_sync_is_told_and_nothing_more_is_promised(root: Path, source: Path) -> None:
    disk = FailingDisk(methods={"sync_file"})
    attacher = attacher_on(disk, root)
    put(attacher, source)
    disk.fail_at = disk.calls + 1

    with pytest.raises(StorageIOError):
        put(attacher, source)
    with pytest.raises(StorePoisonedError):
        put(attacher, source)


@pytest.mark.parametrize("method", ["open_read", "status_followed", "open_source", "status_open"])
def test_a_call_that_fails_on_the_short_way_leads_to_the_long_way(
    root: Path, source: Path, method: str
) -> None:
    disk = FailingDisk(methods={method})
    attacher = attacher_on(disk, root)
    put(attacher, source)
    before = open_descriptors()
    disk.fail_at = disk.calls + 1

    assert put(attacher, source) is CommitOutcome.DUPLICATE
    assert disk.landed == [method]
    assert open_descriptors() <= before


def test_who_is_cancelled_gets_no_promise(root: Path, source: Path) -> None:
    attacher = attacher_on(Disk(), root)
    put(attacher, source)
    flag = CancelFlag()
    flag.set()
    before = open_descriptors()

    with pytest.raises(Cancelled):
        attacher.put_file(flag, source, Claim())

    assert open_descriptors() <= before
    assert not any((root / "staging").iterdir())
