"""ObjectStore: what it promises, what it compares, and what it says when bytes are wrong."""

from __future__ import annotations

import logging

import pytest

from attachstore.attachment import Attachment, BytesContent, Content, Header
from attachstore.digest import Digest
from attachstore.errors import (
    AmbiguousReferenceError,
    InvalidReferenceError,
    ObjectCorruptError,
    ObjectMissingError,
    StorageIOError,
)
from attachstore.objects.backend import Judge, StoredObject
from attachstore.objects.memory import MemoryBackend
from attachstore.objects.store import CommitOutcome, ObjectStore
from attachstore.reference import Reference
from attachstore.threads import CancelFlag, Cancelled
from tests.objects.samples import DATA, DIGEST, attachment, png, reference

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
