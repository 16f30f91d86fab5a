"""Publication: bytes get their file and their name on a local file system, in this order.

    staged file ──sync──▶ linked at its name ──sync of the shard──▶ published

Many together take each step in turn: all files of a group are on their way to the disk before
the first is waited for, and a shard is synced once, however many names it got. The file system
then writes its journal a few times for a group, not twice for an object.

Invariants

 (1) A name is given to synced bytes only, and with link, which refuses to replace.
 (2) What is published lies under a durable name: of several, no one is before all are.
 (3) A name whose sync failed is taken back, and the handle is poisoned (promise.py). One whose
     sync was not tried stays: its bytes are whole and synced, and whoever finds it syncs it.
"""

from __future__ import annotations

import contextlib
import errno
import stat
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path

from attachstore.attachment import Content
from attachstore.digest import Digest, Hasher
from attachstore.disk import BLOCK_BYTES, Disk, ensure_directory, storage_errors
from attachstore.errors import (
    StorageIOError,
    StorageUnsupportedError,
    StoreLayoutError,
)
from attachstore.errors.error import indexed
from attachstore.objects.file_object import kind_of, place
from attachstore.objects.staging import FileContent, StagedFile, Staging
from attachstore.promise import Promise
from attachstore.threads import CancelFlag

GROUP_OBJECTS_MAX = 64
"""Descriptors that are open at once; a file system gains little from more."""
GROUP_BYTES_MAX = 4 << 20


class Publication:
    """The steps in one store. Raises AttachstoreError."""

    def __init__(self, disk: Disk, objects: Path, staging: Staging, promise: Promise) -> None:
        self._disk = disk
        self._objects = objects
        self._objects_text = str(objects)
        self._staging = staging
        self._promise = promise
        self._shards: dict[str, Path] = {}
        self._sound_shards: set[str] = set()

    def shard(self, digest: Digest) -> Path:
        """The directory of the object; made of text once for each, which is slow."""
        name = digest.hex[:2]
        shard = self._shards.get(name)
        if shard is None:
            shard = self._shards[name] = self._objects / name
        return shard

    def path(self, digest: Digest) -> Path:
        """Where the object lies, or would."""
        return self.shard(digest) / digest.hex

    def path_text(self, digest: Digest) -> str:
        """As `path`, without making one."""
        return f"{self._objects_text}/{digest.hex[:2]}/{digest.hex}"

    def stage(self, digest: Digest, content: Content, cancel: CancelFlag | None) -> Content:
        """The bytes, synced, in a file without a name."""
        with storage_errors(self.path(digest)):
            if isinstance(content, FileContent) and self._staging.owns(content.staged):
                content.staged.sync()
                return content
            staged = self._copied(digest, content, cancel)
            try:
                staged.sync()
            except BaseException:
                staged.close()
                raise
            return FileContent(staged, digest)

    def publish(self, digest: Digest, content: Content, cancel: CancelFlag | None) -> bool:
        """False: the name is taken."""
        path = self.path(digest)
        with storage_errors(path), self.staged(digest, content, cancel) as staged:
            staged.sync()
            try:
                self._link(staged, path)
            except FileExistsError:
                return False
            self._promise.sync_directory(
                path.parent, undo=lambda: self._disk.unlink(path), others_may_rely=True
            )
            return True

    def publish_many(
        self,
        contents: Iterable[Content],
        is_taken: Callable[[Digest], bool],
        cancel: CancelFlag | None,
    ) -> list[Content]:
        """Returns those whose name is taken. See `ObjectBackend.publish_many`."""
        taken: list[Content] = []
        linked: dict[Path, list[tuple[int, Path]]] = {}
        for group in _groups(contents):
            taken += self._link_all(group, linked, is_taken, cancel)
        for shard, names in linked.items():
            with indexed(names[0][0]), storage_errors(shard):
                self._promise.sync_directory(
                    shard, undo=lambda names=names: self._unlink(names), others_may_rely=True
                )
        return taken

    def _link_all(
        self,
        group: list[tuple[int, Content]],
        linked: dict[Path, list[tuple[int, Path]]],
        is_taken: Callable[[Digest], bool],
        cancel: CancelFlag | None,
    ) -> list[Content]:
        """Give synced files their names, to be synced by the caller; returns those not linked."""
        taken: list[Content] = []
        with storage_errors(self._staging.directory), contextlib.ExitStack() as stack:
            files: list[tuple[int, Content, StagedFile]] = []
            for index, content in group:
                with indexed(index), storage_errors(self.path(content.digest)):
                    if is_taken(content.digest):
                        taken.append(content)
                        continue
                    context = self.staged(content.digest, content, cancel)
                    file = stack.enter_context(context)
                    file.start_writeout()
                    files.append((index, content, file))
            for index, content, file in files:
                with indexed(index), storage_errors(self.path(content.digest)):
                    file.sync()
            for index, content, file in files:
                path = self.path(content.digest)
                with indexed(index), storage_errors(path):
                    try:
                        self._link(file, path)
                        linked.setdefault(path.parent, []).append((index, path))
                    except FileExistsError:
                        taken.append(content)
        return taken

    @contextlib.contextmanager
    def staged(
        self, digest: Digest, content: Content, cancel: CancelFlag | None
    ) -> Generator[StagedFile]:
        """The content in a file of this store's staging; copied there unless it is there."""
        if isinstance(content, FileContent) and self._staging.owns(content.staged):
            yield content.staged
            return
        staged = self._copied(digest, content, cancel)
        try:
            yield staged
        finally:
            staged.close()

    def _copied(self, digest: Digest, content: Content, cancel: CancelFlag | None) -> StagedFile:
        """A new staged file with the bytes of `content`, which are hashed once more."""
        staged = self._staging.new_file()
        try:
            hasher = Hasher()
            with content.open() as reader:
                while block := reader.read(BLOCK_BYTES):
                    if cancel is not None:
                        cancel.check()
                    staged.append(block)
                    hasher.update(block)
            self._check_copied(digest, hasher.digest())
        except BaseException:
            staged.close()
            raise
        return staged

    def _check_copied(self, digest: Digest, found: Digest) -> None:
        if found != digest:
            raise StorageIOError(
                where=place(self._staging.directory.parent),
                reason=f"the bytes of {digest} changed on their way in",
            )

    def _unlink(self, names: list[tuple[int, Path]]) -> None:
        for _, path in names:
            self._disk.unlink(path)

    def _link(self, staged: StagedFile, path: Path) -> None:
        self._check_shard(path.parent)
        try:
            staged.link_to(path)
        except FileNotFoundError:
            self._sound_shards.discard(path.parent.name)  # somebody has removed it since
            self._check_shard(path.parent)
            staged.link_to(path)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            raise StorageUnsupportedError(
                where=place(path.parent),
                reason="it is on another file system than staging/ (EXDEV)",
            ) from error

    def _check_shard(self, shard: Path) -> None:
        """Once per handle and shard: a directory, and no link that leads out of the store."""
        if shard.name in self._sound_shards:
            return
        try:
            status = self._disk.status(shard)
        except FileNotFoundError:
            self._make_shard(shard)
            status = self._disk.status(shard)
        if not stat.S_ISDIR(status.st_mode):
            raise StoreLayoutError(
                where=place(shard), reason=f"it is {kind_of(status)}, not a directory"
            )
        # Its name must be durable before anything in it is promised, whoever has made it: a
        # process that was killed may not have got so far.
        self._promise.sync_directory(self._objects)
        self._sound_shards.add(shard.name)

    def _make_shard(self, shard: Path) -> None:
        """Some tools do not restore empty directories: neither the shard nor those above it.

        Their names are durable before there is a shard in them, whoever has made them. So
        whoever finds a shard may rely on them.
        """
        for directory in (self._objects.parent, self._objects):
            ensure_directory(self._disk, directory)
            self._promise.sync_directory(directory.parent)
        ensure_directory(self._disk, shard)


def _groups(contents: Iterable[Content]) -> Iterator[list[tuple[int, Content]]]:
    """With their positions, in groups that memory and descriptors bear."""
    group: list[tuple[int, Content]] = []
    size_bytes = 0
    for index, content in enumerate(contents):
        group.append((index, content))
        size_bytes += content.size
        if size_bytes >= GROUP_BYTES_MAX or len(group) >= GROUP_OBJECTS_MAX:
            yield group
            group, size_bytes = [], 0
    if group:
        yield group
