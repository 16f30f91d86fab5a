"""ObjectStore: what it promises, what it compares, and what it says when bytes are wrong."""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from attachstore.attachment import Attachment, BytesContent, Content, Header
from attachstore.digest import Digest
from attachstore.errors import (
    AmbiguousReferenceError,
    DestinationError,
    HeaderMismatchError,
    InvalidReferenceError,
    ObjectCorruptError,
    ObjectMissingError,
    StorageIOError,
)
from attachstore.objects.backend import Judge, StoredObject
from attachstore.objects.memory import MemoryBackend
from attachstore.objects.store import CommitOutcome, ObjectStore
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


class TestCommit:
    def test_the_reference_says_what_admission_found(self, store: ObjectStore) -> None:
        attached = picture()

        committed = store.commit(attached)

        assert committed.reference == Reference(
            digest=attached.content.digest,
            size=attached.content.size,
            media_type="image/png",
            width=33,
            height=17,
            frames=1,
            name="shot.png",
        )

    def test_new_bytes_are_stored_and_the_same_bytes_a_duplicate(self, store: ObjectStore) -> None:
        first, second = store.commit(attachment(name="a")), store.commit(attachment(name="b"))

        assert (first.outcome, second.outcome) == (CommitOutcome.STORED, CommitOutcome.DUPLICATE)
        assert first.reference.without_name() == second.reference.without_name()
        assert (first.reference.name, second.reference.name) == ("a", "b")

    def test_bad_bytes_are_healed_kept_and_logged(
        self, store: ObjectStore, backend: MemoryBackend, caplog: pytest.LogCaptureFixture
    ) -> None:
        committed = store.commit(attachment())
        backend.objects[DIGEST] = b"rotten"

        with caplog.at_level(logging.WARNING, "attachstore"):
            assert store.commit(attachment()).outcome is CommitOutcome.HEALED

        assert store.read(committed.reference) == DATA
        digest, note, data = backend.moved_aside[0]
        assert (digest, data) == (DIGEST, b"rotten")
        assert note.found_by == "commit"
        assert note.expected == str(DIGEST)
        assert note.actual == str(Digest.of(b"rotten"))
        assert note.size_bytes == 6
        assert str(DIGEST) in caplog.text

    def test_an_object_that_others_keep_removing_is_given_up_with_an_error(self) -> None:
        class Vanishing(MemoryBackend):
            def publish(
                self, digest: Digest, content: Content, cancel: CancelFlag | None = None
            ) -> bool:
                return False

        with pytest.raises(StorageIOError, match="keeps changing"):
            ObjectStore(Vanishing()).commit(attachment())

    def test_an_object_that_is_quarantined_while_it_is_confirmed_is_stored_again(self) -> None:
        """What was hashed is gone before its name was made durable: nothing is promised yet."""

        class Once(MemoryBackend):
            def confirm(self, digest: Digest, stored: StoredObject) -> bool:
                self.objects.pop(digest)
                return super().confirm(digest, stored)

        store = ObjectStore(Once())
        store.commit(attachment())

        assert store.commit(attachment()).outcome is CommitOutcome.STORED

    def test_the_loser_of_two_healers_finds_a_duplicate(self) -> None:
        class Raced(MemoryBackend):
            def heal(
                self,
                digest: Digest,
                content: Content,
                judge: Judge,
                cancel: CancelFlag | None = None,
            ) -> bool:
                self.objects[digest] = DATA  # the other one was faster
                return super().heal(digest, content, judge, cancel)

        backend = Raced()
        store = ObjectStore(backend)
        store.commit(attachment())
        backend.objects[DIGEST] = b"rotten"

        assert store.commit(attachment()).outcome is CommitOutcome.DUPLICATE

    def test_a_cancelled_commit_of_a_big_duplicate_stops_hashing(self, store: ObjectStore) -> None:
        store.commit(attachment(BIG))
        flag = CancelFlag()
        flag.set()

        with pytest.raises(Cancelled):
            store.commit(attachment(BIG), flag)


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


class TestVerify:
    def test_it_says_what_it_found_and_never_raises(
        self, store: ObjectStore, backend: MemoryBackend
    ) -> None:
        store.commit(attachment())
        good = store.verify(DIGEST)
        backend.objects[DIGEST] = b"rotten"
        corrupt = store.verify(DIGEST)
        del backend.objects[DIGEST]
        missing = store.verify(DIGEST)

        assert (good.size_bytes, good.error) == (len(DATA), None)
        assert corrupt.size_bytes == len(b"rotten")
        assert isinstance(corrupt.error, ObjectCorruptError)
        assert isinstance(missing.error, ObjectMissingError)


class TestQuarantine:
    def test_bad_bytes_go_and_good_ones_stay(
        self, store: ObjectStore, backend: MemoryBackend
    ) -> None:
        store.commit(attachment())
        assert not store.quarantine(DIGEST, "scan")

        backend.objects[DIGEST] = b"rotten"
        assert store.quarantine(DIGEST, "scan")

        assert store.size(DIGEST) is None
        assert backend.moved_aside[0][1].found_by == "scan"

    def test_a_missing_object_with_a_whole_copy_aside_says_where(
        self, store: ObjectStore, backend: MemoryBackend
    ) -> None:
        """Bytes that were bad in one moment may be whole: that is no reason to be at a loss."""
        store.commit(attachment())
        backend.objects[DIGEST] = b"rotten"
        store.quarantine(DIGEST, "scan")
        with pytest.raises(ObjectMissingError, match="Attach the same file again"):
            store.read(DIGEST)

        backend.moved_aside.append((DIGEST, backend.moved_aside[0][1], DATA))

        with pytest.raises(ObjectMissingError, match="whole copy is in quarantine") as caught:
            store.read(reference())
        assert "memory:quarantine:1" in caught.value.hint
        assert caught.value.size == len(DATA)


class TestResolve:
    def test_a_whole_digest_is_taken_as_it_is(self, store: ObjectStore) -> None:
        assert store.resolve(str(DIGEST)) == DIGEST
        assert store.resolve(DIGEST.hex) == DIGEST

    def test_a_prefix_of_six_digits_is_enough(self, store: ObjectStore) -> None:
        store.commit(attachment())

        assert store.resolve(DIGEST.hex[:6]) == DIGEST
        assert store.resolve(f"blake3:{DIGEST.hex[:63]}") == DIGEST

    def test_an_unknown_prefix_is_missing(self, store: ObjectStore) -> None:
        with pytest.raises(ObjectMissingError):
            store.resolve("abcdef")

    def test_a_prefix_of_several_is_ambiguous(
        self, store: ObjectStore, backend: MemoryBackend
    ) -> None:
        for last in "ab":
            backend.objects[Digest("0" * 63 + last)] = b""

        with pytest.raises(AmbiguousReferenceError) as caught:
            store.resolve("0" * 6)

        assert caught.value.matches == 2

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "abcde",
            "ABCDEF",
            "blake3:",
            "sha256:abcdef",
            "abcdeg",
            "a" * 65,
            " abcdef",
            "../etc",
        ],
    )
    def test_anything_else_is_no_reference(self, store: ObjectStore, text: str) -> None:
        with pytest.raises(InvalidReferenceError):
            store.resolve(text)
