"""The ways out: all bytes verified, and compared with the reference, before one is seen."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from attachstore.attachment import Attachment, BytesContent, Header
from attachstore.digest import Digest
from attachstore.errors import (
    DestinationError,
    HeaderMismatchError,
    ObjectCorruptError,
    ObjectMissingError,
)
from attachstore.objects.backend import StoredObject
from attachstore.objects.memory import MemoryBackend
from attachstore.objects.store import ObjectStore
from attachstore.objects.stream import HELD_BYTES_MAX
from attachstore.reference import Reference
from attachstore.threads import CancelFlag, Cancelled
from tests.objects.samples import DATA, DIGEST, attachment, names_in, png, reference

BIG = bytes(range(256)) * 4096 * 9 + b"end"  # more than is held in memory


@pytest.fixture
def backend() -> MemoryBackend:
    return MemoryBackend()


@pytest.fixture
def store(backend: MemoryBackend) -> ObjectStore:
    return ObjectStore(backend)


def picture() -> Attachment:
    header = Header(media_type="image/png", width=33, height=17)
    return Attachment(content=BytesContent(png(33, 17)), header=header, frames=1, name="shot.png")


READS: dict[str, Callable[[ObjectStore, Reference | Digest, Path], bytes]] = {}


def reads(function: Callable[[ObjectStore, Reference | Digest, Path], bytes]) -> None:
    READS[function.__name__] = function


@reads
def read(store: ObjectStore, wanted: Reference | Digest, place: Path) -> bytes:
    del place
    return store.read(wanted)


@reads
def stream(store: ObjectStore, wanted: Reference | Digest, place: Path) -> bytes:
    del place
    found = store.stream(wanted)
    try:
        return b"".join(iter(found.read_block, b""))
    finally:
        found.close()


@reads
def copy_out(store: ObjectStore, wanted: Reference | Digest, place: Path) -> bytes:
    store.copy_out(wanted, place / "copy")
    return (place / "copy").read_bytes()


@pytest.mark.parametrize("way", READS.values(), ids=READS)
@pytest.mark.parametrize("data", [DATA, b"", BIG], ids=["small", "empty", "big"])
class TestEveryWayOut:
    """Reading, streaming and copying keep the same rules, for small objects and big ones."""

    def test_good_bytes_come_out(
        self, store: ObjectStore, tmp_path: Path, way: Callable[..., bytes], data: bytes
    ) -> None:
        committed = store.commit(attachment(data))

        assert way(store, committed.reference, tmp_path) == data
        assert way(store, committed.reference.digest, tmp_path) == data

    def test_wrong_bytes_are_corrupt_and_not_a_byte_comes_out(
        self,
        store: ObjectStore,
        backend: MemoryBackend,
        tmp_path: Path,
        way: Callable[..., bytes],
        data: bytes,
    ) -> None:
        committed = store.commit(attachment(data))
        wrong = bytes([*data[:-1], 1]) if data else b"x"
        backend.objects[committed.reference.digest] = wrong

        for wanted in (committed.reference, committed.reference.digest):
            with pytest.raises(ObjectCorruptError) as caught:
                way(store, wanted, tmp_path)
            assert caught.value.digest == str(committed.reference.digest)
            assert caught.value.actual == str(Digest.of(wrong))
            assert caught.value.size_bytes == len(wrong)
            assert committed.reference.digest.hex in caught.value.where
        assert names_in(tmp_path) == []

    def test_bytes_of_another_size_are_corrupt(
        self,
        store: ObjectStore,
        backend: MemoryBackend,
        tmp_path: Path,
        way: Callable[..., bytes],
        data: bytes,
    ) -> None:
        committed = store.commit(attachment(data))
        backend.objects[committed.reference.digest] = data + b"more"

        with pytest.raises(ObjectCorruptError):
            way(store, committed.reference, tmp_path)

    def test_a_missing_object_is_named_with_what_the_reference_knows(
        self, store: ObjectStore, tmp_path: Path, way: Callable[..., bytes], data: bytes
    ) -> None:
        wanted = store.commit(attachment(data, name="a.txt")).reference
        empty = ObjectStore(MemoryBackend())

        with pytest.raises(ObjectMissingError) as caught:
            way(empty, wanted, tmp_path)

        error = caught.value
        assert (error.digest, error.size) == (str(wanted.digest), len(data))
        assert (error.media_type, error.name) == ("text/plain", "a.txt")
        assert "a.txt" in str(error)
        assert pickle.loads(pickle.dumps(error)).details() == error.details()
        assert names_in(tmp_path) == []

    def test_a_reference_with_another_size_is_a_mismatch(
        self, store: ObjectStore, tmp_path: Path, way: Callable[..., bytes], data: bytes
    ) -> None:
        store.commit(attachment(data))
        wanted = Reference(digest=Digest.of(data), size=len(data) + 1, media_type="text/plain")

        with pytest.raises(HeaderMismatchError) as caught:
            way(store, wanted, tmp_path)

        assert caught.value.differences == (("size", str(len(data) + 1), str(len(data))),)
        assert names_in(tmp_path) == []

    def test_a_second_reading_may_save_it(
        self, tmp_path: Path, way: Callable[..., bytes], data: bytes
    ) -> None:
        """A cable, a cache, a healer in between: only what is wrong twice is corrupt."""

        class Flaky(MemoryBackend):
            def open(self, digest: Digest, *, fresh: bool = False) -> StoredObject:
                good = self.objects[digest]
                if not fresh:
                    self.objects[digest] = b"\xff" * len(good) or b"x"
                try:
                    return super().open(digest)
                finally:
                    self.objects[digest] = good

        store = ObjectStore(Flaky())
        store.commit(attachment(data))

        assert way(store, reference(data), tmp_path) == data


class TestComparison:
    def test_a_picture_is_compared_with_its_own_header(self, store: ObjectStore) -> None:
        good = store.commit(picture()).reference
        wrong = Reference(
            digest=good.digest, size=good.size, media_type="image/png", width=17, height=33
        )

        with pytest.raises(HeaderMismatchError) as caught:
            store.read(wrong)

        assert caught.value.differences == (("width", "17", "33"), ("height", "33", "17"))
        assert store.read(good) == store.read(good.digest)
        assert store.differences(good) == ()
        assert store.differences(wrong) == caught.value.differences

    def test_damage_comes_before_disagreement(
        self, store: ObjectStore, backend: MemoryBackend
    ) -> None:
        good = store.commit(picture()).reference
        backend.objects[good.digest] = png(17, 33)

        with pytest.raises(ObjectCorruptError):
            store.read(good)

    def test_confirming_vouches_for_whole_objects_only(
        self, store: ObjectStore, backend: MemoryBackend
    ) -> None:
        good = store.commit(picture()).reference
        store.confirm(good)

        with pytest.raises(HeaderMismatchError):
            store.confirm(Reference(digest=good.digest, size=good.size, media_type="image/gif"))
        backend.objects[good.digest] = b"rotten"
        with pytest.raises(ObjectCorruptError):
            store.confirm(good)
        del backend.objects[good.digest]
        with pytest.raises(ObjectMissingError):
            store.confirm(good)


class TestStream:
    def test_small_objects_come_from_the_memory_that_was_hashed(
        self, store: ObjectStore, backend: MemoryBackend
    ) -> None:
        data = b"x" * HELD_BYTES_MAX
        found = store.stream(store.commit(attachment(data)).reference)

        backend.objects[Digest.of(data)] = b"y" * HELD_BYTES_MAX

        assert found.size == HELD_BYTES_MAX
        assert b"".join(iter(found.read_block, b"")) == data

    def test_blocks_are_one_mebibyte_and_the_last_what_is_left(self, store: ObjectStore) -> None:
        found = store.stream(store.commit(attachment(BIG)).reference)

        sizes = [len(block) for block in iter(found.read_block, b"")]

        assert sizes == [1 << 20] * 9 + [3]
        assert found.size == len(BIG)
        assert found.read_block() == b""

    def test_a_closed_stream_is_at_its_end(self, store: ObjectStore) -> None:
        for data in (DATA, BIG):
            found = store.stream(store.commit(attachment(data)).reference)
            found.close()
            found.close()
            assert found.read_block() == b""

    def test_cancelling_stops_between_blocks(self, store: ObjectStore) -> None:
        flag = CancelFlag()
        found = store.stream(store.commit(attachment(BIG)).reference, flag)
        found.read_block()
        flag.set()

        with pytest.raises(Cancelled):
            found.read_block()

    def test_cancelling_stops_the_verification(self, store: ObjectStore, tmp_path: Path) -> None:
        wanted = store.commit(attachment(BIG)).reference
        flag = CancelFlag()
        flag.set()

        with pytest.raises(Cancelled):
            store.read(wanted, flag)
        with pytest.raises(Cancelled):
            store.stream(wanted, flag)
        with pytest.raises(Cancelled):
            store.copy_out(wanted, tmp_path / "copy", flag)

        assert names_in(tmp_path) == []


class TestCopyOut:
    @pytest.mark.parametrize("kind", ["directory", "link", "fifo"])
    def test_only_a_regular_file_is_replaced(
        self, store: ObjectStore, tmp_path: Path, kind: str
    ) -> None:
        """Renaming over /dev/null would leave a machine without it."""
        target = tmp_path / "target"
        {
            "directory": target.mkdir,
            "link": lambda: target.symlink_to("nowhere"),
            "fifo": lambda: os.mkfifo(target),
        }[kind]()

        with pytest.raises(DestinationError):
            store.copy_out(store.commit(attachment()).reference, target)

        assert names_in(tmp_path) == ["target"]
        assert not target.is_file()

    @pytest.mark.parametrize("place", ["absent/copy", "file/copy"])
    def test_the_folder_must_be_there(self, store: ObjectStore, tmp_path: Path, place: str) -> None:
        (tmp_path / "file").write_bytes(b"")

        with pytest.raises(DestinationError, match="no such directory"):
            store.copy_out(store.commit(attachment()).reference, tmp_path / place)

    def test_an_older_file_stays_if_the_object_is_corrupt(
        self, store: ObjectStore, backend: MemoryBackend, tmp_path: Path
    ) -> None:
        wanted = store.commit(attachment()).reference
        backend.objects[DIGEST] = b"rotten"
        (tmp_path / "copy").write_bytes(b"older")

        with pytest.raises(ObjectCorruptError):
            store.copy_out(wanted, tmp_path / "copy")

        assert (tmp_path / "copy").read_bytes() == b"older"
        assert names_in(tmp_path) == ["copy"]
