"""The intake, seen from other handles and by readers."""

from __future__ import annotations

import threading
from pathlib import Path

from attachstore.digest import Digest
from attachstore.disk import Disk
from attachstore.errors import AttachstoreError, StoreLayoutError
from attachstore.objects.backend import EntryKind
from attachstore.objects.filesystem import FilesystemBackend
from attachstore.objects.intake import IntakePolicy
from attachstore.objects.intake_backend import IntakeBackend
from attachstore.objects.store import ObjectStore
from attachstore.threads import CancelFlag
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
        listed: list[Digest] = []
        failures: list[StoreLayoutError] = []
        try:
            for digest in other.digests():
                listed.append(digest)  # noqa: PERF402 - what came before the error counts
        except StoreLayoutError as error:
            failures.append(error)
        shard.unlink()
        (root / "aside").rename(shard)

    hidden = {Digest.of(datas[0])}
    assert listed == sorted({Digest.of(data) for data in datas} - hidden)
    assert [failure.where for failure in failures] == [str(shard)]
