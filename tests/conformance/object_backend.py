"""What every ObjectBackend does. A new medium passes it with one subclass and one fixture.

Subclasses say how to make a backend and, going around it, how to damage and look at what it
keeps: so a fault in writing cannot hide one in reading.
"""

from __future__ import annotations

import abc
from pathlib import Path

import pytest

from attachstore.attachment import BytesContent, Content
from attachstore.digest import Digest
from attachstore.errors import ObjectMissingError
from attachstore.objects.backend import (
    EntryKind,
    ObjectBackend,
    QuarantineNote,
    StoredObject,
)
from attachstore.threads import CancelFlag, Cancelled

DATA = b"some bytes"
DIGEST = Digest.of(DATA)
BAD = b"rotten"


def content(data: bytes = DATA) -> Content:
    return BytesContent(data)


def bytes_of(stored: StoredObject) -> bytes:
    buffer = bytearray(stored.size + 10)
    filled = 0
    while got := stored.read_into(memoryview(buffer)[filled:], filled):
        filled += got
    return bytes(buffer[:filled])


def read(backend: ObjectBackend, digest: Digest = DIGEST) -> bytes:
    with backend.open(digest) as stored:
        return bytes_of(stored)


def guilty(stored: StoredObject) -> QuarantineNote:
    """A judge that finds everything bad."""
    data = bytes_of(stored)
    return QuarantineNote(
        found_by="test", expected=str(DIGEST), actual=str(Digest.of(data)), size_bytes=len(data)
    )


def innocent(stored: StoredObject) -> None:
    """A judge that finds everything good."""
    del stored


class ObjectBackendConformance(abc.ABC):
    """Subclass it, name the class Test..., and override the three helpers."""

    @abc.abstractmethod
    def make(self, tmp_path: Path) -> ObjectBackend: ...

    @abc.abstractmethod
    def damage(self, backend: ObjectBackend, digest: Digest, data: bytes) -> None:
        """Put other bytes under `digest`, behind the backend's back."""

    @abc.abstractmethod
    def remove(self, backend: ObjectBackend, digest: Digest) -> None:
        """Remove the object, behind the backend's back."""

    @pytest.fixture
    def backend(self, tmp_path: Path) -> ObjectBackend:
        return self.make(tmp_path)

    # -- publish and open ------------------------------------------------------------------

    def test_what_was_published_is_read_back(self, backend: ObjectBackend) -> None:
        assert backend.publish(DIGEST, content())

        assert read(backend) == DATA
        assert backend.size(DIGEST) == len(DATA)

    def test_an_empty_object_is_an_object(self, backend: ObjectBackend) -> None:
        digest = Digest.of(b"")

        assert backend.publish(digest, content(b""))

        assert read(backend, digest) == b""
        assert backend.size(digest) == 0

    def test_several_mebibytes_arrive_whole(self, backend: ObjectBackend) -> None:
        """More than one block, and a last one that is not full."""
        data = bytes(range(256)) * 4096 * 3 + b"end"

        assert backend.publish(Digest.of(data), content(data))

        assert read(backend, Digest.of(data)) == data

    def test_a_taken_name_is_never_replaced(self, backend: ObjectBackend) -> None:
        """Whatever lies there: only `heal` may judge it."""
        backend.publish(DIGEST, content())
        self.damage(backend, DIGEST, BAD)

        assert not backend.publish(DIGEST, content())

        assert read(backend) == BAD

    def test_nothing_lies_under_an_unknown_digest(self, backend: ObjectBackend) -> None:
        assert backend.size(DIGEST) is None
        with pytest.raises(ObjectMissingError) as caught:
            backend.open(DIGEST)
        assert caught.value.digest == str(DIGEST)

    def test_an_object_is_read_at_any_offset(self, backend: ObjectBackend) -> None:
        backend.publish(DIGEST, content())

        with backend.open(DIGEST) as stored:
            buffer = memoryview(bytearray(4))
            assert stored.read_into(buffer, 5) == 4
            assert bytes(buffer) == DATA[5:9]
            assert stored.read_into(buffer, len(DATA)) == 0
            assert stored.size == len(DATA)
            assert DIGEST.hex in stored.location

    def test_many_objects_are_read_near_each_other(self, backend: ObjectBackend) -> None:
        backend.publish(DIGEST, content())
        absent = Digest(DIGEST.hex[:2] + "0" * 62)

        with backend.near(absent):
            with backend.open(DIGEST) as stored:
                assert stored.size == len(DATA)
            with pytest.raises(ObjectMissingError):
                backend.open(absent)

    def test_an_open_object_may_be_closed_twice(self, backend: ObjectBackend) -> None:
        backend.publish(DIGEST, content())
        stored = backend.open(DIGEST, fresh=True)

        stored.close()
        stored.close()

    def test_publishing_leaves_the_content_to_its_owner(self, backend: ObjectBackend) -> None:
        spool = backend.spool()
        spool.write(DATA)
        spooled = spool.finish()
        backend.publish(DIGEST, spooled)

        assert spooled.head(100) == DATA
        spooled.close()
        assert read(backend) == DATA

    def test_a_cancelled_caller_publishes_nothing(self, backend: ObjectBackend) -> None:
        flag = CancelFlag()
        flag.set()

        with pytest.raises(Cancelled):
            backend.publish(DIGEST, content(), flag)

        assert backend.size(DIGEST) is None

    # -- many together ---------------------------------------------------------------------

    def test_many_are_published_together(self, backend: ObjectBackend) -> None:
        """More than a group, some of them too large for company, and each whole."""
        offered = [content(str(number).encode()) for number in range(70)]
        offered.insert(3, content(bytes(5 << 20)))

        assert backend.publish_many(offered) == []

        assert [read(backend, it.digest) for it in offered] == [it.head(it.size) for it in offered]
        assert backend.publish_many([]) == []

    def test_of_many_those_whose_names_are_taken_are_told(self, backend: ObjectBackend) -> None:
        """Also those that come twice; whatever lies there stays."""
        backend.publish(DIGEST, content())
        self.damage(backend, DIGEST, BAD)
        new, again = content(b"new"), content(b"new")
        spool = backend.spool()
        spool.write(b"spooled")
        spooled = spool.finish()
        there = content()

        taken = backend.publish_many(iter([new, there, again, spooled]))

        assert {id(it) for it in taken} == {id(there), id(again)}
        assert read(backend) == BAD
        assert read(backend, new.digest) == b"new"
        assert read(backend, spooled.digest) == b"spooled"
        spooled.close()

    def test_of_many_a_cancelled_caller_publishes_nothing(self, backend: ObjectBackend) -> None:
        flag = CancelFlag()
        flag.set()

        with pytest.raises(Cancelled):
            backend.publish_many([content(), content(b"more")], flag)

        assert backend.size(DIGEST) is None

    # -- spool -----------------------------------------------------------------------------

    def test_spooled_bytes_are_hashed_and_published(self, backend: ObjectBackend) -> None:
        spool = backend.spool()
        spool.write(DATA[:3])
        spool.write(memoryview(DATA)[3:])
        spooled = spool.finish()

        assert (spooled.digest, spooled.size) == (DIGEST, len(DATA))
        assert backend.publish(spooled.digest, spooled)
        spooled.close()

        assert read(backend) == DATA

    def test_spooled_bytes_have_many_independent_readers(self, backend: ObjectBackend) -> None:
        spool = backend.spool()
        spool.write(DATA)
        spooled = spool.finish()

        with spooled.open() as one, spooled.open() as two:
            assert one.read(4) == DATA[:4]
            assert two.read() == DATA
            assert one.read() == DATA[4:]
            two.seek(-2, 2)
            assert two.read() == DATA[-2:]
            assert one.seek(2) == 2
            assert one.read(1) == DATA[2:3]
        assert spooled.head(4) == DATA[:4]
        spooled.close()
        spooled.close()

    def test_spooled_bytes_are_no_object(self, backend: ObjectBackend) -> None:
        spool = backend.spool()
        spool.write(DATA)

        assert backend.size(DIGEST) is None
        assert list(backend.digests()) == []
        spool.discard()
        spool.discard()

        assert [entry for entry in backend.entries() if entry.kind is EntryKind.STAGING] == []

    def test_discarding_after_the_end_does_nothing(self, backend: ObjectBackend) -> None:
        spool = backend.spool()
        spool.write(DATA)
        spooled = spool.finish()

        spool.discard()

        assert spooled.head(100) == DATA
        spooled.close()

    # -- confirm ---------------------------------------------------------------------------

    def test_what_lies_there_can_be_confirmed(self, backend: ObjectBackend) -> None:
        backend.publish(DIGEST, content())

        with backend.open(DIGEST) as stored:
            assert backend.confirm(DIGEST, stored)

    def test_an_object_that_is_gone_is_not_confirmed(self, backend: ObjectBackend) -> None:
        backend.publish(DIGEST, content())

        with backend.open(DIGEST) as stored:
            self.remove(backend, DIGEST)
            assert not backend.confirm(DIGEST, stored)

    def test_an_object_whose_name_leads_elsewhere_now_is_not_confirmed(
        self, backend: ObjectBackend
    ) -> None:
        """The bytes that were hashed are not those that the name promises."""
        backend.publish(DIGEST, content())
        self.damage(backend, DIGEST, BAD)

        with backend.open(DIGEST) as stored:
            backend.heal(DIGEST, content(), guilty)
            assert not backend.confirm(DIGEST, stored)

    # -- heal ------------------------------------------------------------------------------

    def test_healing_puts_good_bytes_in_and_keeps_the_bad(self, backend: ObjectBackend) -> None:
        backend.publish(DIGEST, content())
        self.damage(backend, DIGEST, BAD)

        assert backend.heal(DIGEST, content(), guilty)

        assert read(backend) == DATA
        assert [bytes_of(copy) for copy in backend.quarantined(DIGEST)] == [BAD]

    def test_healing_from_a_spool(self, backend: ObjectBackend) -> None:
        backend.publish(DIGEST, content())
        self.damage(backend, DIGEST, BAD)
        spool = backend.spool()
        spool.write(DATA)
        spooled = spool.finish()

        assert backend.heal(DIGEST, spooled, guilty)
        spooled.close()

        assert read(backend) == DATA

    def test_good_bytes_are_not_healed(self, backend: ObjectBackend) -> None:
        """The second of two healers finds good bytes."""
        backend.publish(DIGEST, content())

        assert not backend.heal(DIGEST, content(), innocent)

        assert list(backend.quarantined(DIGEST)) == []

    def test_nothing_is_healed_where_nothing_is(self, backend: ObjectBackend) -> None:
        assert not backend.heal(DIGEST, content(), guilty)

        assert backend.size(DIGEST) is None

    def test_the_judge_sees_the_bytes_that_would_be_taken_away(
        self, backend: ObjectBackend
    ) -> None:
        backend.publish(DIGEST, content())
        self.damage(backend, DIGEST, BAD)
        seen: list[bytes] = []

        def judge(stored: StoredObject) -> None:
            seen.append(bytes_of(stored))

        backend.heal(DIGEST, content(), judge)
        backend.quarantine(DIGEST, judge)

        assert seen == [BAD, BAD]

    def test_a_reader_keeps_what_it_opened(self, backend: ObjectBackend) -> None:
        backend.publish(DIGEST, content())
        self.damage(backend, DIGEST, BAD)

        with backend.open(DIGEST) as stored:
            backend.heal(DIGEST, content(), guilty)
            assert bytes_of(stored) == BAD

    # -- quarantine ------------------------------------------------------------------------

    def test_bad_bytes_are_moved_aside(self, backend: ObjectBackend) -> None:
        backend.publish(DIGEST, content())
        self.damage(backend, DIGEST, BAD)

        assert backend.quarantine(DIGEST, guilty)

        assert backend.size(DIGEST) is None
        assert [bytes_of(copy) for copy in backend.quarantined(DIGEST)] == [BAD]
        assert backend.publish(DIGEST, content())

    def test_good_bytes_stay(self, backend: ObjectBackend) -> None:
        backend.publish(DIGEST, content())

        assert not backend.quarantine(DIGEST, innocent)

        assert read(backend) == DATA

    def test_nothing_is_moved_aside_where_nothing_is(self, backend: ObjectBackend) -> None:
        assert not backend.quarantine(DIGEST, guilty)

    def test_the_same_object_may_be_moved_aside_again_and_again(
        self, backend: ObjectBackend
    ) -> None:
        for data in (b"1", b"2", b"3"):
            backend.publish(DIGEST, content())
            self.damage(backend, DIGEST, data)
            assert backend.quarantine(DIGEST, guilty)

        found = {bytes_of(copy) for copy in backend.quarantined(DIGEST)}
        assert found == {b"1", b"2", b"3"}
        assert list(backend.quarantined(Digest.of(b"other"))) == []

    # -- listing ---------------------------------------------------------------------------

    def test_digests_come_once_and_ascending(self, backend: ObjectBackend) -> None:
        """1,001: one more than a page of S3's listing holds."""
        blobs = [str(number).encode() for number in range(1001)]
        for blob in blobs:
            backend.publish(Digest.of(blob), content(blob))

        assert list(backend.digests()) == sorted(Digest.of(blob) for blob in blobs)

    @pytest.mark.parametrize("length", [0, 1, 2, 3, 6, 63, 64])
    def test_digests_are_found_by_prefix(self, backend: ObjectBackend, length: int) -> None:
        blobs = [str(number).encode() for number in range(100)]
        for blob in blobs:
            backend.publish(Digest.of(blob), content(blob))
        prefix = Digest.of(b"42").hex[:length]

        expected = [digest for digest in map(Digest.of, blobs) if digest.hex.startswith(prefix)]
        assert list(backend.digests(prefix)) == sorted(expected)

    def test_entries_show_objects_and_quarantine(self, backend: ObjectBackend) -> None:
        other = b"another"
        backend.publish(DIGEST, content())
        backend.publish(Digest.of(other), content(other))
        self.damage(backend, DIGEST, BAD)
        backend.quarantine(DIGEST, guilty)
        backend.publish(DIGEST, content())

        entries = list(backend.entries())

        objects = [entry for entry in entries if entry.kind is EntryKind.OBJECT]
        assert [entry.digest for entry in objects] == sorted([DIGEST, Digest.of(other)])
        assert {entry.size_bytes for entry in objects} == {len(DATA), len(other)}
        assert all(entry.mode is None or not entry.mode & 0o222 for entry in objects)
        aside = [entry for entry in entries if entry.kind is EntryKind.QUARANTINE]
        assert {entry.digest for entry in aside} == {DIGEST}
        assert {entry.kind for entry in entries} == {EntryKind.OBJECT, EntryKind.QUARANTINE}

    def test_there_is_nothing_to_sweep(self, backend: ObjectBackend) -> None:
        backend.publish(DIGEST, content())

        assert backend.sweep() == []
        assert read(backend) == DATA

    # -- the end ---------------------------------------------------------------------------

    def test_a_closed_backend_refuses_work(self, backend: ObjectBackend) -> None:
        backend.publish(DIGEST, content())
        stored = backend.open(DIGEST)
        backend.close()
        backend.close()

        for wrong in (
            backend.spool,
            backend.sweep,
            lambda: backend.open(DIGEST),
            lambda: backend.size(DIGEST),
            lambda: backend.publish(DIGEST, content()),
            lambda: backend.confirm(DIGEST, stored),
            lambda: backend.heal(DIGEST, content(), guilty),
            lambda: backend.quarantine(DIGEST, guilty),
            lambda: list(backend.digests()),
            lambda: list(backend.entries()),
            lambda: list(backend.quarantined(DIGEST)),
        ):
            with pytest.raises(ValueError, match="closed"):
                wrong()
        assert bytes_of(stored) == DATA
        stored.close()
