"""Attaching: one source, admitted and committed, in one thread.

    bytes ────────────────┐
    file ─── read_file ──▶├─ Content ──admit──▶ Attachment ──commit──▶ Reference
    stream ── Gatherer ──▶┘

The functions block and are run by `store.py` in the store's threads. Whatever happens, the
Content is closed: a refused or cancelled attachment leaves nothing behind.

Also here, because it is the other way to a promise: `ReferenceConfirmer`, which decides whether
a reference that comes back inside an event may enter a log.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from attachstore.admission import AdmissionPolicy, admit
from attachstore.admission.decoders import IN_PROCESS, Decoders
from attachstore.admission.source import MEMORY_BYTES_MAX, Gatherer, read_file
from attachstore.attachment import Attachment, BytesContent, Content
from attachstore.digest import Digest
from attachstore.disk import BLOCK_BYTES, Disk
from attachstore.errors import (
    AttachstoreError,
    DanglingReferenceError,
    ObjectMissingError,
    TooManyBytesError,
)
from attachstore.hashing import BESIDE_FROM_BYTES, HasherBeside
from attachstore.objects.backend import StoredObject
from attachstore.objects.reading import StoredContent
from attachstore.objects.store import Committed, ObjectStore
from attachstore.objects.verification import read_block
from attachstore.reference import Reference, check_name
from attachstore.threads import CancelFlag

REFERENCES_REMEMBERED_MAX = 10_000
"""About 5 MB; a runtime refers to what it attached a moment ago."""

SIZES_REMEMBERED_MAX = 1000

SAME_BLOCK_BYTES = 256 << 10
"""Two blocks of it stay in a core's own cache while they are compared and hashed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What the sender says of the bytes: a label, and a media type that must hold."""

    name: str | None = None
    declared: str | None = None

    def __post_init__(self) -> None:
        # Before a byte is read: a name that cannot be kept would waste a long upload.
        if self.name is not None:
            check_name(self.name)


class Attacher:
    """Admits and commits under one policy."""

    def __init__(
        self,
        objects: ObjectStore,
        disk: Disk,
        policy: AdmissionPolicy,
        decoders: Decoders = IN_PROCESS,
    ) -> None:
        self._objects = objects
        self._disk = disk
        self._decoders = decoders
        self._by_size = _BySize()
        self.policy = policy

    def gatherer(self, where: str) -> Gatherer:
        """Takes blocks in until `bytes_max`: in memory while small, then in staging."""
        return Gatherer(self._objects.spool, self.policy.bytes_max, where)

    def put_bytes(self, cancel: CancelFlag, data: bytes, claim: Claim) -> Committed:
        return self.put_content(cancel, self._content_of(data, claim), claim)

    def put_file(self, cancel: CancelFlag, path: Path, claim: Claim) -> Committed:
        claim = _named_after(path, claim)  # refuses a name before the file is read
        again = self._put_again(cancel, path, claim)
        return again or self.put_content(cancel, self._copy_of(path, cancel), claim)

    def put_content(self, cancel: CancelFlag, content: Content, claim: Claim) -> Committed:
        """Admit and store it; while a decoder is at work, the bytes are on their way already."""
        ahead = _Ahead(self._objects, content, cancel)
        try:
            decoders = self._decoders.while_waiting(ahead.stage)
            attachment = self._admitted(cancel, content, claim, decoders)
            cancel.check()  # what decoded while its caller went away is not stored any more
            committed = self._objects.commit(ahead.attachment(attachment), cancel)
        finally:
            ahead.close()
        self._by_size.remember(committed.reference)
        return committed

    def _put_again(self, cancel: CancelFlag, path: Path, claim: Claim) -> Committed | None:
        """The short way for a file that seems to be here: compared with the object, not copied.

        None for all that is not plainly the same and good: the long way says what it is.
        """
        digest = self._by_size.find(self._disk, path)
        if digest is None:
            return None
        try:
            stored = self._objects.backend.open(digest)
        except AttachstoreError:
            return None
        with stored:
            attachment = self._found_again(cancel, path, claim, SameBytes(stored, digest))
            return attachment and self._objects.commit_again(attachment, stored)

    def _found_again(
        self, cancel: CancelFlag, path: Path, claim: Claim, same: SameBytes
    ) -> Attachment | None:
        try:
            content = read_file(self._disk, path, same, cancel)
            attachment = self._admitted(cancel, content, claim, self._decoders)
        except (AttachstoreError, DifferentError):
            return None
        cancel.check()
        return attachment

    def admit_bytes(self, cancel: CancelFlag, data: bytes, claim: Claim) -> Attachment:
        return self.admit_content(cancel, self._content_of(data, claim), claim)

    def admit_file(self, cancel: CancelFlag, path: Path, claim: Claim) -> Attachment:
        claim = _named_after(path, claim)
        return self.admit_content(cancel, self._copy_of(path, cancel), claim)

    def admit_content(self, cancel: CancelFlag, content: Content, claim: Claim) -> Attachment:
        """Closes the content unless it is admitted."""
        try:
            return self._admitted(cancel, content, claim, self._decoders)
        except BaseException:
            content.close()
            raise

    @staticmethod
    def drop(attachment: Attachment) -> None:
        """Let an attachment go that nobody will commit."""
        attachment.content.close()

    def _content_of(self, data: bytes, claim: Claim) -> Content:
        if len(data) > self.policy.bytes_max:
            raise TooManyBytesError(where=_place(claim), bytes_max=self.policy.bytes_max)
        return BytesContent(data)

    def _copy_of(self, path: Path, cancel: CancelFlag) -> Content:
        """The file, copied in while it is hashed: what is admitted is never the file itself."""
        gatherer = self.gatherer(ascii(str(path))[1:-1])
        return read_file(self._disk, path, gatherer, cancel)

    def _admitted(
        self, cancel: CancelFlag, content: Content, claim: Claim, decoders: Decoders
    ) -> Attachment:
        return admit(
            content,
            self.policy,
            declared=claim.declared,
            name=claim.name,
            cancel=cancel,
            decoders=decoders,
        )

    def commit_many(self, cancel: CancelFlag, attachments: Sequence[Attachment]) -> list[Committed]:
        """Store admitted attachments together; closing their contents is left to the caller."""
        return self._objects.commit_many(attachments, cancel)


class DifferentError(Exception):
    """Raised by SameBytes. Never reaches a caller."""


class SameBytes:
    """A Taker for bytes that should be those of `stored`, which hash to `digest`.

    Nothing is kept of them: equal bytes need one hash between them, and no copy. While a block is
    hashed the next one is read and compared.
    """

    def __init__(self, stored: StoredObject, digest: Digest) -> None:
        self._stored = stored
        self._digest = digest
        # Between threads blocks go from core to core: fewer and larger ones, then.
        is_large = stored.size >= BESIDE_FROM_BYTES
        self._ours = bytearray(BLOCK_BYTES if is_large else SAME_BLOCK_BYTES)
        self._room = memoryview(bytearray(len(self._ours)))
        self._other_room = self._room[:0]
        self._hasher: HasherBeside | None = None
        self._size_bytes = 0

    def room(self) -> memoryview:
        return self._room

    def write(self, block: memoryview) -> None:
        """Raises DifferentError; ResourceExhaustedError."""
        filled = read_block(self._stored, memoryview(self._ours)[: len(block)], self._size_bytes)
        # A bytearray compares as memory does; a memoryview item by item.
        ours = self._ours if filled == len(self._ours) else self._ours[:filled]
        if ours != block:  # pyright: ignore[reportUnnecessaryComparison] - any buffer will do
            raise DifferentError
        if self._hasher is None:  # not before: a wrong guess is to cost one block, and no thread
            self._hasher = HasherBeside(self._stored.size)
            self._other_room = memoryview(bytearray(len(self._ours)))
        self._hasher.update(block)
        self._size_bytes += filled
        # `block` is being hashed; the one before it has been.
        self._room, self._other_room = self._other_room, self._room

    def finish(self) -> Content:
        """Raises DifferentError; ResourceExhaustedError."""
        if self._size_bytes != self._stored.size or self._hasher is None:
            raise DifferentError
        if self._hasher.digest() != self._digest:
            raise DifferentError
        self.discard()
        return StoredContent(self._stored, self._digest, self._size_bytes)

    def discard(self) -> None:
        if self._hasher is not None:
            self._hasher.close()


class _BySize:
    """Large objects that were attached lately: a file of the same size may be one again.

    A guess that costs one block if it is wrong. Thread-safe.
    """

    def __init__(self) -> None:
        self._digests: dict[int, Digest] = {}
        self._guard = threading.Lock()

    def remember(self, reference: Reference) -> None:
        if reference.size <= MEMORY_BYTES_MAX:
            return
        with self._guard:
            self._digests.pop(reference.size, None)
            self._digests[reference.size] = reference.digest
            if len(self._digests) > SIZES_REMEMBERED_MAX:
                del self._digests[next(iter(self._digests))]

    def find(self, disk: Disk, path: Path) -> Digest | None:
        if not self._digests:
            return None
        with contextlib.suppress(OSError, ValueError):  # told by whoever reads the file
            return self._digests.get(disk.status_followed(path).st_size)
        return None


class _Ahead:
    """Bytes that may be brought to the medium while they are still being examined.

    Owns the content it is given, and the staged copy: `close` closes both. What goes wrong on
    the way is kept until the bytes are admitted, since a refusal comes first.
    """

    def __init__(self, objects: ObjectStore, content: Content, cancel: CancelFlag) -> None:
        self._objects = objects
        self._content = content
        self._staged = content
        self._cancel = cancel
        self._error: Exception | None = None

    def stage(self) -> None:
        """Raises nothing but Cancelled."""
        try:
            self._staged = self._objects.stage(self._content, self._cancel)
        except Exception as error:  # noqa: BLE001 - raised by `attachment`, if it comes to that
            self._error = error

    def attachment(self, admitted: Attachment) -> Attachment:
        """What to commit. Raises what staging raised: a failed sync is not tried again."""
        if self._error is not None:
            raise self._error
        return replace(admitted, content=self._staged)

    def close(self) -> None:
        self._staged.close()
        self._content.close()


def _named_after(path: Path, claim: Claim) -> Claim:
    return claim if claim.name is not None else Claim(name=path.name, declared=claim.declared)


def _place(claim: Claim) -> str:
    return "bytes" if claim.name is None else ascii(claim.name)[1:-1]


class ReferenceConfirmer:
    """Decides whether a reference in an event is a promise that holds.

    A reference that this store handle gave out or confirmed, field by field (its name aside),
    costs one stat. Any other is confirmed as a duplicate is: re-hashed, probed, compared, made
    durable. Remembers a bounded number; thread-safe.
    """

    def __init__(
        self, objects: ObjectStore, remembered_max: int = REFERENCES_REMEMBERED_MAX
    ) -> None:
        self._objects = objects
        self._known: OrderedDict[Reference, None] = OrderedDict()
        self._guard = threading.Lock()
        self._remembered_max = remembered_max

    def remember(self, reference: Reference) -> None:
        """Take it that `reference` is durable: it was just committed or confirmed."""
        with self._guard:
            self._known[reference.without_name()] = None
            self._known.move_to_end(reference.without_name())
            if len(self._known) > self._remembered_max:
                self._known.popitem(last=False)

    def confirm(self, reference: Reference) -> None:
        """Return if events may refer to it.

        Raises:
            DanglingReferenceError: there is no such object.
            ObjectCorruptError, HeaderMismatchError: there is, and it is not what is promised.
        """
        # The stat comes first and always: somebody may have removed the file by hand.
        size = self._objects.size(reference.digest)
        with self._guard:
            known = reference.without_name() in self._known
        if size is None:
            raise DanglingReferenceError(where="event", digest=str(reference.digest))
        if known and size == reference.size:
            return
        try:
            self._objects.confirm(reference)
        except ObjectMissingError:
            raise DanglingReferenceError(where="event", digest=str(reference.digest)) from None
        self.remember(reference)
