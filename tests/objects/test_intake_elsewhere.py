"""The intake, seen from other handles and by readers."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from attachstore.digest import Digest
from attachstore.disk import Disk, ReadOnlyDisk
from attachstore.errors import (
    AttachstoreError,
    ObjectCorruptError,
    ObjectMissingError,
    StorageIOError,
    StoreLayoutError,
)
from attachstore.objects.backend import EntryKind
from attachstore.objects.filesystem import FilesystemBackend
from attachstore.objects.intake import IntakePolicy
from attachstore.objects.intake_backend import IntakeBackend
from attachstore.objects.store import CommitOutcome, ObjectStore
from attachstore.threads import CancelFlag
from tests.faults import FailingDisk, RecordingDisk
from tests.objects.intakes import NEVER_S, backend_of, intake_files, opened
from tests.objects.samples import (
    DATA,
    DIGEST,
    abandon,
    attachment,
    object_path,
    open_intake_store,
    reference,
)

OTHER = b"other bytes" * 100


def test_another_handle_finds_what_is_still_in_the_intake(root: Path) -> None:
    with opened(root) as writer, opened(root, intake=False) as other:
        promised = writer.commit(attachment()).reference
        assert not object_path(root).exists()
        assert other.read(promised) == DATA
        assert other.size(DIGEST) == len(DATA)
        assert [*other.digests()] == [DIGEST]
        assert other.resolve(DIGEST.hex[:8]) == DIGEST
        (entry,) = [it for it in other.entries() if it.kind is EntryKind.OBJECT]
        assert (entry.digest, entry.size_bytes) == (DIGEST, len(DATA))
        assert entry.path.startswith("intake/")
        assert other.verify(DIGEST).error is None
        assert other.differences(promised) == ()


def test_what_has_been_listed_is_found_at_one_look(root: Path) -> None:
    """A scan reads all of them: it must not look through all records for each."""
    contents = [b"%d" % number for number in range(100)]
    disk = RecordingDisk(root, methods={"read_into"})
    with opened(root) as writer, opened(root, disk, intake=False) as other:
        for data in contents:
            writer.commit(attachment(data))
        assert len([*other.digests()]) == len(contents)
        calls = set[int]()
        for data in contents:
            disk.trace.clear()
            assert other.read(reference(data)) == data
            calls.add(len(disk.trace))

        assert max(calls) <= 4

        backend_of(writer)._own.drain()
        writer.commit(attachment(OTHER))  # where the first was, in another filling of the file
        assert other.read(reference(contents[0])) == contents[0]
        object_path(root, contents[1]).unlink()
        with pytest.raises(ObjectMissingError):
            other.read(reference(contents[1]))


def test_rot_before_a_whole_record_is_told_to_who_only_reads(root: Path) -> None:
    """Nobody has replayed it yet. The last record may be one that a crash has torn."""
    store = open_intake_store(root)
    for data in (DATA, OTHER):
        store.commit(attachment(data))
    (path,) = intake_files(root)
    abandon(store)
    whole = path.read_bytes()
    reader = ObjectStore(IntakeBackend(FilesystemBackend(root, ReadOnlyDisk()), ReadOnlyDisk()))

    path.write_bytes(whole.replace(DATA, b"W" + DATA[1:], 1))
    with pytest.raises(ObjectCorruptError, match=rf"intake/{path.name}"):
        reader.read(reference())
    assert isinstance(reader.verify(DIGEST).error, ObjectCorruptError)
    assert reader.read(reference(OTHER)) == OTHER

    path.write_bytes(whole.replace(OTHER, b"W" + OTHER[1:], 1))
    with pytest.raises(ObjectMissingError):
        reader.read(reference(OTHER))
    assert reader.read(reference()) == DATA


def test_whoever_vouches_for_another_handles_object_makes_a_file_of_it(root: Path) -> None:
    with opened(root) as writer, opened(root, intake=False) as other:
        promised = writer.commit(attachment()).reference
        other.confirm(promised)
        assert object_path(root).exists()


def test_objects_are_listed_once_and_in_order_wherever_they_are(root: Path) -> None:
    datas = [bytes([number]) for number in range(40)]
    with opened(root) as writer, opened(root, intake=False) as other:
        for data in datas:
            writer.commit(attachment(data))
        for data in datas[::3]:
            other.commit(attachment(data))
        digests = [*other.digests()]
        listed = [it.digest for it in other.entries() if it.kind is EntryKind.OBJECT]
    assert digests == sorted({Digest.of(data) for data in datas})
    assert listed == digests


def test_read_only_reads_a_dead_processes_intake_where_it_is(root: Path) -> None:
    store = open_intake_store(root)
    store.commit(attachment())
    abandon(store)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    reader = ObjectStore(IntakeBackend(FilesystemBackend(root, Disk()), Disk(), intake=False))

    assert reader.read(reference()) == DATA
    assert [*reader.digests()] == [DIGEST]
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_what_has_left_an_intake_is_found_under_its_name_only(root: Path) -> None:
    """Its writer keeps the file for later: what it held would pass for an object."""
    with opened(root) as writer, opened(root, intake=False) as other:
        writer.commit(attachment())
        backend_of(writer).drain()
        assert len(intake_files(root)) == 1
        object_path(root).unlink()

        assert other.size(DIGEST) is None
        assert [*other.digests()] == []
        with pytest.raises(ObjectMissingError):
            other.read(DIGEST)


def test_a_live_intake_is_not_replayed(root: Path) -> None:
    with opened(root) as writer:
        writer.commit(attachment())
        with opened(root, intake=False) as other:
            assert backend_of(other).replay() == 0
        assert len(intake_files(root)) == 1


def test_reading_beside_an_intake_that_fills_and_empties_never_misses(root: Path) -> None:
    """The last look at the file's name is for this."""
    datas = [bytes([number]) * 3_000 for number in range(200)]
    acknowledged: list[bytes] = []
    wrong: list[object] = []
    policy = IntakePolicy(burst_s=NEVER_S, idle_s=0.001, file_bytes=16 << 10)
    with opened(root, intake=policy) as writer, opened(root, intake=False) as other:
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                for data in acknowledged[-20:]:
                    for store in (writer, other):
                        try:
                            assert store.read(reference(data)) == data
                        except (AttachstoreError, AssertionError) as error:
                            wrong.append(error)

        reader = threading.Thread(target=read)
        reader.start()
        for data in datas:
            writer.commit(attachment(data), CancelFlag())
            acknowledged.append(data)
        done.set()
        reader.join()
    assert wrong == []


def test_an_intake_file_that_cannot_be_emptied_goes(root: Path) -> None:
    disk = FailingDisk(methods={"write"})
    with opened(root, disk) as writer:
        writer.commit(attachment())
        assert len(intake_files(root)) == 1
        disk.calls, disk.fail_at = 0, 2  # the first is that of the object's own file
        backend_of(writer).drain()

        assert disk.landed == ["write"]
        assert intake_files(root) == []
        assert writer.read(reference()) == DATA
        assert writer.commit(attachment(b"another")).outcome is CommitOutcome.STORED


class _Interleaved(Disk):
    """Lets what is in `acts` happen right after the object's file was looked for in vain."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.acts: list[Callable[[], None]] = []

    def status(self, path: Path) -> os.stat_result:
        try:
            return super().status(path)
        except FileNotFoundError:
            if path == self._path and self.acts:
                self.acts.pop()()
            raise


def test_an_object_that_leaves_its_intake_between_two_looks_is_there(root: Path) -> None:
    """An append asks for its references' sizes about when the writer comes to rest."""
    disk = _Interleaved(object_path(root))
    with opened(root, disk) as store:
        store.commit(attachment())
        disk.acts.append(backend_of(store).drain)
        assert store.size(DIGEST) == len(DATA)
    assert object_path(root).exists()


def test_a_directory_that_cannot_be_listed_hides_no_object(root: Path) -> None:
    """Nor those in an intake, which come between the others and after the last of them."""
    datas = [bytes([number]) for number in range(40)]
    with opened(root) as writer, opened(root, intake=False) as other:
        for data in datas[::2]:
            other.commit(attachment(data))
        for data in datas[1::2]:
            writer.commit(attachment(data))
        shard = object_path(root, datas[0]).parent
        shard.rename(root / "aside")
        shard.write_bytes(b"")
        listed, failure = _until_error(other)
        shard.unlink()
        (root / "aside").rename(shard)

    hidden = {Digest.of(datas[0])}
    assert listed == sorted({Digest.of(data) for data in datas} - hidden)
    assert isinstance(failure, StoreLayoutError)
    assert failure.where == str(shard)


class _Refusing(Disk):
    """Fails to list, or to open, one path."""

    def __init__(self, refused: Path) -> None:
        self.refused = refused

    def names(self, path: Path) -> list[str]:
        self._check(path)
        return super().names(path)

    def open_read(self, path: Path | str) -> int:
        self._check(path)
        return super().open_read(path)

    def _check(self, path: Path | str) -> None:
        if Path(path) == self.refused:
            raise OSError(errno.EIO, "refused", str(path))


@pytest.mark.parametrize("refused", ["the directory", "one of two files"])
def test_an_intake_that_cannot_be_read_hides_nothing_else(root: Path, refused: str) -> None:
    """Neither objects that have files nor those in another intake; a listing ends in the error."""
    datas = [bytes([number]) for number in range(12)]
    with opened(root) as one, opened(root) as another, opened(root, intake=False) as filing:
        for data in datas[:4]:
            one.commit(attachment(data))
        (path,) = intake_files(root)
        for data in datas[4:8]:
            another.commit(attachment(data))
        for data in datas[8:]:
            filing.commit(attachment(data))
        disk = _Refusing(path if refused == "one of two files" else path.parent)
        reader = ObjectStore(IntakeBackend(FilesystemBackend(root, disk), disk, intake=False))
        entries = [*reader.entries()]
        listed, failure = _until_error(reader)

    seen = datas[4:] if refused == "one of two files" else datas[8:]
    assert listed == sorted(Digest.of(data) for data in seen)
    assert [it.digest for it in entries if it.kind is EntryKind.OBJECT] == listed
    (told,) = [it for it in entries if it.kind is EntryKind.UNREADABLE]
    assert isinstance(failure, StorageIOError)
    assert (told.path, failure.where) == ("intake", str(disk.refused))
    assert str(disk.refused) in str(told.reason)


def _until_error(store: ObjectStore) -> tuple[list[Digest], AttachstoreError | None]:
    listed: list[Digest] = []
    try:
        for digest in store.digests():
            listed.append(digest)  # noqa: PERF402 - what came before the error counts
    except AttachstoreError as error:
        return listed, error
    return listed, None
