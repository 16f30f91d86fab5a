"""Healing: taking a name away from bad bytes, and nothing else ever does.

Invariants

 (1) Every step happens under an exclusive flock on the shard directory, after the judge has
     looked at the medium's own bytes once more: of two healers the second finds good bytes.
 (2) The name is never absent. Good bytes, synced, get a name beside; the two names are
     exchanged; the shard is synced; only then do the bad bytes leave for the quarantine. (Renaming
     them away first and linking the good ones after loses acknowledged objects between two
     healers.)
 (3) The bad bytes always have a name: `heal-*` in staging until they are in the quarantine. What
     a crash leaves there, `sweep` moves into the quarantine; it is never removed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path

from attachstore.digest import Digest
from attachstore.disk import UNSUPPORTED, Disk, layout_errors, remove_quietly
from attachstore.errors import StoreLayoutError
from attachstore.objects.backend import Judge, QuarantineNote
from attachstore.objects.file_object import open_object, place
from attachstore.objects.quarantine import Quarantine
from attachstore.objects.staging import StagedFile, Staging
from attachstore.objects.verification import fingerprint
from attachstore.promise import Promise


class Healing:
    """The steps on one store. Methods raise OSError."""

    def __init__(
        self, disk: Disk, staging: Staging, quarantine: Quarantine, promise: Promise
    ) -> None:
        self._disk = disk
        self._staging = staging
        self._quarantine = quarantine
        self._promise = promise

    def heal(self, digest: Digest, path: Path, good: StagedFile, judge: Judge) -> bool:
        """Put the synced `good` in the place of what the judge finds bad."""
        with self._exclusive(path.parent, wait=True):
            note = self._judged(path, judge)
            if note is None:
                return False
            beside = self._staging.heal_path(digest)
            aside = self._quarantine.prepare(digest, note)
            good.link_to(beside)
            try:
                self._disk.exchange(beside, path)
            except OSError as error:
                if error.errno not in UNSUPPORTED:
                    # After an error the names may have been exchanged all the same: then this
                    # one leads to the bad bytes, which are not ours to remove.
                    if good.is_named(beside):
                        remove_quietly(self._disk, beside)
                    raise
                self._replace(beside, path, aside)
                return True
            self._promise.sync_directory(
                path.parent,
                undo=lambda: self._disk.exchange(beside, path),
                others_may_rely=True,
            )
            self._move_aside(beside, aside)
            return True

    def quarantine(self, digest: Digest, path: Path, judge: Judge) -> bool:
        """Move what the judge finds bad out of the way."""
        with self._exclusive(path.parent, wait=True):
            note = self._judged(path, judge)
            if note is None:
                return False
            self._move_aside(path, self._quarantine.prepare(digest, note))
            return True

    def sweep(self, digest: Digest, path: Path, shard: Path) -> bool:
        """Move what a crashed healer left at `path` into the quarantine; False if one is alive."""
        try:
            with self._exclusive(shard, wait=False), open_object(self._disk, path) as left:
                found = fingerprint(left)
                note = QuarantineNote(
                    found_by="sweep",
                    expected=str(digest),
                    actual=str(found.digest),
                    size_bytes=found.size_bytes,
                )
                self._move_aside(path, self._quarantine.prepare(digest, note))
        except (BlockingIOError, FileNotFoundError):
            return False
        return True

    def is_idle(self, shard: Path) -> bool:
        """Whether nobody is healing in `shard`, so that a `heal-*` file is a crash's."""
        try:
            with self._exclusive(shard, wait=False):
                return True
        except BlockingIOError:
            return False

    def _judged(self, path: Path, judge: Judge) -> QuarantineNote | None:
        """What the judge says of the medium's own bytes; None also if nothing is there."""
        try:
            stored = open_object(self._disk, path, fresh=True)
        except FileNotFoundError:
            return None
        with stored:
            return judge(stored)

    def _replace(self, beside: Path, path: Path, aside: Path) -> None:
        """For media without exchange: a second name for the bad bytes, then rename over it."""
        try:
            self._disk.link(path, aside)
            self._promise.sync_directory(aside.parent)
            self._disk.rename(beside, path)
        except BaseException:
            remove_quietly(self._disk, beside)
            raise
        self._promise.sync_directory(
            path.parent, undo=lambda: self._disk.rename(aside, path), others_may_rely=True
        )
        self._promise.sync_directory(beside.parent)

    def _move_aside(self, path: Path, aside: Path) -> None:
        self._disk.rename(path, aside)
        self._promise.sync_directory(aside.parent)
        self._promise.sync_directory(path.parent)

    @contextlib.contextmanager
    def _exclusive(self, shard: Path, *, wait: bool) -> Generator[None]:
        """Hold the shard's lock. Raises BlockingIOError if it is held and `wait` is false."""
        with layout_errors(shard):
            try:
                descriptor = self._disk.open_directory(shard)
            except FileNotFoundError:
                raise StoreLayoutError(where=place(shard), reason="it is missing") from None
        try:
            self._disk.lock(descriptor, exclusive=True, wait=wait)
            yield
        finally:
            self._disk.close(descriptor)
