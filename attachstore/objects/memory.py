"""MemoryBackend: objects in a dict, for tests and throw-away stores.

Keeps nothing after the process ends: "durable" means "in the dict" here. It is also the model
that the other media are compared with, so it stays as plain as possible.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext

from attachstore.attachment import BytesContent, Content, Spool
from attachstore.digest import Digest
from attachstore.errors import ObjectMissingError
from attachstore.objects.backend import Entry, EntryKind, Judge, QuarantineNote, StoredObject
from attachstore.threads import CancelFlag


class MemoryBackend:
    """An ObjectBackend without a medium. `objects` may be damaged by tests."""

    def __init__(self) -> None:
        self.objects: dict[Digest, bytes] = {}
        self.moved_aside: list[tuple[Digest, QuarantineNote, bytes]] = []
        self._guard = threading.Lock()
        self._closed = False

    @property
    def location(self) -> str:
        return "memory"

    def spool(self) -> Spool:
        self._check_open()
        return _MemorySpool()

    def stage(self, digest: Digest, content: Content, cancel: CancelFlag | None = None) -> Content:
        del digest, cancel
        return content

    def publish(self, digest: Digest, content: Content, cancel: CancelFlag | None = None) -> bool:
        self._check_open()
        if cancel is not None:
            cancel.check()
        with content.open() as reader:
            data = reader.read()
        with self._guard:
            if digest in self.objects:
                return False
            self.objects[digest] = data
            return True

    def publish_many(
        self, contents: Iterable[Content], cancel: CancelFlag | None = None
    ) -> list[Content]:
        return [it for it in contents if not self.publish(it.digest, it, cancel)]

    def open(self, digest: Digest, *, fresh: bool = False) -> StoredObject:  # noqa: ARG002 - no cache
        self._check_open()
        try:
            return _MemoryObject(self.objects[digest], f"memory:{digest.hex}")
        except KeyError:
            raise ObjectMissingError(where=self.location, digest=str(digest)) from None

    def near(self, digest: Digest) -> AbstractContextManager[None]:  # noqa: ARG002 - all are
        return nullcontext()

    def size(self, digest: Digest) -> int | None:
        self._check_open()
        data = self.objects.get(digest)
        return None if data is None else len(data)

    def confirm(self, digest: Digest, stored: StoredObject) -> bool:
        self._check_open()
        return isinstance(stored, _MemoryObject) and self.objects.get(digest) is stored.data

    def heal(
        self, digest: Digest, content: Content, judge: Judge, cancel: CancelFlag | None = None
    ) -> bool:
        self._check_open()
        if cancel is not None:
            cancel.check()
        with content.open() as reader:
            data = reader.read()
        with self._guard:
            if not self._move_aside(digest, judge):
                return False
            self.objects[digest] = data
            return True

    def quarantine(self, digest: Digest, judge: Judge) -> bool:
        self._check_open()
        with self._guard:
            if not self._move_aside(digest, judge):
                return False
            del self.objects[digest]
            return True

    def quarantined(self, digest: Digest) -> Iterator[StoredObject]:
        self._check_open()
        for number, (moved, _, data) in enumerate(self.moved_aside):
            if moved == digest:
                yield _MemoryObject(data, f"memory:quarantine:{number}")

    def digests(self, prefix: str = "") -> Iterator[Digest]:
        self._check_open()
        yield from sorted(digest for digest in self.objects if digest.hex.startswith(prefix))

    def entries(self) -> Iterator[Entry]:
        self._check_open()
        for digest, data in sorted(self.objects.items()):
            yield Entry(
                kind=EntryKind.OBJECT,
                path=digest.hex,
                size_bytes=len(data),
                digest=digest,
                mode=0o444,
            )
        for number, (digest, _, data) in enumerate(self.moved_aside):
            yield Entry(
                kind=EntryKind.QUARANTINE,
                path=f"quarantine:{number}",
                size_bytes=len(data),
                digest=digest,
            )

    def sweep(self) -> list[Entry]:
        self._check_open()
        return []

    def close(self) -> None:
        self._closed = True

    def _move_aside(self, digest: Digest, judge: Judge) -> bool:
        data = self.objects.get(digest)
        if data is None:
            return False
        note = judge(_MemoryObject(data, f"memory:{digest.hex}"))
        if note is None:
            return False
        self.moved_aside.append((digest, note, data))
        return True

    def _check_open(self) -> None:
        if self._closed:
            message = "the store is closed"
            raise ValueError(message)


class _MemoryObject(StoredObject):
    def __init__(self, data: bytes, location: str) -> None:
        self.data = data
        self._location = location

    @property
    def location(self) -> str:
        return self._location

    @property
    def size(self) -> int:
        return len(self.data)

    def read_into(self, buffer: memoryview, offset_bytes: int) -> int:
        block = self.data[offset_bytes : offset_bytes + len(buffer)]
        buffer[: len(block)] = block
        return len(block)

    def read(self, size_bytes: int, offset_bytes: int) -> bytes:
        return self.data[offset_bytes : offset_bytes + size_bytes]

    def close(self) -> None:
        return


class _MemorySpool:
    def __init__(self) -> None:
        self._buffer = io.BytesIO()

    def write(self, block: bytes | memoryview) -> None:
        self._buffer.write(block)

    def finish(self) -> Content:
        return BytesContent(self._buffer.getvalue())

    def discard(self) -> None:
        return
