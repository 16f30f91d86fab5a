"""Inventory: what lies in a store's object directories, by name, type and size.

Reads no file's bytes and takes no name at its word: every entry has been asked for its status.
Memory is bounded by the names of one directory. Works beside writers: what vanishes between
the listing and the question is left out.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from attachstore.digest import ALGORITHM, Digest
from attachstore.disk import Disk, is_regular, layout_errors, storage_errors
from attachstore.errors import AttachstoreError, StoreLayoutError
from attachstore.objects.backend import Entry, EntryKind
from attachstore.objects.file_object import kind_of
from attachstore.objects.intake_file import SUFFIX
from attachstore.objects.quarantine import digest_in

SHARDS = [f"{number:02x}" for number in range(256)]

_HELD_NAMES = 256  # while their statuses are asked for, a directory that is moved is still seen

_HEX_64 = re.compile(r"[0-9a-f]{64}")
_TEMPORARY = re.compile(r"spool-[0-9a-f]{32}|marker-[0-9a-f]{32}|heal-([0-9a-f]{64})-[0-9a-f]{16}")


class Inventory:
    """Looks through one store's directories."""

    def __init__(self, disk: Disk, root: Path) -> None:
        self._disk = disk
        self._root = root
        self._root_length = len(str(root)) + 1
        self._objects = root / "objects" / ALGORITHM

    def digests(self, prefix: str = "") -> Iterator[Digest]:
        """By name alone, ascending. What hides a directory's names is raised after all others."""
        failure: AttachstoreError | None = None
        for shard in SHARDS:
            if not shard.startswith(prefix[:2]):
                continue
            try:
                names = self._names(self._objects / shard)
            except AttachstoreError as error:
                failure = failure or error
                continue
            for name in names:
                if _HEX_64.fullmatch(name) and name[:2] == shard and name.startswith(prefix):
                    yield Digest(name)
        if failure is not None:
            raise failure

    def entries(self, is_stale: Callable[[Path], bool]) -> Iterator[Entry]:
        """Everything; objects come in ascending order."""
        yield from self._each(self._root / "objects", self._in_objects)
        yield from self._each(self._root / "staging", self._in_staging(is_stale))
        yield from self._each(self._root / "quarantine", self._in_quarantine)
        yield from self._each(self._root / "intake", self._in_intake)

    def staging(self, is_stale: Callable[[Path], bool]) -> Iterator[Entry]:
        """Writers' temporary files, and whatever else lies among them."""
        directory, look = self._root / "staging", self._in_staging(is_stale)
        for name in self._names(directory):
            yield from look(directory / name)

    def _in_staging(self, is_stale: Callable[[Path], bool]) -> Callable[[Path], Iterator[Entry]]:
        def look(path: Path) -> Iterator[Entry]:
            found = _TEMPORARY.fullmatch(path.name)
            if not found:
                return self._entry(path, EntryKind.FOREIGN)
            digest = Digest(found[1]) if found[1] else None
            return self._entry(path, EntryKind.STAGING, digest, is_stale=is_stale)

        return look

    def _in_objects(self, path: Path) -> Iterator[Entry]:
        if path == self._objects:
            return self._each(path, self._in_algorithm)
        return self._stray(path)

    def _in_algorithm(self, path: Path) -> Iterator[Entry]:
        if path.name not in SHARDS:
            yield from self._stray(path)
            return
        status = self._status(path)
        if status is None:
            return
        if stat.S_ISDIR(status.st_mode):
            yield from self._in_directory(path)
        else:
            reason = f"it is {kind_of(status)}, not a directory"
            yield self._made(path, EntryKind.IRREGULAR, status, reason=reason)

    def _in_directory(self, shard: Path) -> Iterator[Entry]:
        """What is in a shard, some names at a time: it is kept open for them."""
        try:
            names = self._names(shard)
        except AttachstoreError as error:
            yield self._unreadable(shard, error)
            return
        for start in range(0, len(names), _HELD_NAMES):
            some = names[start : start + _HELD_NAMES]
            entries = self._plain_objects(shard, some)
            if entries is None:
                with self._disk.holding(shard):
                    entries = list(self._looked_at(shard, some, self._in_shard))
            yield from entries

    def _plain_objects(self, shard: Path, names: list[str]) -> list[Entry] | None:
        """The entries, if every one is an object's plain file; None: each needs a look of its own.

        The usual case: of each name nothing but its status is asked, and no path is made.
        """
        first = shard.name  # asked for once: a Path works it out each time
        if not all(_HEX_64.fullmatch(name) and name[:2] == first for name in names):
            return None
        try:
            statuses = self._disk.statuses(shard, names)
        except (OSError, MemoryError):
            return None
        if not all(map(is_regular, statuses)):
            return None
        shown = self._shown(shard)
        return [
            Entry(
                kind=EntryKind.OBJECT,
                path=f"{shown}/{name}",
                size_bytes=status.st_size,
                digest=Digest(name),
                mode=stat.S_IMODE(status.st_mode),
            )
            for name, status in zip(names, statuses, strict=True)
        ]

    def _in_shard(self, path: Path) -> Iterator[Entry]:
        name = path.name
        if _HEX_64.fullmatch(name) and path.parent.name == name[:2]:
            return self._entry(path, EntryKind.OBJECT, Digest(name))
        return self._stray(path)

    def _in_quarantine(self, path: Path) -> Iterator[Entry]:
        digest = digest_in(path.name)
        kind = EntryKind.FOREIGN if digest is None else EntryKind.QUARANTINE
        return self._entry(path, kind, digest)

    def _in_intake(self, path: Path) -> Iterator[Entry]:
        """What is no writer's file: of theirs, the objects are listed, by who reads them."""
        ours = path.name.endswith(SUFFIX)
        for entry in self._entry(path, EntryKind.STAGING if ours else EntryKind.FOREIGN):
            if entry.kind is not EntryKind.STAGING:
                yield entry

    def _stray(self, path: Path) -> Iterator[Entry]:
        """Something where no object belongs: a misplaced object, or not ours at all."""
        if not _HEX_64.fullmatch(path.name):
            yield from self._entry(path, EntryKind.FOREIGN)
            return
        digest = Digest(path.name)
        reason = f"an object of that name belongs into objects/{ALGORITHM}/{path.name[:2]}/"
        yield from self._entry(path, EntryKind.MISPLACED, digest, reason=reason)

    def _entry(
        self,
        path: Path,
        kind: EntryKind,
        digest: Digest | None = None,
        *,
        reason: str | None = None,
        is_stale: Callable[[Path], bool] | None = None,
    ) -> Iterator[Entry]:
        """The entry, unless it has vanished."""
        status = self._status(path)
        if status is None:
            return
        if not is_regular(status) and kind is not EntryKind.FOREIGN:
            kind, reason = EntryKind.IRREGULAR, f"it is {kind_of(status)}, not a file"
            is_stale = None
        stale = False
        if is_stale is not None:
            with contextlib.suppress(AttachstoreError):  # then it is not certain
                stale = is_stale(path)
        yield self._made(path, kind, status, digest, reason=reason, stale=stale)

    def _made(
        self,
        path: Path,
        kind: EntryKind,
        status: os.stat_result,
        digest: Digest | None = None,
        *,
        reason: str | None = None,
        stale: bool = False,
    ) -> Entry:
        return Entry(
            kind=kind,
            path=self._shown(path),
            size_bytes=status.st_size if is_regular(status) else 0,
            digest=digest,
            mode=stat.S_IMODE(status.st_mode),
            stale=stale,
            reason=reason,
        )

    def _each(self, directory: Path, look: Callable[[Path], Iterator[Entry]]) -> Iterator[Entry]:
        """What `look` says of every name in a directory; what can't be looked at is an entry too.

        So one bad directory, or one bad name, hides nothing else.
        """
        try:
            names = self._names(directory)
        except AttachstoreError as error:
            yield self._unreadable(directory, error)
            return
        yield from self._looked_at(directory, names, look)

    def _looked_at(
        self, directory: Path, names: list[str], look: Callable[[Path], Iterator[Entry]]
    ) -> Iterator[Entry]:
        for name in names:
            path = directory / name
            try:
                yield from look(path)
            except AttachstoreError as error:
                yield self._unreadable(path, error)

    def _unreadable(self, path: Path, error: AttachstoreError) -> Entry:
        broken = isinstance(error, StoreLayoutError)
        kind = EntryKind.IRREGULAR if broken else EntryKind.UNREADABLE
        return Entry(
            kind=kind,
            path=self._shown(path),
            size_bytes=0,
            reason=error.reason if isinstance(error, StoreLayoutError) else str(error),
        )

    def _shown(self, path: Path) -> str:
        """Relative to the root, for printing."""
        return ascii(str(path)[self._root_length :])[1:-1]

    def _names(self, directory: Path) -> list[str]:
        """Ascending; none if the directory is not there."""
        with storage_errors(directory), layout_errors(directory):
            try:
                names = self._disk.names(directory)
            except FileNotFoundError:
                self._disk.refuse_gone(directory)
                return []
        # Some file systems list a name twice while others change the directory.
        return names if len(set(names)) == len(names) else sorted(set(names))

    def _status(self, path: Path) -> os.stat_result | None:
        with storage_errors(path):
            try:
                return self._disk.status(path)
            except FileNotFoundError:
                return None
