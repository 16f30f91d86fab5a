"""The intake: what is acknowledged when, what a crash leaves of its file, when it is empty."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from attachstore.digest import Digest
from attachstore.disk import Disk, read_all
from attachstore.errors import (
    ObjectCorruptError,
    ObjectMissingError,
    StorageIOError,
    StorePoisonedError,
    UnavailableError,
)
from attachstore.objects.backend import EntryKind
from attachstore.objects.filesystem import FilesystemBackend
from attachstore.objects.intake import IntakePolicy
from attachstore.objects.intake_backend import IntakeBackend
from attachstore.objects.intake_file import IntakeFile, fits, front_of, records
from attachstore.objects.store import CommitOutcome, ObjectStore
from tests.descriptors import open_descriptors
from tests.faults import SYNCS, Effect, FailingDisk, RecordingDisk, failing_disks
from tests.objects.intakes import NEVER_S, backend_of, intake_files, opened
from tests.objects.samples import (
    ALWAYS,
    DATA,
    DIGEST,
    abandon,
    attachment,
    damage,
    make_store,
    names_in,
    object_path,
    open_intake_store,
    open_store,
    reference,
)
from tests.waiting import wait_until

OTHER = b"other bytes" * 100


# -- what is acknowledged, and when --------------------------------------------------------------


def test_an_object_costs_one_write_and_one_sync_of_bytes(root: Path) -> None:
    with opened(root) as store:
        store.commit(attachment(OTHER))  # makes the file
    disk = RecordingDisk(root)
    with opened(root, disk) as store:
        store.commit(attachment(OTHER + b"1"))
        disk.trace.clear()

        assert store.commit(attachment()).outcome is CommitOutcome.STORED

        assert [call for call, _ in disk.trace] == ["write", "sync_data"]
        assert not object_path(root).exists()
        assert store.read(reference()) == DATA


def test_the_directory_of_intakes_is_durable_whoever_has_made_it(root: Path) -> None:
    """Who made it may have been killed before it synced the name."""
    (root / "intake").mkdir()
    disk = RecordingDisk(root, methods=SYNCS)
    with opened(root, disk) as store:
        store.commit(attachment(OTHER))
        store.commit(attachment())

        assert store.backend.size(DIGEST) == len(DATA)
        assert not object_path(root).exists()
        syncs = [it for it in disk.trace if it[0] != "sync_file"]
        assert syncs.index(("sync_directory", ".")) < syncs.index(("sync_directory", "intake"))
        assert syncs.count(("sync_directory", ".")) == 1


def test_many_cost_one_sync_of_bytes_though_nothing_came_before(root: Path) -> None:
    """A batch is a burst by itself. What is too large for the intake becomes a file."""
    disk = RecordingDisk(root, methods={*SYNCS, "link_open_file"})
    items = [DATA, OTHER, bytes(70_000), DATA]
    policy = IntakePolicy(burst_s=0.0, idle_s=NEVER_S, object_bytes_max=10_000)
    with opened(root, disk, intake=policy) as store:
        store.commit_many([attachment(b"makes the file"), attachment(b"of the intake")])
        disk.trace.clear()

        committed = store.commit_many([attachment(it) for it in items])

        steps = [it for it in disk.trace if it != ("sync_directory", "objects/blake3")]
        assert [call for call, _ in steps] == [
            "sync_data",  # of all that go through the intake, also of the one that comes twice
            *["sync_file", "link_open_file", "sync_directory"],
        ]
        outcomes = [it.outcome.value for it in committed]
        assert outcomes == ["stored", "stored", "stored", "duplicate"]
        assert [store.read(it.reference) for it in committed] == items


def test_what_leaves_the_intake_is_synced_together_and_named_before_it_is_forgotten(
    root: Path,
) -> None:
    disk = RecordingDisk(root, methods={"sync_file", "link_open_file", "sync_directory", "unlink"})
    with opened(root, disk) as store:
        for data in (DATA, OTHER):
            store.commit(attachment(data))
        disk.trace.clear()
    first_use_of_a_shard = ("sync_directory", "objects/blake3")
    assert [it[0] for it in disk.trace if it != first_use_of_a_shard] == [
        *["sync_file"] * 2,
        *["link_open_file"] * 2,
        *["sync_directory"] * 2,
        "unlink",
    ]
    assert disk.trace[-1] == ("unlink", "intake/<random>.intake")
    assert open_store(root).read(reference()) == DATA


def test_what_comes_alone_gets_its_file_at_once(root: Path) -> None:
    """So a command that attaches one file, and ends, makes no intake."""
    with opened(root, intake=IntakePolicy(burst_s=0.0)) as store:
        for data in (DATA, OTHER):
            store.commit(attachment(data))
    assert object_path(root).exists()
    assert not (root / "intake").exists()
    with opened(root, intake=IntakePolicy(burst_s=NEVER_S, idle_s=NEVER_S)) as store:
        store.commit(attachment(b"the first of a burst"))
        assert store.commit(attachment(b"the second")).outcome is CommitOutcome.STORED


def test_large_objects_get_their_files_at_once(root: Path) -> None:
    with opened(root) as store:
        large = bytes(1 + (1 << 20))
        store.commit(attachment(large))
        assert object_path(root, large).exists()


def test_an_object_that_no_intake_file_could_hold_gets_its_file_at_once(root: Path) -> None:
    file_bytes = ALWAYS.file_bytes
    assert fits(file_bytes - 128, file_bytes)
    assert not fits(file_bytes - 127, file_bytes)
    with opened(root) as store:
        store.commit(attachment())
        large = bytes(file_bytes - 127)
        store.commit(attachment(large))
        assert object_path(root, large).exists()
        assert store.read(reference()) == DATA


def test_an_object_that_finds_no_room_gets_its_file_at_once(root: Path) -> None:
    """The caller waits for the disk, as it has to without an intake, and not for our threads."""
    with opened(root) as store:
        datas = [bytes([number]) * 20_000 for number in range(8)]
        own = backend_of(store)._own
        assert own is not None
        with own._draining:  # as long as our threads are not done
            for data in datas:
                store.commit(attachment(data))
            in_files = [data for data in datas if object_path(root, data).exists()]
        assert len(in_files) == 2, "two files of 64 KiB take three of them each"
        backend_of(store).drain()
        assert all(store.read(reference(data)) == data for data in datas)
        assert len(intake_files(root)) == 1


def test_threads_that_put_at_the_same_time_share_a_sync(root: Path) -> None:
    """Each has its answer only after a sync that began after its write: one more does for all."""
    datas = [bytes([number]) * 100 for number in range(32)]
    written = threading.Semaphore(0)

    class Waiting(RecordingDisk):
        """The first sync takes until everybody has written."""

        is_first = False

        def write(self, descriptor: int, data: bytes | memoryview, offset_bytes: int) -> int:
            try:
                return super().write(descriptor, data, offset_bytes)
            finally:
                written.release()

        def sync_data(self, descriptor: int) -> None:
            super().sync_data(descriptor)
            if self.is_first:
                self.is_first = False
                for _ in datas:
                    assert written.acquire(timeout=100)

    disk = Waiting(root, methods={"sync_data", "write"})
    policy = IntakePolicy(burst_s=NEVER_S, idle_s=NEVER_S, file_bytes=1 << 20)
    with opened(root, disk, intake=policy) as store:
        store.commit(attachment(OTHER))
        written = threading.Semaphore(0)
        disk.trace.clear()
        disk.is_first = True
        threads = [
            threading.Thread(target=store.commit, args=(attachment(data),)) for data in datas
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        calls = [call for call, _ in disk.trace]
        assert calls.count("write") == len(datas)
        assert calls.count("sync_data") == 2
        assert all(store.read(reference(data)) == data for data in datas)


def test_the_same_bytes_are_taken_in_once(root: Path) -> None:
    with opened(root) as store:
        outcomes = [store.commit(attachment()).outcome for _ in range(2)]
        backend_of(store).drain()
        outcomes.append(store.commit(attachment()).outcome)
    assert outcomes == [CommitOutcome.STORED, CommitOutcome.DUPLICATE, CommitOutcome.DUPLICATE]


# -- when it leaves ------------------------------------------------------------------------------


@pytest.mark.parametrize("pause_s", [0.0, 0.1], ids=["at once", "after a while"])
def test_when_nothing_comes_there_are_plain_files_only(root: Path, pause_s: float) -> None:
    """After each burst, not after the first only."""
    policy = IntakePolicy(burst_s=NEVER_S, idle_s=0.02)
    with opened(root, intake=policy) as store:
        for data in (DATA, OTHER, b"third"):
            store.commit(attachment(data))
            wait_until(object_path(root, data).exists)
            wait_until(lambda: not backend_of(store)._own.records())
            time.sleep(pause_s)
            assert store.read(reference(data)) == data


def test_what_a_batch_has_taken_in_before_it_failed_gets_its_files_too(root: Path) -> None:
    """It woke nobody, and neither did those who came later."""
    disk = FailingDisk(methods={"write"})
    policy = IntakePolicy(burst_s=NEVER_S, idle_s=0.02)
    with opened(root, disk, intake=policy) as store:
        store.commit(attachment(b"makes the file"))
        wait_until(lambda: not backend_of(store)._own.records())
        disk.fail_at = disk.calls + 2  # the second record
        with pytest.raises(StorageIOError) as caught:
            store.commit_many([attachment(it) for it in (DATA, OTHER)])
        disk.heal()
        assert caught.value.index == 0  # they share a file and a sync
        store.commit(attachment(b"later"))
        wait_until(object_path(root, b"later").exists)


def test_a_file_that_is_half_full_is_emptied_while_more_comes(root: Path) -> None:
    policy = IntakePolicy(burst_s=NEVER_S, idle_s=NEVER_S, file_bytes=64 << 10)
    with opened(root, intake=policy) as store:
        for number in range(3):
            data = bytes([number]) * (40 << 10)
            store.commit(attachment(data))
            wait_until(object_path(root, data).exists)


def test_closing_leaves_plain_files_no_thread_and_no_descriptor(root: Path) -> None:
    before, threads = open_descriptors(), threading.active_count()
    with opened(root) as store:
        store.commit(attachment())
    assert intake_files(root) == []
    assert open_store(root).read(reference()) == DATA
    assert threading.active_count() == threads
    assert open_descriptors() <= before


def test_a_disk_that_is_full_keeps_them_in_the_intake(root: Path) -> None:
    """They are acknowledged, and stay readable; closing says that they have no files yet."""
    disk = FailingDisk(1, error=errno.ENOSPC, methods={"open_temporary"}, sticky=True)
    store = open_intake_store(root, disk)
    store.commit(attachment())
    with pytest.raises(UnavailableError):
        backend_of(store).drain()
    assert store.read(reference()) == DATA
    with pytest.raises(UnavailableError):
        store.close()

    with opened(root) as next_store:
        assert object_path(root).exists()
        assert next_store.read(reference()) == DATA
    assert intake_files(root) == []


def test_a_medium_that_has_no_room_for_an_intake_does_without(root: Path) -> None:
    disk = FailingDisk(1, error=errno.ENOSPC, methods={"create"}, sticky=True)
    with opened(root, disk) as store:
        assert store.commit(attachment()).outcome is CommitOutcome.STORED
        assert object_path(root).exists()
        assert store.commit(attachment(OTHER)).outcome is CommitOutcome.STORED
    assert len(disk.landed) == 1, "it was tried again"


def test_a_process_that_can_have_no_thread_does_without(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And closes as always: nothing is there to be waited for."""

    def fail(_: threading.Thread) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        with opened(root) as store:
            assert store.commit(attachment()).outcome is CommitOutcome.STORED
            assert object_path(root).exists()
    assert intake_files(root) == []


def test_bad_bytes_under_the_objects_name_are_healed_on_the_way_out(root: Path) -> None:
    with opened(root) as store:
        store.commit(attachment())
        open_store(root).commit(attachment())
        damage(object_path(root))
    assert open_store(root).read(reference()) == DATA
    assert len(names_in(root / "quarantine")) == 2


# -- faults --------------------------------------------------------------------------------------


def test_after_a_failed_sync_nothing_more_is_promised(root: Path) -> None:
    disk = FailingDisk(2, methods={"sync_data"})
    store = open_intake_store(root, disk)
    store.commit(attachment(OTHER))
    with pytest.raises(StorageIOError):
        store.commit(attachment())
    for wrong in (
        lambda: store.commit(attachment()),
        lambda: store.commit(attachment(b"new")),
        lambda: backend_of(store).drain(),
    ):
        with pytest.raises(StorePoisonedError):
            wrong()
    assert disk.landed == ["sync_data"]
    assert store.read(reference(OTHER)) == OTHER
    with pytest.raises(StorePoisonedError):
        store.close()

    with opened(root) as next_store:
        assert next_store.read(reference(OTHER)) == OTHER, "it was acknowledged"


def become(root: Path, template: Path) -> None:
    """As the template; its directories stay, which are many."""
    if not root.exists():
        shutil.copytree(template, root)
        return
    for place, _, files in os.walk(root):
        for name in files:
            Path(place, name).unlink()
    shutil.rmtree(root / "intake", ignore_errors=True)
    for path in template.iterdir():
        if path.is_file():
            shutil.copy2(path, root)


@pytest.mark.parametrize("effect", ["none", "half", "done"])
@pytest.mark.parametrize("sticky", [False, True])
def test_every_call_may_fail(memory_path: Path, effect: Effect, *, sticky: bool) -> None:
    """The error is typed; what was acknowledged is there for the next to open the store."""
    root, template = memory_path / "store", memory_path / "template"
    make_store(template)
    before = open_descriptors()
    for disk in failing_disks(effect=effect, sticky=sticky):
        become(root, template)
        acknowledged: list[bytes] = []
        try:
            store = open_intake_store(root, disk)
            try:
                for data in (DATA, OTHER):
                    store.commit(attachment(data))
                    acknowledged.append(data)
            finally:
                store.close()
        except UnavailableError:
            assert disk.landed
        assert open_descriptors() <= before, f"a descriptor is left after {disk.landed}"
        with opened(root) as next_store:
            for data in acknowledged:
                assert next_store.read(reference(data)) == data
            for digest in next_store.digests():
                assert next_store.verify(digest).error is None
            next_store.commit(attachment())
        assert open_store(root).read(reference()) == DATA
        assert intake_files(root) == []


# -- the file ------------------------------------------------------------------------------------


def test_a_file_that_is_cut_or_zeroed_at_any_byte_gives_back_whole_objects_only(
    root: Path,
) -> None:
    """And all that lie before the damage."""
    store = open_intake_store(root, intake=IntakePolicy(burst_s=NEVER_S, file_bytes=4096))
    datas = [b"first", b"second" * 9, b"third"]
    for data in datas:
        store.commit(attachment(data))
    (path,) = intake_files(root)
    whole = path.read_bytes()
    abandon(store)
    end = whole.index(b"third") + len(b"third")
    for at in range(end + 1):
        path.parent.joinpath("again").unlink(missing_ok=True)
        for changed in (whole[:at], whole[:at] + bytes(len(whole) - at)):
            path.write_bytes(changed)
            reader = ObjectStore(IntakeBackend(FilesystemBackend(root, Disk()), Disk()))
            found = [data for data in datas if readable(reader, data)]
            ends = [whole.index(data) + len(data) for data in datas]
            assert found == [data for data, end in zip(datas, ends, strict=True) if end <= at]


def readable(store: ObjectStore, data: bytes) -> bool:
    try:
        return store.read(reference(data)) == data
    except (ObjectCorruptError, ObjectMissingError):
        return False


def test_no_flipped_bit_serves_other_bytes(root: Path) -> None:
    store = open_intake_store(root, intake=IntakePolicy(burst_s=NEVER_S, file_bytes=1024))
    for data in (DATA, OTHER[:50]):
        store.commit(attachment(data))
    (path,) = intake_files(root)
    whole = path.read_bytes()
    abandon(store)
    for bit in range(8 * (whole.index(OTHER[:50]) + 50)):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        reader = ObjectStore(IntakeBackend(FilesystemBackend(root, Disk()), Disk()))
        for data in (DATA, OTHER[:50]):
            readable(reader, data)  # asserts that what it gets is what was asked for


def test_rot_before_a_whole_record_is_kept_for_diagnosis(root: Path) -> None:
    """A crash tears the end. What is bad further to the front may have been acknowledged."""
    store = open_intake_store(root)
    for data in (DATA, OTHER):
        store.commit(attachment(data))
    (path,) = intake_files(root)
    abandon(store)
    path.write_bytes(path.read_bytes().replace(DATA, b"W" + DATA[1:], 1))

    with opened(root) as next_store:
        assert next_store.read(reference(OTHER)) == OTHER
        with pytest.raises(ObjectMissingError):
            next_store.read(reference())
    kept = [it for it in (root / "quarantine").iterdir() if it.suffix != ".json"]
    assert [it.read_bytes() for it in kept] == [b"W" + DATA[1:]]
    assert kept[0].name.startswith(DIGEST.hex)


def test_what_an_earlier_filling_has_left_is_not_read_as_part_of_the_later(root: Path) -> None:
    disk = Disk()
    (root / "intake").mkdir()
    file = IntakeFile.create(disk, root / "intake", 4096)
    earlier = [bytes([number]) * 10 for number in range(5)]
    for data in earlier:
        file.append(Digest.of(data), data)
    file.start_over()
    file.append(Digest.of(earlier[0]), earlier[0])
    (path,) = intake_files(root)
    descriptor = disk.open_read(path)

    def read(size_bytes: int, offset_bytes: int) -> bytes:
        return read_all(disk, descriptor, size_bytes, offset_bytes)

    front = front_of(read)
    assert front is not None
    assert front.generation == 1
    assert [it.digest for it in records(read)] == [Digest.of(earlier[0])]
    disk.close(descriptor)
    file.remove()


def test_a_thread_that_is_late_by_a_filling_does_not_vouch_for_the_next(root: Path) -> None:
    """It syncs what it meant to sync, while the file is emptied and filled again."""
    with opened(root) as store:
        store.commit(attachment(OTHER))
        own = cast("Any", store.backend)._own
        (late,) = own._fillings()
        position = late.file.position
        late.synced = (0, 0)
        sync = late.file.sync

        def slow() -> None:
            sync()  # what comes now is not in it
            late.file.start_over()
            late.file.append(DIGEST, DATA)

        late.file.sync = slow
        own._make_durable(late, position)
        assert late.synced < late.file.position, "the new record was never synced"
        late.file.sync = sync
        late.records.clear()


def test_rot_in_the_intake_is_mended_by_attaching_again_and_stops_nobody(root: Path) -> None:
    with opened(root) as store:
        for data in (DATA, OTHER):
            store.commit(attachment(data))
        (path,) = intake_files(root)
        path.write_bytes(path.read_bytes().replace(DATA, b"W" + DATA[1:], 1))
        with pytest.raises(ObjectCorruptError):
            store.read(reference())
        assert store.commit(attachment()).outcome is CommitOutcome.HEALED
        assert store.read(reference()) == DATA
    assert open_store(root).read(reference(OTHER)) == OTHER
    kept = [it for it in (root / "quarantine").iterdir() if it.suffix != ".json"]
    assert [it.read_bytes() for it in kept] == [b"W" + DATA[1:]]


def test_a_store_opens_whatever_keeps_a_dead_intake_from_its_files(root: Path) -> None:
    store = open_intake_store(root)
    for data in (DATA, OTHER):
        store.commit(attachment(data))
    abandon(store)
    shard = object_path(root).parent
    shard.rmdir()
    shard.write_bytes(b"a file where a directory belongs")

    with opened(root, intake=False) as next_store:
        assert len(intake_files(root)) == 1
        assert next_store.read(reference(OTHER)) == OTHER


def test_others_find_a_record_in_the_place_of_one_that_failed(root: Path) -> None:
    """They may have seen the header of the one that failed."""
    disk = FailingDisk(methods={"write"}, effect="half")
    with opened(root, disk) as writer, opened(root, intake=False) as other:
        for data in (OTHER * 16, OTHER):  # room for more has been written
            writer.commit(attachment(data))
        disk.fail_at = disk.calls + 1
        with pytest.raises(StorageIOError):
            writer.commit(attachment(OTHER * 9))
        assert other.size(Digest.of(OTHER * 9)) is None
        for data in (DATA, b"next"):
            writer.commit(attachment(data))
            assert other.read(reference(data)) == data


@pytest.mark.parametrize(
    "content", [b"", b"not ours" * 100, b"attachstore-intake/2\n" + bytes(100), bytes(8192)]
)
def test_a_file_that_is_not_ours_holds_nothing(root: Path, content: bytes) -> None:
    (root / "intake").mkdir()
    (root / "intake" / "0.intake").write_bytes(content)
    with opened(root, intake=False) as store:
        assert [*store.digests()] == []


@pytest.mark.parametrize("kind", ["directory", "link", "fifo"])
def test_what_is_no_file_is_left_alone_and_blocks_nobody(root: Path, kind: str) -> None:
    (root / "intake").mkdir()
    path = root / "intake" / "0.intake"
    make: dict[str, Callable[[], object]] = {
        "directory": path.mkdir,
        "link": lambda: path.symlink_to("/dev/zero"),
        "fifo": lambda: os.mkfifo(path),
    }
    make[kind]()
    with opened(root) as store:
        store.commit(attachment())
        assert store.read(reference()) == DATA
        with pytest.raises(ObjectMissingError):
            store.read(reference(OTHER))
        (entry,) = [it for it in store.entries() if it.path == "intake/0.intake"]
        assert entry.kind is EntryKind.IRREGULAR
    assert path.is_symlink() or path.exists()


def test_a_foreign_name_beside_the_intakes_is_listed_as_such(root: Path) -> None:
    with opened(root) as store:
        store.commit(attachment())
        (root / "intake" / "notes.txt").write_bytes(b"mine")
        found = {it.path: it.kind for it in store.entries()}
    assert found["intake/notes.txt"] is EntryKind.FOREIGN
    assert EntryKind.IRREGULAR not in found.values()
