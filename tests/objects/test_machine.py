"""Any sequence of commits, damage, removals, quarantines and reads, checked against a dict."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from attachstore.digest import Digest
from attachstore.disk import Disk
from attachstore.errors import ObjectCorruptError, ObjectMissingError
from attachstore.objects.backend import ObjectBackend
from attachstore.objects.filesystem import FilesystemBackend
from attachstore.objects.memory import MemoryBackend
from attachstore.objects.store import CommitOutcome, ObjectStore
from attachstore.reference import Reference
from tests.objects.samples import attachment, damage, reference

contents = st.binary(max_size=8)


class ObjectStoreMachine(RuleBasedStateMachine):
    """`good` is what was committed; `now` is what lies there, as far as the test has changed it."""

    references = Bundle("references")

    def __init__(self) -> None:
        super().__init__()
        self.backend: ObjectBackend = self.make()
        self.store = ObjectStore(self.backend)
        self.good: dict[Digest, bytes] = {}
        self.now: dict[Digest, bytes] = {}
        self.aside: list[tuple[Digest, bytes]] = []

    def make(self) -> ObjectBackend:
        return MemoryBackend()

    def put(self, digest: Digest, data: bytes) -> None:
        assert isinstance(self.backend, MemoryBackend)
        self.backend.objects[digest] = data

    def drop(self, digest: Digest) -> None:
        assert isinstance(self.backend, MemoryBackend)
        self.backend.objects.pop(digest, None)

    def reopen(self) -> None:
        """Start again with what is stored."""

    @rule(target=references, data=contents)
    def commit(self, data: bytes) -> Reference:
        digest = Digest.of(data)
        expected = {
            None: CommitOutcome.STORED,
            data: CommitOutcome.DUPLICATE,
        }.get(self.now.get(digest), CommitOutcome.HEALED)
        if expected is CommitOutcome.HEALED:
            self.aside.append((digest, self.now[digest]))

        committed = self.store.commit(attachment(data))

        assert committed.outcome is expected
        assert committed.reference == reference(data)
        self.good[digest] = self.now[digest] = data
        return committed.reference

    @rule(target=references, data=contents)
    def commit_spooled(self, data: bytes) -> Reference:
        spool = self.store.spool()
        spool.write(data)
        content = spool.finish()
        self.store.commit(attachment(content=content))
        content.close()
        found = self.now.get(Digest.of(data))
        if found is not None and found != data:
            self.aside.append((Digest.of(data), found))
        self.good[Digest.of(data)] = self.now[Digest.of(data)] = data
        return reference(data)

    @rule(wanted=references, garbage=contents)
    def damage(self, wanted: Reference, garbage: bytes) -> None:
        if wanted.digest in self.now:
            self.put(wanted.digest, garbage)
            self.now[wanted.digest] = garbage

    @rule(wanted=references)
    def remove(self, wanted: Reference) -> None:
        self.drop(wanted.digest)
        self.now.pop(wanted.digest, None)

    @rule(wanted=references)
    def quarantine(self, wanted: Reference) -> None:
        found = self.now.get(wanted.digest)
        is_bad = found is not None and found != self.good[wanted.digest]

        assert self.store.quarantine(wanted.digest, "test") is is_bad

        if is_bad:
            self.aside.append((wanted.digest, self.now.pop(wanted.digest)))

    @rule(wanted=references)
    def read(self, wanted: Reference) -> None:
        found = self.now.get(wanted.digest)
        try:
            data = self.store.read(wanted)
        except ObjectMissingError:
            assert found is None
        except ObjectCorruptError:
            assert found not in (None, self.good[wanted.digest])
        else:
            assert data == found == self.good[wanted.digest]

    @rule(wanted=references)
    def confirm(self, wanted: Reference) -> None:
        whole = self.now.get(wanted.digest) == self.good[wanted.digest]
        try:
            self.store.confirm(wanted)
        except (ObjectMissingError, ObjectCorruptError):
            assert not whole
        else:
            assert whole

    @rule(wanted=consumes(references))
    def start_again(self, wanted: Reference) -> None:
        del wanted
        self.reopen()

    @rule()
    def sweep(self) -> None:
        assert self.store.sweep() == 0

    @invariant()
    def what_lies_there_is_listed_once(self) -> None:
        assert list(self.store.digests()) == sorted(self.now)

    @invariant()
    def nothing_that_was_moved_aside_is_lost(self) -> None:
        kept: list[tuple[Digest, bytes]] = []
        for digest in self.good:
            for copy in self.backend.quarantined(digest):
                with copy:
                    buffer = memoryview(bytearray(copy.size))
                    copy.read_into(buffer, 0)
                    kept.append((digest, bytes(buffer)))
        assert sorted(kept) == sorted(self.aside)


class FilesystemMachine(ObjectStoreMachine):
    """The same game on files."""

    def make(self) -> ObjectBackend:
        memory = Path("/dev/shm")
        self.root = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
        return FilesystemBackend.create(self.root, Disk())

    def path(self, digest: Digest) -> Path:
        assert isinstance(self.backend, FilesystemBackend)
        return self.backend.path(digest)

    def put(self, digest: Digest, data: bytes) -> None:
        damage(self.path(digest), data)

    def drop(self, digest: Digest) -> None:
        self.path(digest).unlink(missing_ok=True)

    def reopen(self) -> None:
        self.backend = FilesystemBackend(self.root, Disk())
        self.store = ObjectStore(self.backend)

    def teardown(self) -> None:
        shutil.rmtree(self.root)


TestMemory = ObjectStoreMachine.TestCase
TestMemory.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestFilesystem = FilesystemMachine.TestCase
TestFilesystem.settings = settings(max_examples=20, stateful_step_count=30, deadline=None)
