"""What a scan says of a store in a directory: every kind of thing that can be wrong there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from attachstore.digest import Digest
from attachstore.disk import Disk, ReadOnlyDisk
from attachstore.integrity import Finding, Kind, ScanReport, Use
from attachstore.objects.filesystem import FilesystemBackend
from attachstore.reference import Reference
from tests.faults import CHANGES, SYNCS, RecordingDisk
from tests.integrity.workshop import Workshop, look_at, on_disk, png

NOBODY = 65_534


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def shop(root: Path) -> Workshop:
    return on_disk(root)


@pytest.fixture
def reference(shop: Workshop) -> Reference:
    """The one object, referred to by the one event of the one session."""
    reference = shop.put(png(), "image/png")
    shop.log("s-1", {"file": reference})
    return reference


def path_of(root: Path, reference: Reference) -> Path:
    return root / "objects" / "blake3" / reference.digest.hex[:2] / reference.digest.hex


def overwrite(path: Path, data: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(data)
    path.chmod(0o444)


def one(report: ScanReport) -> Finding:
    """The only finding, or the only note."""
    (found,) = [*report.findings, *report.notes]
    return found


USES = (Use("s-1", 1, "/file"),)


def test_a_whole_store_is_clean_without_notes(shop: Workshop, reference: Reference) -> None:
    report = shop.scan()

    assert (report.findings, report.notes, len(report.unreferenced)) == ([], [], 0)
    assert report.bytes_read == reference.size


def test_one_flipped_bit_is_corrupt(shop: Workshop, root: Path, reference: Reference) -> None:
    data = bytearray(path_of(root, reference).read_bytes())
    data[-1] ^= 1
    overwrite(path_of(root, reference), bytes(data))

    found = one(shop.scan())

    assert (found.kind, found.digest, found.uses) == (Kind.OBJECT_CORRUPT, reference.digest, USES)
    assert found.path == str(path_of(root, reference).relative_to(root))


def test_size_and_time_of_a_corrupt_object_are_no_proof(
    shop: Workshop, root: Path, reference: Reference
) -> None:
    path = path_of(root, reference)
    before = path.stat()
    overwrite(path, bytes(reference.size))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert one(shop.scan()).kind is Kind.OBJECT_CORRUPT


def test_a_missing_object_dangles(shop: Workshop, root: Path, reference: Reference) -> None:
    path_of(root, reference).unlink()

    found = one(shop.scan())

    assert (found.kind, found.digest, found.uses) == (
        Kind.DANGLING_REFERENCE,
        reference.digest,
        USES,
    )


def test_a_missing_shard_directory_is_a_missing_object(
    shop: Workshop, root: Path, reference: Reference
) -> None:
    """Some tools restore everything but empty directories, or forget one."""
    shutil.rmtree(path_of(root, reference).parent)

    assert one(shop.scan()).kind is Kind.DANGLING_REFERENCE


def test_an_object_in_the_wrong_place_is_misplaced_and_its_reference_dangles(
    shop: Workshop, root: Path, reference: Reference
) -> None:
    wrong = root / "objects" / "blake3" / reference.digest.hex
    path_of(root, reference).rename(wrong)

    dangling, misplaced = sorted(shop.scan().findings, key=lambda found: found.kind.value)

    assert dangling.kind is Kind.DANGLING_REFERENCE
    assert misplaced.kind is Kind.OBJECT_MISPLACED
    assert misplaced.path == f"objects/blake3/{reference.digest.hex}"
    assert dangling.uses == misplaced.uses == USES


def _directory(path: Path) -> None:
    path.mkdir()


def _link(path: Path) -> None:
    elsewhere = path.parent.parent.parent.parent / "elsewhere"
    elsewhere.write_bytes(png())
    path.symlink_to(elsewhere)


def _fifo(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("make", [_directory, _link, _fifo])
def test_what_is_no_file_under_an_objects_name_is_a_broken_layout(
    shop: Workshop, root: Path, reference: Reference, make: Callable[[Path], None]
) -> None:
    """A link is not followed, even to the right bytes, and a FIFO is not waited for."""
    path = path_of(root, reference)
    path.unlink()
    make(path)

    (found,) = shop.scan().findings

    assert (found.kind, found.digest, found.uses) == (Kind.STORE_LAYOUT, reference.digest, USES)


def test_a_file_in_place_of_a_shard_is_a_broken_layout(
    shop: Workshop, root: Path, reference: Reference
) -> None:
    shard = path_of(root, reference).parent
    shutil.rmtree(shard)
    shard.write_bytes(b"")

    kinds = {found.kind for found in shop.scan().findings}

    assert kinds == {Kind.STORE_LAYOUT}


@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize("mode", [0o644, 0o464, 0o446])
def test_a_stray_write_bit_is_a_note(shop: Workshop, root: Path, mode: int) -> None:
    (path,) = (root / "objects" / "blake3").glob("*/*")
    path.chmod(mode)

    report = shop.scan()

    assert report.clean
    assert one(report).kind is Kind.WRITABLE_OBJECT
    assert f"{mode:04o}" in one(report).what


@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize(
    "place",
    [
        "objects/notes.txt",
        "objects/blake3/notes.txt",
        "objects/blake3/ab/notes.txt",
        "staging/notes.txt",
        "quarantine/notes.txt",
        "sessions/s-1/notes.txt",
        "sessions/.notes",
    ],
)
def test_a_foreign_file_is_a_note_wherever_it_lies(shop: Workshop, root: Path, place: str) -> None:
    (root / place).write_bytes(b"12345")

    report = shop.scan()

    assert report.clean
    found = one(report)
    assert found.kind is Kind.FOREIGN_FILE
    assert found.path == place


@pytest.mark.usefixtures("reference")
def test_what_a_killed_deletion_left_is_a_note(shop: Workshop, root: Path) -> None:
    """The session is gone already; the next writer removes the rest."""
    shop.log("s-2", "hello")
    (root / "sessions" / "s-2").rename(root / "sessions" / ".deleted-0123456789abcdef")

    report = shop.scan()

    assert report.clean
    assert one(report).kind is Kind.STALE_STAGING
    assert report.sessions == 1


@pytest.mark.usefixtures("reference")
def test_a_dead_writers_temporary_file_is_a_note_and_a_live_ones_is_nothing(
    shop: Workshop, root: Path
) -> None:
    path = root / "staging" / f"spool-{'0' * 32}"
    path.write_bytes(b"12345")
    with path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert [*shop.scan().notes] == []

    found = one(shop.scan())

    assert (found.kind, found.size_bytes) == (Kind.STALE_STAGING, 5)
    assert path.exists()


def test_quarantine_content_is_a_note(shop: Workshop, root: Path, reference: Reference) -> None:
    overwrite(path_of(root, reference), b"bad")
    moved = shop.scan(quarantine=True)
    shop.put(png(), "image/png")

    report = shop.scan()

    assert [found.kind for found in moved.findings] == [Kind.OBJECT_CORRUPT]
    assert moved.findings[0].quarantined
    assert report.clean
    assert {note.kind for note in report.notes} == {Kind.QUARANTINE_CONTENT}
    assert sum(path.read_bytes() == b"bad" for path in (root / "quarantine").iterdir()) == 1


def log_of(root: Path) -> Path:
    return root / "sessions" / "s-1" / "log.jsonl"


@pytest.mark.usefixtures("reference")
def test_a_torn_last_line_is_a_note_and_stays(shop: Workshop, root: Path) -> None:
    data = log_of(root).read_bytes()
    log_of(root).write_bytes(data + b'{"seq":2,')

    report = shop.scan()

    assert report.clean
    assert (one(report).kind, one(report).offset_bytes) == (Kind.UNCOMMITTED_TAIL, len(data))
    assert log_of(root).read_bytes() == data + b'{"seq":2,'


@pytest.mark.usefixtures("reference")
def test_a_changed_byte_in_a_log_is_damage(shop: Workshop, root: Path) -> None:
    data = log_of(root).read_bytes()
    start = data.index(b"\n") + 1
    log_of(root).write_bytes(data.replace(b'"width":3', b'"width":4'))

    found = one(shop.scan())

    assert (found.kind, found.session, found.line, found.offset_bytes) == (
        Kind.LOG_DAMAGED,
        "s-1",
        2,
        start,
    )


@pytest.mark.usefixtures("reference")
def test_an_empty_log_is_damage(shop: Workshop, root: Path) -> None:
    """A log appears whole, so no crash of ours leaves one without a header."""
    log_of(root).write_bytes(b"")

    report = shop.scan()

    assert [found.kind for found in report.findings] == [Kind.LOG_DAMAGED]


@pytest.mark.usefixtures("reference")
def test_a_log_that_is_no_file_cannot_be_read(shop: Workshop, root: Path) -> None:
    log_of(root).rename(root.parent / "elsewhere")
    log_of(root).symlink_to(root.parent / "elsewhere")

    found = one_fault(shop.scan())

    assert (found.kind, found.session) == (Kind.LOG_UNREADABLE, "s-1")


def one_fault(report: ScanReport) -> Finding:
    (found,) = report.findings
    return found


def test_a_log_of_another_session_is_damage(shop: Workshop, root: Path) -> None:
    """Somebody copied a directory instead of forking."""
    shop.log("s-1", "one")
    shutil.copytree(root / "sessions" / "s-1", root / "sessions" / "s-2")

    found = one_fault(shop.scan())

    assert (found.kind, found.session, found.line) == (Kind.LOG_DAMAGED, "s-2", 1)


def test_a_scan_makes_no_call_that_changes_anything(
    shop: Workshop, root: Path, reference: Reference
) -> None:
    """So it works on a read-only directory, also for a store with every kind of leftover."""
    overwrite(path_of(root, reference), b"bad")
    shop.put(b"unreferenced")
    with log_of(root).open("ab") as log:
        log.write(b"{")
    (root / "staging" / f"spool-{'0' * 32}").write_bytes(b"12345")
    disk = RecordingDisk(root, methods=CHANGES | SYNCS)

    report = look_at(root, disk).scan()

    assert disk.trace == []
    assert set(report.counts()) == {
        Kind.OBJECT_CORRUPT,
        Kind.UNREFERENCED,
        Kind.UNCOMMITTED_TAIL,
        Kind.STALE_STAGING,
    }


def test_quarantine_on_a_read_only_disk_reports_and_leaves(
    shop: Workshop, root: Path, reference: Reference
) -> None:
    shop.log("s-2", reference)
    overwrite(path_of(root, reference), b"bad")

    found = one_fault(look_at(root, ReadOnlyDisk()).scan(quarantine=True))

    assert found.kind is Kind.OBJECT_CORRUPT
    assert not found.quarantined
    assert "it stays where it is" in found.what
    assert path_of(root, reference).read_bytes() == b"bad"


@pytest.fixture
def shared_root(reachable_path: Path) -> Path:
    return reachable_path / "store"


@pytest.mark.root
def test_another_user_may_scan(shared_root: Path, another_user: Callable[[], None]) -> None:
    shop = on_disk(shared_root)
    shop.log("s-1", shop.put(b"words"))
    another_user()

    report = look_at(shared_root, Disk()).scan()

    assert report.clean
    assert report.notes == []
    assert (report.objects, report.events) == (1, 1)


@pytest.mark.root
def test_what_another_user_may_not_read_is_unreadable_never_corrupt_or_missing(
    shared_root: Path, another_user: Callable[[], None]
) -> None:
    shop = on_disk(shared_root)
    hidden, in_shard = shop.put(b"hidden"), shop.put(b"in a closed directory")
    shop.log("s-1", "secret")
    shop.log("s-2", hidden, in_shard)
    path_of(shared_root, hidden).chmod(0)
    path_of(shared_root, in_shard).parent.chmod(0)
    log_of(shared_root).chmod(0)
    another_user()

    report = look_at(shared_root, Disk()).scan()

    assert set(report.counts()) == {
        Kind.OBJECT_UNREADABLE,
        Kind.DIRECTORY_UNREADABLE,
        Kind.LOG_UNREADABLE,
    }
    unreadable = {found.digest: found.uses for found in report.findings if found.digest}
    assert unreadable == {
        hidden.digest: (Use("s-2", 1, ""),),
        in_shard.digest: (Use("s-2", 2, ""),),
    }


def test_names_that_are_no_text_are_told_in_plain_json(shop: Workshop, root: Path) -> None:
    for directory in ("objects", "sessions"):
        (root / directory / os.fsdecode(b"\xff\n")).write_bytes(b"")

    report = shop.scan().to_json()

    assert [note["path"] for note in report["notes"]] == [
        r"objects/\udcff\n",
        r"sessions/\udcff\n",
    ]


def test_objects_whose_directory_is_replaced_while_they_are_read_are_not_missing(
    shop: Workshop, root: Path, reference: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory that was opened for all of them is empty by then, and nobody's."""
    near = FilesystemBackend.near

    @contextlib.contextmanager
    def replaced(self: FilesystemBackend, digest: Digest) -> Generator[None]:
        with near(self, digest):
            shard = self.path(digest).parent
            held = shard.rename(root.parent / "held")
            shard.mkdir()
            for file in held.iterdir():
                file.rename(shard / file.name)
            yield

    monkeypatch.setattr(FilesystemBackend, "near", replaced)

    report = shop.scan(workers=1)

    assert (report.clean, report.objects) == (True, 1)
