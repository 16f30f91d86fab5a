"""Repair from a copy: verified bytes take the place of corrupt and missing ones, and no others."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attachstore.digest import Digest
from attachstore.disk import Disk
from attachstore.errors import StorageFullError
from attachstore.integrity import Finding, Kind, ScanReport
from attachstore.objects.memory import MemoryBackend
from attachstore.objects.store import ObjectStore
from attachstore.reference import Reference
from tests.faults import FailingDisk, PowerLossDisk, failing_disks
from tests.integrity.workshop import UnsyncedDisk, Workshop, bare, in_memory, look_at

CONTENTS = [b"one", b"two", b"three " * 300_000]
"""The last is more than a block, and is spooled."""


def objects_of(shop: Workshop) -> dict[Digest, bytes]:
    assert isinstance(shop.backend, MemoryBackend)
    return shop.backend.objects


@pytest.fixture
def shop() -> Workshop:
    """Three objects in one log."""
    shop = in_memory()
    shop.log("s-1", *[shop.put(content) for content in CONTENTS])
    return shop


@pytest.fixture
def copy() -> Workshop:
    copy = in_memory()
    for content in CONTENTS:
        copy.put(content)
    return copy


def digests() -> list[Digest]:
    return [Digest.of(content) for content in CONTENTS]


def repaired(shop: Workshop, copy: Workshop, **options: Any) -> ScanReport:
    return shop.scan(repair_from=copy.objects, **options)


def damage(shop: Workshop) -> None:
    """The first is corrupt, the second missing, the third corrupt."""
    first, second, third = digests()
    objects_of(shop)[first] = b"bad"
    del objects_of(shop)[second]
    objects_of(shop)[third] = objects_of(shop)[third][:-1]


def test_corrupt_and_missing_objects_are_mended_and_told(shop: Workshop, copy: Workshop) -> None:
    damage(shop)

    report = repaired(shop, copy)

    assert report.clean
    assert report.worst is None
    mended = {note.digest: note for note in report.notes if note.kind is Kind.MENDED}
    assert set(mended) == set(digests())
    assert all(note.uses_total == 1 for note in mended.values()), "who was affected is told"
    assert "was missing" in mended[digests()[1]].what
    assert "quarantine" in mended[digests()[0]].what
    assert sorted(objects_of(shop)) == sorted(digests())
    assert [objects_of(shop)[digest] for digest in digests()] == CONTENTS
    assert shop.scan().clean


def test_bad_bytes_are_kept_in_quarantine_with_a_note(shop: Workshop, copy: Workshop) -> None:
    """Nothing is ever deleted: not even what is known to be bad."""
    damage(shop)

    repaired(shop, copy)

    assert isinstance(shop.backend, MemoryBackend)
    kept = {digest: (note.found_by, data) for digest, note, data in shop.backend.moved_aside}
    assert kept[digests()[0]] == ("repair", b"bad")
    assert len(kept) == 2


def test_a_whole_store_is_left_alone_and_the_copy_is_not_read(
    shop: Workshop, copy: Workshop
) -> None:
    before = dict(objects_of(shop))
    copy.backend.close()  # whoever asks it gets a ValueError

    assert repaired(shop, copy).clean

    assert objects_of(shop) == before


def test_the_copy_is_only_read(shop: Workshop, copy: Workshop) -> None:
    damage(shop)
    objects_of(copy)[digests()[0]] = b"bad as well"
    before = dict(objects_of(copy))

    repaired(shop, copy)

    assert objects_of(copy) == before


@pytest.mark.parametrize("state", ["missing", "corrupt", "cut"])
def test_only_a_whole_copy_is_taken_and_what_is_not_mended_says_why(
    shop: Workshop, copy: Workshop, state: str
) -> None:
    damage(shop)
    for digest in digests()[:2]:
        if state == "missing":
            del objects_of(copy)[digest]
        else:
            objects_of(copy)[digest] = b"worse" if state == "corrupt" else b""

    report = repaired(shop, copy)

    assert [(it.kind, it.digest) for it in report.findings] == [
        (Kind.OBJECT_CORRUPT, digests()[0]),
        (Kind.DANGLING_REFERENCE, digests()[1]),
    ]
    assert all("could not be mended from memory" in it.what for it in report.findings)
    assert [note.digest for note in report.notes if note.kind is Kind.MENDED] == [digests()[2]]
    assert objects_of(shop)[digests()[0]] == b"bad", "where there is nothing better it stays"


def test_what_cannot_be_mended_is_moved_aside_where_that_was_asked_for_too(
    shop: Workshop, copy: Workshop
) -> None:
    damage(shop)
    del objects_of(copy)[digests()[0]]

    report = repaired(shop, copy, quarantine=True)

    (found,) = report.findings
    assert (found.digest, found.quarantined) == (digests()[0], True)
    assert "could not be mended" in found.what
    assert digests()[0] not in objects_of(shop)


def test_a_corrupt_object_that_nobody_refers_to_is_mended_too(copy: Workshop) -> None:
    shop = in_memory()
    shop.put(b"one")
    objects_of(shop)[Digest.of(b"one")] = b"bad"

    report = repaired(shop, copy)

    assert report.clean
    assert list(report.unreferenced) == [(Digest.of(b"one"), 3)], "and counted as what it is"


def test_a_reference_that_disagrees_with_the_mended_object_is_told(copy: Workshop) -> None:
    """The copy is whole; that does not make the log right."""
    shop = in_memory()
    shop.log("s-1", Reference(digest=Digest.of(b"one"), size=4, media_type="text/plain"))

    report = repaired(shop, copy)

    assert [it.kind for it in report.findings] == [Kind.HEADER_MISMATCH]
    assert Kind.MENDED in report.counts()


def test_a_copy_that_changes_while_it_is_read_is_not_taken(shop: Workshop) -> None:
    """Verified by the other store first, and hashed once more as it is written here."""

    class Lying(ObjectStore):
        def stream(self, wanted: Any, cancel: Any = None) -> Any:
            stream = super().stream(wanted, cancel)
            stream.read_block = iter([b"somebody else's bytes", b""]).__next__
            return stream

    damage(shop)
    backend = MemoryBackend()
    for content in CONTENTS:
        backend.objects[Digest.of(content)] = content

    report = shop.scan(repair_from=Lying(backend))

    assert len(report.findings) == 3
    assert Digest.of(b"somebody else's bytes") not in objects_of(shop)


# -- on a disk -----------------------------------------------------------------------------------


@pytest.fixture
def backup(tmp_path: Path) -> ObjectStore:
    shop = bare(tmp_path / "backup")
    for content in CONTENTS[:2]:
        shop.put(content)
    return look_at(tmp_path / "backup", Disk()).objects


def damaged_store(root: Path) -> list[Reference]:
    """One object is corrupt, one is missing; both are in a log."""
    root.parent.mkdir(exist_ok=True)
    shop = bare(root)
    references = [shop.put(content) for content in CONTENTS[:2]]
    shop.log("s-1", references)
    for reference, content in zip(references, (b"bad", None), strict=True):
        path = next(root.rglob(reference.digest.hex))
        path.unlink()
        if content is not None:
            path.write_bytes(content)
    return references


def bytes_below(root: Path) -> list[bytes]:
    return [path.read_bytes() for path in root.rglob("*") if path.is_file()]


def is_mended(root: Path) -> bool:
    return look_at(root, UnsyncedDisk()).scan().clean


class BadSectorDisk(UnsyncedDisk):
    """The bytes of one inode cannot be read."""

    def __init__(self, path: Path) -> None:
        self._inode = path.stat().st_ino

    def read_into(self, descriptor: int, buffer: memoryview | bytearray, offset_bytes: int) -> int:
        self._look(descriptor)
        return super().read_into(descriptor, buffer, offset_bytes)

    def read(self, descriptor: int, size_bytes: int, offset_bytes: int) -> bytes:
        self._look(descriptor)
        return super().read(descriptor, size_bytes, offset_bytes)

    def _look(self, descriptor: int) -> None:
        if self.status_open(descriptor).st_ino == self._inode:
            raise OSError(errno.EIO, "a bad sector")


def test_an_object_that_cannot_be_read_is_mended(tmp_path: Path, backup: ObjectStore) -> None:
    """A scan never moves it, since it may be readable tomorrow; a whole copy is at hand now."""
    references = damaged_store(tmp_path / "store")
    bad = next((tmp_path / "store").rglob(references[0].digest.hex))
    disk = BadSectorDisk(bad)
    unmended = look_at(tmp_path / "store", disk).scan()
    assert Kind.OBJECT_UNREADABLE in unmended.counts()

    report = look_at(tmp_path / "store", disk).scan(repair_from=backup)

    assert report.clean
    assert b"bad" in bytes_below(tmp_path / "store" / "quarantine")


@pytest.mark.parametrize("effect", ["none", "done"])
def test_a_fault_at_any_call_loses_nothing_and_a_second_try_mends(
    tmp_path: Path, backup: ObjectStore, effect: Any
) -> None:
    """Whatever fails, no bad byte is lost, no good object is replaced, and all is told."""
    for number, disk in enumerate(failing_disks(effect=effect, disk=UnsyncedDisk())):
        root = tmp_path / f"store-{number}"
        damaged_store(root)

        report = look_at(root, disk).scan(workers=1, repair_from=backup)

        assert b"bad" in bytes_below(root)
        if not report.findings:
            assert is_mended(root)
        again = look_at(root, UnsyncedDisk()).scan(workers=1, repair_from=backup)
        assert again.clean
        assert is_mended(root)
        assert b"bad" in bytes_below(root)


def test_a_full_disk_is_told_for_each_object(tmp_path: Path, backup: ObjectStore) -> None:
    damaged_store(tmp_path / "store")
    disk = FailingDisk(1, sticky=True, error=errno.ENOSPC, methods={"write"})

    report = look_at(tmp_path / "store", disk).scan(workers=1, repair_from=backup)

    assert [it.kind for it in report.findings] == [Kind.OBJECT_CORRUPT, Kind.DANGLING_REFERENCE]
    assert all(_mentions(StorageFullError, it) for it in report.findings)


def _mentions(error: type[Any], found: Finding) -> bool:
    return error.what.partition(":")[0] in found.what


def test_power_loss_at_any_moment_leaves_the_bad_or_the_good_object(
    tmp_path: Path, backup: ObjectStore
) -> None:
    disk_root = tmp_path / "disk"
    references = damaged_store(disk_root / "store")
    disk = PowerLossDisk(disk_root)

    report = look_at(disk_root / "store", disk).scan(workers=1, repair_from=backup)
    assert report.clean
    disk.acknowledge("mended")

    states = 0
    for state, acknowledged in disk.crash_moments(into=tmp_path, limit=20):
        states += 1
        root = state / "store"
        bad = next(root.rglob(f"{references[0].digest.hex[:2]}/{references[0].digest.hex}"))
        assert bad.read_bytes() in {b"bad", b"one"}, "never absent, never in part"
        if acknowledged:
            assert is_mended(root)
            assert b"bad" in bytes_below(root / "quarantine")
        assert look_at(root, UnsyncedDisk()).scan(repair_from=backup).clean
    assert states > 10


MENDER = """
import sys
from pathlib import Path
from attachstore.disk import Disk
from tests.integrity.workshop import look_at
shop, copy = (look_at(Path(place), Disk()) for place in sys.argv[1:])
print(len(shop.scan(repair_from=copy.objects).findings))
"""


def test_processes_that_mend_at_once_agree(tmp_path: Path, backup: ObjectStore) -> None:
    """Of two the second finds good bytes under the lock; the bad ones are kept once."""
    damaged_store(tmp_path / "store")
    command = [sys.executable, "-c", MENDER, str(tmp_path / "store"), backup.backend.location]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]

    assert [run.communicate()[0] for run in runs] == [b"0\n"] * 3
    assert is_mended(tmp_path / "store")
    assert bytes_below(tmp_path / "store" / "quarantine").count(b"bad") == 1


def test_what_is_no_file_is_not_mended_and_not_moved(
    tmp_path: Path, backup: ObjectStore, make_link: Callable[[Path], None]
) -> None:
    """Nobody knows what it is or whose: it is named, and stays."""
    references = damaged_store(tmp_path / "store")
    path = next((tmp_path / "store").rglob(references[0].digest.hex))
    path.unlink()
    make_link(path)

    report = look_at(tmp_path / "store", Disk()).scan(repair_from=backup)

    assert [it.kind for it in report.findings] == [Kind.STORE_LAYOUT]
    assert path.is_symlink()


@pytest.fixture
def make_link(tmp_path: Path) -> Callable[[Path], None]:
    (tmp_path / "elsewhere").write_bytes(b"one")
    return lambda path: path.symlink_to(tmp_path / "elsewhere")
