"""ObjectBackend: the seam between what an object means and the medium that keeps it.

A backend is a durable map from Digest to bytes. It moves bytes and promises durability; it does
not decide whether bytes are right. Whoever asks it to take a name away hands it a Judge, which
looks at the bytes once more at the moment when nobody else can change them. Hashing, probing,
re-reading and retrying are done once, in `store.py`, for every medium. Every implementation
passes tests/conformance/object_backend.py.

Everything here blocks and runs in the store's worker threads; long work looks at a CancelFlag at
least every MiB. Every method may raise the UnavailableError that says why the medium did not
answer.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, TypeAlias

from attachstore.attachment import Content, Spool
from attachstore.digest import Digest
from attachstore.threads import CancelFlag


class StoredObject(Protocol):
    """An object's bytes, open for reading, and not verified.

    Stays readable when its name is taken away or given to other bytes meanwhile.
    """

    @property
    def location(self) -> str:
        """Where the bytes lie, for messages: a path or an address."""
        ...

    @property
    def size(self) -> int:
        """In bytes, when it was opened."""
        ...

    def read_into(self, buffer: memoryview, offset_bytes: int) -> int:
        """Fill the front of `buffer` from `offset_bytes`; may be short, 0 only at the end."""
        ...

    def read(self, size_bytes: int, offset_bytes: int) -> bytes:
        """Up to `size_bytes` from `offset_bytes`, to be kept; may be short, b"" only at the end."""
        ...

    def close(self) -> None:
        """Safe to repeat."""
        ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineNote:
    """Why bytes were moved aside; kept beside them as JSON, with the time."""

    found_by: str
    """What noticed it: "commit", "scan"."""
    expected: str
    """The digest under which the bytes lay."""
    actual: str
    """The digest they have, or "unreadable"."""
    size_bytes: int


Judge: TypeAlias = Callable[[StoredObject], QuarantineNote | None]
"""Looks at an object while nobody else can take its name away: a note if it is bad, else None."""


class EntryKind(enum.StrEnum):
    """What a scan comes across in a medium."""

    OBJECT = "object"
    """Something under an object's own name."""
    IRREGULAR = "irregular"
    """A link, directory, FIFO, ... under an object's name, or a part of the layout that is not
    what it must be."""
    MISPLACED = "misplaced"
    """A file named like an object, in a place where no reader looks for it."""
    FOREIGN = "foreign"
    """Something that no version of the format puts there."""
    STAGING = "staging"
    """A writer's temporary file."""
    QUARANTINE = "quarantine"
    """Bytes that were moved aside, or the note beside them."""
    UNREADABLE = "unreadable"
    """A directory that can't be listed, or a name whose status can't be had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing in a medium, as its names and sizes tell; no byte of it has been read."""

    kind: EntryKind
    path: str
    """Relative to the medium's root, escaped for printing."""
    size_bytes: int
    digest: Digest | None = None
    """Where the name carries one."""
    mode: int | None = None
    """Permission bits, where the medium has them: an object's should hold no write bit."""
    stale: bool = False
    """Of a temporary file: it is certain that no live writer owns it."""
    reason: str | None = None
    """Of something irregular, misplaced or unreadable: what is wrong with it."""


class ObjectBackend(Protocol):
    """Durable map from Digest to bytes."""

    @property
    def location(self) -> str:
        """Where the medium is, for messages."""
        ...

    def spool(self) -> Spool:
        """Take in bytes of unknown length on this medium, without a name, until `publish`."""
        ...

    def stage(self, digest: Digest, content: Content, cancel: CancelFlag | None = None) -> Content:
        """Take the bytes of `content` in ahead of `publish`: durable, without a name.

        Returns them as another Content, to be closed too, or `content` itself where there is
        nothing to gain. Nothing is promised.
        """
        ...

    def publish(self, digest: Digest, content: Content, cancel: CancelFlag | None = None) -> bool:
        """Put `content` under `digest` unless the name is taken (then False).

        All at once: readers see nothing or all of it. Durable when it returns True: power may
        fail in the next instant. On an error nothing is promised, and what may be visible is
        whole. `content` stays the caller's to close.
        """
        ...

    def publish_many(
        self, contents: Iterable[Content], cancel: CancelFlag | None = None
    ) -> list[Content]:
        """As `publish` each under its own digest, and durable together, with fewer syncs.

        Returns those whose name is taken, also by one before it. On an error nothing is promised
        of any; it carries the position of the content that it met as its `index`.
        """
        ...

    def open(self, digest: Digest, *, fresh: bool = False) -> StoredObject:
        """Open what lies under `digest`; `fresh` asks for the medium's bytes, not a cache's.

        Raises:
            ObjectMissingError: nothing lies there.
            StoreLayoutError: something that can't be an object lies there.
        """
        ...

    def near(self, digest: Digest) -> AbstractContextManager[None]:
        """For many `open`s by this thread, of objects whose digests begin with the same byte.

        A medium may keep at hand, for the length of the block, what they have in common. What is
        missing then was missing from what was there when the block began: ask once more outside.
        """
        ...

    def size(self, digest: Digest) -> int | None:
        """Size in bytes of what lies under `digest`, None if nothing. One request.

        Raises:
            StoreLayoutError: something that can't be an object lies there.
        """
        ...

    def confirm(self, digest: Digest, stored: StoredObject) -> bool:
        """Make `stored`, opened here under `digest`, durable together with its name.

        Another writer may have made it visible a moment ago and not be done yet. False: the
        name no longer leads to `stored`, so nothing is promised; look again.
        """
        ...

    def heal(
        self,
        digest: Digest,
        content: Content,
        judge: Judge,
        cancel: CancelFlag | None = None,
    ) -> bool:
        """Put `content` in the place of bad bytes, which go to the quarantine.

        Readers find the bad bytes or the good ones, never nothing and never a mix; durable when
        it returns True. False: the judge found nothing bad, or nothing lies there any more.
        """
        ...

    def quarantine(self, digest: Digest, judge: Judge) -> bool:
        """Take bad bytes out of the way, with the judge's note beside them; durable.

        False: the judge found nothing bad, or nothing lies there any more.
        """
        ...

    def quarantined(self, digest: Digest) -> Iterator[StoredObject]:
        """Open, one after the other, what was moved aside from `digest`; the caller closes."""
        ...

    def digests(self, prefix: str = "") -> Iterator[Digest]:
        """Yield every digest whose hex digits start with `prefix` once, in ascending order.

        By name alone, in bounded memory; what is added or removed meanwhile may be missed. A part
        of the medium that can't be listed hides no other: its error is raised after all of them.
        """
        ...

    def entries(self) -> Iterator[Entry]:
        """Yield everything there is: objects first, in ascending order, then the rest.

        In bounded memory, beside working writers, changing nothing. What can't be listed is an
        entry and hides nothing else.
        """
        ...

    def sweep(self) -> list[Entry]:
        """Remove temporary files that certainly belong to no live writer; says which."""
        ...

    def close(self) -> None:
        """Refuse further use with ValueError. Objects opened before stay readable."""
        ...
