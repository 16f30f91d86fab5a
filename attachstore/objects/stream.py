"""VerifiedStream: an object in blocks, after all of it has been verified.

Invariants

 (1) No block is handed out before the whole object has been verified.
 (2) Small objects are handed out from the memory that was hashed. Of large ones each block is
     read again and compared with a tag taken while verifying: bytes that have changed in between
     are read once more and then end the stream with `object-corrupt`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from attachstore.digest import CHECKSUM_BYTES, checksum
from attachstore.disk import BLOCK_BYTES
from attachstore.errors import ObjectCorruptError
from attachstore.objects.backend import StoredObject
from attachstore.objects.verification import Fingerprint, fingerprint, read_block
from attachstore.threads import CancelFlag

HELD_BYTES_MAX = 8 * BLOCK_BYTES
"""Objects up to this size are streamed from memory."""


class VerifiedStream(Protocol):
    """Verified bytes, block by block; for one reader at a time."""

    @property
    def size(self) -> int:
        """Of the whole object, in bytes."""
        ...

    def read_block(self) -> bytes:
        """The next block of up to 1 MiB; empty at the end. Raises ObjectCorruptError."""
        ...

    def close(self) -> None:
        """Safe to repeat."""
        ...


class HeldStream:
    """Hands out the very bytes that were hashed."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._offset_bytes = 0

    @property
    def size(self) -> int:
        return len(self._data)

    def read_block(self) -> bytes:
        block = bytes(self._data[self._offset_bytes : self._offset_bytes + BLOCK_BYTES])
        self._offset_bytes += len(block)
        return block

    def close(self) -> None:
        self._offset_bytes = len(self._data)


class BlockTags:
    """One short checksum per block: 16 KiB of memory for each GiB of object."""

    def __init__(self) -> None:
        self._tags = bytearray()

    def clear(self) -> None:
        self._tags.clear()

    def add(self, block: memoryview) -> None:
        self._tags += checksum(block)

    def fits(self, number: int, block: memoryview) -> bool:
        start = number * CHECKSUM_BYTES
        return bytes(self._tags[start : start + CHECKSUM_BYTES]) == checksum(block)


class TaggedStream:
    """Reads the object again, block by block, and compares each with its tag."""

    def __init__(
        self,
        stored: StoredObject,
        verified: Fingerprint,
        tags: BlockTags,
        reopen: Callable[[], StoredObject],
        cancel: CancelFlag | None,
    ) -> None:
        self._stored = stored
        self._verified = verified
        self._tags = tags
        self._reopen = reopen
        self._cancel = cancel
        self._number = 0
        self._closed = False

    @property
    def size(self) -> int:
        return self._verified.size_bytes

    def read_block(self) -> bytes:
        start = self._number * BLOCK_BYTES
        if self._closed or start >= self._verified.size_bytes:
            return b""
        block = memoryview(bytearray(min(BLOCK_BYTES, self._verified.size_bytes - start)))
        if not self._filled(block, start):
            self._stored.close()
            self._stored = self._reopen()
            if not self._filled(block, start):
                raise self._corrupt()
        self._number += 1
        return bytes(block)

    def close(self) -> None:
        self._closed = True
        self._stored.close()

    def _filled(self, block: memoryview, start: int) -> bool:
        filled = read_block(self._stored, block, start, self._cancel)
        return filled == len(block) and self._tags.fits(self._number, block)

    def _corrupt(self) -> ObjectCorruptError:
        found = fingerprint(self._stored, self._cancel)
        return ObjectCorruptError(
            where=self._stored.location,
            digest=str(self._verified.digest),
            actual=str(found.digest),
            size_bytes=found.size_bytes,
        )
