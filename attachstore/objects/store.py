"""ObjectStore: commit and verified read, the same on every medium.

Invariants

 (1) A Reference is handed out only after the backend has made the object durable together with
     its name. Session logs hold References, so no log can ever refer to an object that is not
     there.
 (2) Bytes already stored are never trusted by name, size, mode or time: a commit that finds its
     digest taken hashes what is there before it calls it a duplicate, and makes it durable.
 (3) A byte leaves the store only after all bytes of its object have hashed to the digest, and,
     for a Reference, size and header have been found equal to what it says. In this order:
     digest, size, probe, comparison, bytes.
 (4) "Corrupt" is said only of bytes that were read twice, the second time past the caches.
 (5) A name is taken away from bad bytes only, by the backend, after hashing once more.

Every method blocks; it runs in the store's worker threads. Long work checks `cancel` each MiB.
"""

from __future__ import annotations

import enum
import functools
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from attachstore.attachment import Attachment, Content, Spool
from attachstore.digest import ALGORITHM, Digest
from attachstore.disk import Disk
from attachstore.errors import (
    AmbiguousReferenceError,
    AttachstoreError,
    InvalidReferenceError,
    ObjectCorruptError,
    ObjectMissingError,
    StorageIOError,
)
from attachstore.errors.error import indexed
from attachstore.objects.backend import (
    Entry,
    ObjectBackend,
    StoredObject,
)
from attachstore.objects.copy_file import CopyFile
from attachstore.objects.judging import judge_of, note_on
from attachstore.objects.reading import (
    Reading,
    VerifiedReader,
    Wanted,
    differences_from,
    digest_of,
    file_of,
    hashed,
    held,
)
from attachstore.objects.stream import (
    HELD_BYTES_MAX,
    BlockTags,
    HeldStream,
    TaggedStream,
    VerifiedStream,
)
from attachstore.reference import Reference
from attachstore.threads import CancelFlag

PREFIX_DIGITS_MIN = 6
"""A shorter prefix of a digest is not looked up."""

_ROUNDS_MAX = 16  # others may heal or quarantine between our steps, but not for ever
_PREFIX = re.compile(r"[0-9a-f]{1,64}")
_log = logging.getLogger("attachstore")


class CommitOutcome(enum.StrEnum):
    """How a commit came to its durable object."""

    STORED = "stored"
    """The bytes are new."""
    DUPLICATE = "duplicate"
    """The same bytes were there; they have been read and hashed again, and are durable."""
    HEALED = "healed"
    """Bad bytes were there; they are in the quarantine now."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit hands out."""

    reference: Reference
    outcome: CommitOutcome


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a verification found; never raised, so that a scan can go on."""

    digest: Digest
    size_bytes: int
    """Of the bytes found, 0 if none."""
    error: AttachstoreError | None
    """None: the bytes hash to their digest. Else what a read would have raised."""


class ObjectStore:
    """Objects on one medium."""

    def __init__(self, backend: ObjectBackend, disk: Disk | None = None) -> None:
        """`disk` is where `copy_out` writes; the medium has its own."""
        self.backend = backend
        self._reader = VerifiedReader(backend)
        self._disk = disk or Disk()

    # -- in --------------------------------------------------------------------------------

    def commit(self, attachment: Attachment, cancel: CancelFlag | None = None) -> Committed:
        """Make the attachment durable and hand out the Reference that promises it.

        Costs a write and two syncs for new bytes; for bytes that are there a read, a hash, and
        the syncs that are still needed. May be repeated after any error or cancellation.

        Raises:
            UnavailableError: the medium refused; nothing was promised.
            StoreLayoutError: something that can't be an object lies under its name.
        """
        return Committed(_reference_to(attachment), self._place(attachment.content, cancel))

    def commit_many(
        self, attachments: Sequence[Attachment], cancel: CancelFlag | None = None
    ) -> list[Committed]:
        """As `commit` each, and new bytes durable together, with fewer syncs.

        An error carries the `index` of an attachment it met; what was stored before it stays.
        """
        first: dict[Digest, int] = {}
        for index, attachment in enumerate(attachments):
            first.setdefault(attachment.content.digest, index)
        try:
            taken = self.backend.publish_many(
                [attachments[index].content for index in first.values()], cancel
            )
        except AttachstoreError as error:
            error.index = None if error.index is None else [*first.values()][error.index]
            raise
        for content in taken:
            del first[content.digest]
        new = frozenset(first.values())
        return [
            Committed(_reference_to(it), CommitOutcome.STORED)
            if index in new
            else self._commit_one_of(index, it, cancel)
            for index, it in enumerate(attachments)
        ]

    def _commit_one_of(
        self, index: int, attachment: Attachment, cancel: CancelFlag | None
    ) -> Committed:
        with indexed(index):
            return self.commit(attachment, cancel)

    def commit_again(self, attachment: Attachment, stored: StoredObject) -> Committed | None:
        """As `commit`, for bytes that have just been hashed in `stored`, opened here.

        None, and nothing is promised, if their name leads elsewhere by now. Raises as `commit`.
        """
        if not self.backend.confirm(attachment.content.digest, stored):
            return None
        return Committed(_reference_to(attachment), CommitOutcome.DUPLICATE)

    def stage(self, content: Content, cancel: CancelFlag | None = None) -> Content:
        """Bring the bytes on their way, durably, before it is known that they are admitted.

        Returns a Content to commit in place of `content`, or `content` itself: also where the
        digest is taken, since a duplicate is not written. Raises UnavailableError.
        """
        return self.backend.stage(content.digest, content, cancel)

    def confirm(self, reference: Reference, cancel: CancelFlag | None = None) -> None:
        """Vouch for a reference that somebody else handed out.

        The object is hashed, probed, compared and made durable, as if it were committed again.

        Raises:
            ObjectMissingError, ObjectCorruptError, HeaderMismatchError: it can't be vouched for.
        """
        for _ in range(_ROUNDS_MAX):
            with self._reader.verified(reference, lambda it: hashed(it, cancel)).stored as stored:
                if self.backend.confirm(reference.digest, stored):
                    return
        raise self._unsettled(reference.digest)

    def restore(
        self, content: Content, cancel: CancelFlag | None = None, *, found_by: str = "repair"
    ) -> CommitOutcome:
        """Put bytes where their digest belongs, as `commit` does; nobody refers to them anew.

        `found_by` is for the note beside bad bytes that lay there. Raises as `commit`.
        """
        return self._place(content, cancel, found_by)

    def _place(
        self, content: Content, cancel: CancelFlag | None, found_by: str = "commit"
    ) -> CommitOutcome:
        digest = content.digest
        for _ in range(_ROUNDS_MAX):
            if self.backend.publish(digest, content, cancel):
                return CommitOutcome.STORED
            try:
                stored = self.backend.open(digest)
            except ObjectMissingError:
                continue  # it has been quarantined since
            with stored:
                if note_on(digest, stored, found_by, cancel) is None:
                    if self.backend.confirm(digest, stored):
                        return CommitOutcome.DUPLICATE
                    continue
            if self.backend.heal(digest, content, judge_of(digest, found_by, cancel), cancel):
                _log.warning("healed object %s in %s", digest, self.backend.location)
                return CommitOutcome.HEALED
        raise self._unsettled(digest)

    def spool(self) -> Spool:
        """Take in bytes of unknown length on the medium; admission makes an Attachment of them."""
        return self.backend.spool()

    # -- out -------------------------------------------------------------------------------

    def size(self, digest: Digest) -> int | None:
        """Size in bytes of what lies under `digest`, unverified; None if nothing does."""
        return self.backend.size(digest)

    def read(self, wanted: Wanted, cancel: CancelFlag | None = None) -> bytes:
        """The verified bytes. With a bare digest only the digest is verified.

        Raises:
            ObjectMissingError, ObjectCorruptError, HeaderMismatchError, StoreLayoutError
        """
        for _ in range(_ROUNDS_MAX):
            reading = self._reader.verified(wanted, lambda stored: held(wanted, stored, cancel))
            reading.stored.close()
            if reading.data is not None:
                return reading.data
        raise self._unsettled(digest_of(wanted))

    def stream(self, wanted: Wanted, cancel: CancelFlag | None = None) -> VerifiedStream:
        """The verified bytes in blocks, in bounded memory; all are verified before the first.

        Raises as `read`. The caller closes the stream.
        """
        digest = digest_of(wanted)
        if (self.backend.size(digest) or 0) <= HELD_BYTES_MAX:
            return HeldStream(self.read(wanted, cancel))
        tags = BlockTags()

        def tagged(stored: StoredObject) -> Reading:
            tags.clear()
            return hashed(stored, cancel, tags.add)

        reading = self._reader.verified(wanted, tagged)
        reopen = functools.partial(self.backend.open, digest, fresh=True)
        return TaggedStream(reading.stored, reading.found, tags, reopen, cancel)

    def copy_out(self, wanted: Wanted, target: Path, cancel: CancelFlag | None = None) -> None:
        """Write the verified bytes to `target`, all at once: it appears, or is replaced, whole.

        Durable on return. Raises as `read`, and:

        Raises:
            DestinationError: the target's directory is not there, or something other than a
                regular file has its name, or it lies in a store.
        """
        with CopyFile(self._disk, target) as copy:

            def one_pass(stored: StoredObject) -> Reading:
                copy.restart()
                return hashed(stored, cancel, copy.write)

            self._reader.verified(wanted, one_pass).stored.close()
            copy.publish()

    def verify(self, digest: Digest, cancel: CancelFlag | None = None) -> Verdict:
        """Hash the object and say what was found."""
        try:
            reading = self._reader.verified(digest, lambda it: hashed(it, cancel))
        except ObjectCorruptError as error:
            return Verdict(digest, error.size_bytes, error)
        except AttachstoreError as error:
            return Verdict(digest, 0, error)
        reading.stored.close()
        return Verdict(digest, reading.found.size_bytes, None)

    def differences(self, reference: Reference) -> tuple[tuple[str, str, str], ...]:
        """How the object's size and header differ from the reference: (field, logged, actual).

        For a scan, which has hashed the object already: no byte is verified here.

        Raises:
            ObjectMissingError, StoreLayoutError
        """
        with self._reader.open(reference) as stored:
            return differences_from(reference, stored.size, file_of(stored))

    # -- names -----------------------------------------------------------------------------

    def digests(self, prefix: str = "") -> Iterator[Digest]:
        """Every object's digest whose hex digits start with `prefix`, ascending."""
        return self.backend.digests(prefix)

    def resolve(self, text: str) -> Digest:
        """The digest that `text` means: a whole one, or a prefix of at least 6 hex digits.

        With or without `blake3:`. A whole digest is not looked up.

        Raises:
            InvalidReferenceError: neither.
            ObjectMissingError: no object has that prefix.
            AmbiguousReferenceError: several have it.
        """
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            message = f"what names an object is text, not {type(text).__name__}"
            raise TypeError(message)
        prefix = text.removeprefix(f"{ALGORITHM}:")
        if not _PREFIX.fullmatch(prefix) or len(prefix) < PREFIX_DIGITS_MIN:
            raise InvalidReferenceError(
                where="reference",
                text=text[:100],
                reason=f"expected {PREFIX_DIGITS_MIN} to 64 lower-case hex digits",
            )
        if len(prefix) == 64:  # noqa: PLR2004 - what the pattern says
            return Digest(prefix)
        found = list(self.backend.digests(prefix))
        if not found:
            raise ObjectMissingError(where=self.backend.location, digest=f"{ALGORITHM}:{prefix}…")
        if len(found) > 1:
            raise AmbiguousReferenceError(
                where=self.backend.location, prefix=prefix, matches=len(found)
            )
        return found[0]

    def quarantine(self, digest: Digest, found_by: str, cancel: CancelFlag | None = None) -> bool:
        """Move the object aside if its bytes are bad, hashed once more under the lock.

        False: they are good, or gone. Bytes that can't be read stay: they may come back.
        """
        if not self.backend.quarantine(
            digest, judge_of(digest, found_by, cancel, unreadable=False)
        ):
            return False
        _log.warning("quarantined object %s in %s", digest, self.backend.location)
        return True

    def entries(self) -> Iterator[Entry]:
        """Everything in the medium, as names and sizes tell."""
        return self.backend.entries()

    def sweep(self) -> int:
        """Remove temporary files whose writers are certainly gone; returns how many."""
        return len(self.backend.sweep())

    def close(self) -> None:
        """Refuse further use with ValueError."""
        self.backend.close()

    # -- how -------------------------------------------------------------------------------

    def _unsettled(self, digest: Digest) -> StorageIOError:
        return StorageIOError(
            where=self.backend.location, reason=f"object {digest} keeps changing under our hands"
        )


def _reference_to(attachment: Attachment) -> Reference:
    content, header = attachment.content, attachment.header
    return Reference(
        digest=content.digest,
        size=content.size,
        media_type=header.media_type,
        width=header.width,
        height=header.height,
        frames=attachment.frames,
        pages=attachment.pages,
        name=attachment.name,
    )
