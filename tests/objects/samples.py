"""Attachments and stores for the tests of objects."""

from __future__ import annotations

import errno
import zlib
from pathlib import Path
from typing import Any, NoReturn, cast

from attachstore.attachment import Attachment, BytesContent, Content, Header
from attachstore.digest import Digest
from attachstore.disk import Disk
from attachstore.objects.filesystem import FilesystemBackend
from attachstore.objects.intake import IntakePolicy
from attachstore.objects.intake_backend import IntakeBackend
from attachstore.objects.store import ObjectStore
from attachstore.reference import Reference

DATA = b"what was attached"
DIGEST = Digest.of(DATA)


BESIDE = next(
    data
    for data in (b"beside %d" % number for number in range(10_000))
    if Digest.of(data).hex[:2] == DIGEST.hex[:2]
)
"""Other bytes whose object lies in the same shard."""


def attachment(
    data: bytes = DATA, *, content: Content | None = None, name: str | None = None
) -> Attachment:
    """As admission would make it of plain text."""
    content = content or BytesContent(data)
    return Attachment(content=content, header=Header(media_type="text/plain"), name=name)


def reference(data: bytes = DATA) -> Reference:
    """The reference that a commit of `attachment(data)` hands out."""
    return Reference(digest=Digest.of(data), size=len(data), media_type="text/plain")


def spooled(backend: FilesystemBackend, data: bytes) -> Content:
    spool = backend.spool()
    for start in range(0, len(data), 1 << 20):
        spool.write(data[start : start + (1 << 20)])
    return spool.finish()


def make_store(root: Path, disk: Disk | None = None) -> ObjectStore:
    return ObjectStore(FilesystemBackend.create(root, disk or Disk()))


def open_store(root: Path, disk: Disk | None = None) -> ObjectStore:
    return ObjectStore(FilesystemBackend(root, disk or Disk()), disk)


ALWAYS = IntakePolicy(burst_s=float("inf"), idle_s=float("inf"), file_bytes=64 << 10)
"""Everything is taken in, also what comes alone, and leaves when the test says so."""


def make_intake_store(root: Path, disk: Disk | None = None) -> ObjectStore:
    FilesystemBackend.create(root, disk or Disk())
    return open_intake_store(root, disk)


def open_intake_store(
    root: Path, disk: Disk | None = None, *, intake: bool | IntakePolicy = ALWAYS
) -> ObjectStore:
    """As opening a store does: what dead processes have left in an intake gets its files."""
    disk = disk or Disk()
    backend = IntakeBackend(FilesystemBackend(root, disk), disk, intake=intake)
    backend.replay()
    return ObjectStore(backend, disk)


def abandon(store: ObjectStore) -> None:
    """As a process that is killed: its thread and its locks go, its intake's file stays."""
    own = cast("Any", store.backend)._own
    with own._changed:
        own._closed = True
        own._changed.notify_all()
    if own._thread is not None:
        own._thread.join()
    own._let_go(remove=False)


def object_path(root: Path, data: bytes = DATA) -> Path:
    return FilesystemBackend(root, Disk()).path(Digest.of(data))


def damage(path: Path, data: bytes = b"rotten") -> None:
    """Change a stored file in place, as nobody should."""
    path.chmod(0o644)
    path.write_bytes(data)
    path.chmod(0o444)


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


class PlainDisk(Disk):
    """A file system without unnamed files and without exchange: macOS, old kernels, FUSE."""

    def open_temporary(self, directory: Path, mode: int) -> NoReturn:
        raise OSError(errno.EOPNOTSUPP, "not here")

    def exchange(self, path: Path, other_path: Path) -> NoReturn:
        raise OSError(errno.EINVAL, "not here")


def png(width: int, height: int) -> bytes:
    """A PNG of one grey level, small and whole."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        check = zlib.crc32(kind + body)
        return len(body).to_bytes(4, "big") + kind + body + check.to_bytes(4, "big")

    size = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    rows = zlib.compress(b"\0" * ((width + 1) * height))
    header = chunk(b"IHDR", size + bytes([8, 0, 0, 0, 0]))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
