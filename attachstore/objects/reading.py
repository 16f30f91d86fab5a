"""VerifiedReader: reads an object whole, and says whether it is what is wanted.

    open ─▶ hash all bytes ─▶ digest ─▶ size ─▶ probe ─▶ compare ─▶ Reading

Invariants

 (1) A Reading that `verified` returns has the wanted digest; for a Reference its size and header
     have been compared too.
 (2) "Corrupt" is said only of bytes that were read twice, the second time past the caches.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, TypeAlias, cast

from attachstore.admission.probe import differences, probe
from attachstore.digest import Digest
from attachstore.errors import (
    AttachstoreError,
    HeaderMismatchError,
    ObjectCorruptError,
    ObjectMissingError,
)
from attachstore.objects.backend import ObjectBackend, StoredObject
from attachstore.objects.offset_reader import OffsetReader
from attachstore.objects.verification import Fingerprint, fingerprint, load
from attachstore.reference import Reference
from attachstore.threads import CancelFlag

Wanted: TypeAlias = Reference | Digest
"""A bare digest asks for the digest to be verified and nothing else."""


def digest_of(wanted: Wanted) -> Digest:
    if isinstance(wanted, Reference):
        return wanted.digest
    if not isinstance(wanted, Digest):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
        message = f"an object is read by a Reference or a Digest, not {type(wanted).__name__}"
        raise TypeError(message)
    return wanted


@dataclass(frozen=True, slots=True)
class Reading:
    """A stored object, still open, after one reading from front to end."""

    stored: StoredObject
    found: Fingerprint
    data: bytes | None = None
    """All the bytes, where they were held: they are what was hashed."""

    def source(self) -> bytes | BinaryIO:
        """What the probe may look at."""
        return file_of(self.stored) if self.data is None else self.data


def hashed(
    stored: StoredObject,
    cancel: CancelFlag | None,
    each_block: Callable[[memoryview], object] | None = None,
) -> Reading:
    """Read in bounded memory, handing each block on."""
    return Reading(stored, fingerprint(stored, cancel, each_block))


def held(wanted: Wanted, stored: StoredObject, cancel: CancelFlag | None) -> Reading:
    """Read and keep the bytes."""
    if isinstance(wanted, Reference) and wanted.size != stored.size:
        # It can't be right, and it may be enormous: hash it, hold nothing.
        return hashed(stored, cancel)
    found, data = load(stored, cancel)
    return Reading(stored, found, data)


def file_of(stored: StoredObject) -> BinaryIO:
    """The object as a seekable file; closing it leaves the object open."""
    return io.BufferedReader(OffsetReader(stored.read_into, stored.size))


class StoredContent:
    """A stored object as Content, to be admitted or decoded where it lies; its opener closes it."""

    def __init__(self, stored: StoredObject, digest: Digest, size_bytes: int) -> None:
        self._stored = stored
        self._digest = digest
        self._size_bytes = size_bytes

    @property
    def digest(self) -> Digest:
        return self._digest

    @property
    def size(self) -> int:
        return self._size_bytes

    def head(self, size: int) -> bytes:
        with self.open() as reader:
            return reader.read(min(size, self._size_bytes))

    def open(self) -> io.BufferedIOBase:
        return cast("io.BufferedIOBase", file_of(self._stored))

    def close(self) -> None:
        return


def differences_from(
    reference: Reference, size_bytes: int, source: bytes | BinaryIO
) -> tuple[tuple[str, str, str], ...]:
    """How size and header differ from what the reference says: (field, logged, actual)."""
    return differences(reference, size_bytes, probe(source, reference.media_type))


def _compare(reference: Reference, reading: Reading) -> None:
    found = differences_from(reference, reading.found.size_bytes, reading.source())
    if found:
        raise HeaderMismatchError(
            where=reading.stored.location, digest=str(reference.digest), differences=found
        )


class VerifiedReader:
    """Readings of the objects in one medium."""

    def __init__(self, backend: ObjectBackend) -> None:
        self._backend = backend

    def verified(self, wanted: Wanted, read: Callable[[StoredObject], Reading]) -> Reading:
        """Read until the digest fits, twice at most. The caller closes the reading's object.

        Raises:
            ObjectMissingError, ObjectCorruptError, HeaderMismatchError, StoreLayoutError
        """
        reading = self._read_once(wanted, read, fresh=False)
        if reading.found.digest != digest_of(wanted):
            reading.stored.close()
            reading = self._read_once(wanted, read, fresh=True)
        if reading.found.digest != digest_of(wanted):
            reading.stored.close()
            raise ObjectCorruptError(
                where=reading.stored.location,
                digest=str(digest_of(wanted)),
                actual=str(reading.found.digest),
                size_bytes=reading.found.size_bytes,
            )
        return reading

    def open(self, wanted: Wanted, *, fresh: bool = False) -> StoredObject:
        """Open the object, unverified. A missing one's error tells where a whole copy is."""
        try:
            return self._backend.open(digest_of(wanted), fresh=fresh)
        except ObjectMissingError as error:
            raise self._missing(wanted, error) from None

    def _read_once(
        self, wanted: Wanted, read: Callable[[StoredObject], Reading], *, fresh: bool
    ) -> Reading:
        """One reading, compared with the reference if its digest fits; closed on an error."""
        stored = self.open(wanted, fresh=fresh)
        try:
            reading = read(stored)
            if isinstance(wanted, Reference) and reading.found.digest == wanted.digest:
                _compare(wanted, reading)
        except BaseException:
            stored.close()
            raise
        return reading

    def _missing(self, wanted: Wanted, error: ObjectMissingError) -> ObjectMissingError:
        """The error with what the reference knows, and with the way back if there is one."""
        if isinstance(wanted, Reference):
            error = dataclasses.replace(
                error, size=wanted.size, media_type=wanted.media_type, name=wanted.name
            )
        with contextlib.suppress(AttachstoreError):  # a help only: the object is missing anyway
            for copy in self._backend.quarantined(digest_of(wanted)):
                with copy:
                    whole = fingerprint(copy).digest == digest_of(wanted)
                if whole:
                    hint = f"A whole copy is in quarantine: move {copy.location} to {error.where}."
                    return dataclasses.replace(error, hint=hint)
        return error
