"""What a scan remembers: the objects that were listed, and what the logs claim about each.

Neither is held in memory as a whole. The list is in the order of digests, and claims are had for
the digests that begin with one byte at a time, so both are gone through side by side, as often as
is needed: once for what is to be checked, once for what nothing refers to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from attachstore.digest import Digest
from attachstore.disk import Disk
from attachstore.errors import StorageIOError
from attachstore.integrity.claims import Claim, Claims, parsed
from attachstore.integrity.object_list import ObjectList
from attachstore.integrity.scratch import Scratch
from attachstore.objects.inventory import SHARDS
from attachstore.reference import Reference


class Known(NamedTuple):
    """What is known of one object before a byte of it is read."""

    digest: Digest
    size_bytes: int | None
    """By the listing; None: it was not there when the objects were listed."""
    claims: tuple[Claim, ...]
    """Distinct ones. None are made by a line that nobody vouches for."""


class ObjectTable:
    """The listed objects of a scan, and the distinct claims that logs make about them.

    Used by one thread: listed first, then claimed, then gone through. Up to 1 MiB of the list and
    `LINES_MAX` claims are in memory, all else is in temporary files until `close`.
    """

    def __init__(self, disk: Disk | None = None, *, deep: bool = False) -> None:
        """`deep`: claims have frames and pages."""
        self.objects = ObjectList(Scratch(disk))
        self._claims = Claims(Scratch(disk), deep=deep)

    def append(self, digest: Digest, size_bytes: int) -> None:
        """Add a listed object. Raises ValueError unless it comes after all others."""
        self.objects.append(digest, size_bytes)

    def claim(self, reference: Reference) -> None:
        """Remember that a log holds `reference`."""
        self._claims.add(reference)

    def mention(self, digest: Digest) -> None:
        """Remember that something refers to an object, without claiming anything about it."""
        self._claims.mention(digest)

    def __iter__(self) -> Iterator[Known]:
        """Every object that was listed or referred to, by the first byte of its digest.

        Of those with the same one, the listed come first, in ascending order. Raises
        UnavailableError if a temporary file cannot be read.
        """
        for digest, size_bytes, claims in self._side_by_side():
            yield Known(digest, size_bytes, tuple(map(parsed, claims or ())))

    def unreferenced(self) -> Iterator[tuple[Digest, int]]:
        """What was listed and is in no log, not even in a line that nobody vouches for.

        In ascending order, with its size in bytes. Raises as the iterator.
        """
        for digest, size_bytes, claims in self._side_by_side():
            if claims is None and size_bytes is not None:
                yield digest, size_bytes

    def _side_by_side(self) -> Iterator[tuple[Digest, int | None, list[str] | None]]:
        listed = iter(self.objects)
        following = next(listed, None)
        for shard in SHARDS:
            said = self._claims.of_shard(shard)
            while following is not None and following[0].hex.startswith(shard):
                digest, size_bytes = following
                yield digest, size_bytes, said.pop(digest.hex, None)
                following = next(listed, None)
            for digits, claims in said.items():
                yield Digest(digits), None, claims
        if following is not None:
            reason = "what was listed does not come back in order"
            raise StorageIOError(where="a scan's list of objects", reason=reason)

    def close(self) -> None:
        """Forget all of it."""
        self.objects.close()
        self._claims.close()
