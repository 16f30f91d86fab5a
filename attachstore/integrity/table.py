"""What a scan remembers about each object: as little as it can, in arrays.

A listed object takes 50 bytes: its digest (32), its size (8), and what the logs claim about it
(media type 2, width 4, height 4); a deep scan adds 8 for frames and pages. A million objects take
50 MB, ten million are better scanned in parts (`subset`). What does not fit the arrays (a second,
different claim about one object; a reference to an object that was not listed) is kept in a dict,
about 500 bytes each: there are few, or the store is in a bad way.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from attachstore.attachment import Header
from attachstore.digest import Digest
from attachstore.reference import Reference

_MEDIA_TYPES_MAX = 1 << 16
_SIDE_MAX = 1 << 32
_REST_BYTES = 24


@dataclass(frozen=True, slots=True)
class Claim:
    """What a reference says about its object that can be compared with the object."""

    size: int
    media_type: str
    width: int | None
    height: int | None
    frames: int | None = None
    """This and `pages` only where the scan is deep."""
    pages: int | None = None

    @classmethod
    def of(cls, reference: Reference, *, deep: bool = False) -> Claim:
        return cls(
            reference.size,
            reference.media_type,
            reference.width,
            reference.height,
            reference.frames if deep else None,
            reference.pages if deep else None,
        )

    def holds(self, size_bytes: int, header: Header) -> bool:
        """Whether bytes of that size and header bear it out."""
        return (
            self.size == size_bytes
            and self.media_type == header.media_type
            and self.width == header.width
            and self.height == header.height
        )

    def reference(self, digest: Digest) -> Reference:
        """A reference that makes this claim."""
        return Reference(
            digest=digest,
            size=self.size,
            media_type=self.media_type,
            width=self.width,
            height=self.height,
            frames=self.frames,
            pages=self.pages,
        )


class ObjectList:
    """Digests in ascending order with their sizes in bytes: 40 bytes each."""

    def __init__(self) -> None:
        # The first 8 bytes of each digest as a number, for `bisect`, which is written in C; the
        # other 24 as they are.
        self._heads = array("Q")
        self._rests = bytearray()
        self._sizes = array("Q")
        self._last: Digest | None = None
        self.size_bytes = 0
        """Of all objects together."""

    def append(self, digest: Digest, size_bytes: int) -> None:
        """Add an object. Raises ValueError unless it comes after all others: `find` needs that."""
        if self._last is not None and digest <= self._last:
            message = f"{digest} is not above its predecessor"
            raise ValueError(message)
        self._last = digest
        head, rest = _split(digest)
        self._heads.append(head)
        self._rests += rest
        self._sizes.append(size_bytes)
        self.size_bytes += size_bytes

    def __len__(self) -> int:
        return len(self._sizes)

    def __getitem__(self, index: int) -> tuple[Digest, int]:
        return self.digest(index), self._sizes[index]

    def __iter__(self) -> Iterator[tuple[Digest, int]]:
        return (self[index] for index in range(len(self)))

    def digest(self, index: int) -> Digest:
        return Digest(f"{self._heads[index]:016x}{self._rest(index).hex()}")

    def find(self, digest: Digest) -> int | None:
        """Where `digest` is, or None."""
        head, rest = _split(digest)
        index = bisect_left(self._heads, head)
        while index < len(self) and self._heads[index] == head:
            if self._rest(index) == rest:
                return index
            index += 1
        return None

    def _rest(self, index: int) -> bytes:
        return bytes(self._rests[index * _REST_BYTES : (index + 1) * _REST_BYTES])


def _split(digest: Digest) -> tuple[int, bytes]:
    return int(digest.hex[:16], 16), bytes.fromhex(digest.hex[16:])


class ObjectTable(ObjectList):
    """The listed objects of a scan, and the distinct claims that logs make about them."""

    def __init__(self, *, deep: bool = False) -> None:
        """`deep`: claims have frames and pages."""
        super().__init__()
        self.deep = deep
        self._frames = array("I")  # 0: none claimed; so `_pages`; both empty unless deep
        self._pages = array("I")
        self._types = array("H")  # 0: no claim, else 1 + index in _type_names
        self._widths = array("I")  # 0: no width claimed
        self._heights = array("I")
        self._type_names: list[str] = []
        self._type_numbers: dict[str, int] = {}
        self._further: dict[int, set[Claim]] = {}
        self.unlisted: dict[Digest, set[Claim]] = {}
        """Claims about objects that were not there when the objects were listed."""

    def append(self, digest: Digest, size_bytes: int) -> None:
        super().append(digest, size_bytes)
        self._types.append(0)
        self._widths.append(0)
        self._heights.append(0)
        if self.deep:
            self._frames.append(0)
            self._pages.append(0)

    def claim(self, reference: Reference) -> None:
        """Remember that a log holds `reference`."""
        index = self.find(reference.digest)
        if index is None:
            claim = Claim.of(reference, deep=self.deep)
            self.unlisted.setdefault(reference.digest, set()).add(claim)
        elif not self._is_first_claim(index, reference):
            self._add_claim(index, Claim.of(reference, deep=self.deep))

    def mention(self, digest: Digest) -> None:
        """Remember that something refers to an object, without claiming anything about it."""
        index = self.find(digest)
        if index is not None and not self.is_referenced(index):
            self._further[index] = set()

    def claims(self, index: int) -> tuple[Claim, ...]:
        """The distinct claims about an object; none: nothing refers to it."""
        further = tuple(self._further.get(index, ()))
        return (*further, self._first_claim(index)) if self._types[index] else further

    def is_referenced(self, index: int) -> bool:
        return self._types[index] != 0 or index in self._further

    def _is_first_claim(self, index: int, reference: Reference) -> bool:
        """The common case, without making anything: said before, in the same words."""
        number = self._types[index]
        return (
            number != 0
            and self._type_names[number - 1] == reference.media_type
            and self._sizes[index] == reference.size
            and self._widths[index] == (reference.width or 0)
            and self._heights[index] == (reference.height or 0)
            and not (self.deep and self._first_depth(index) != (reference.frames, reference.pages))
        )

    def _first_claim(self, index: int) -> Claim:
        return Claim(
            self._sizes[index],
            self._type_names[self._types[index] - 1],
            self._widths[index] or None,
            self._heights[index] or None,
            *self._first_depth(index),
        )

    def _first_depth(self, index: int) -> tuple[int | None, int | None]:
        """Frames and pages of the first claim."""
        if not self.deep:
            return None, None
        return self._frames[index] or None, self._pages[index] or None

    def _add_claim(self, index: int, claim: Claim) -> None:
        number = self._type_number(claim.media_type)
        width, height = claim.width or 0, claim.height or 0
        frames, pages = claim.frames or 0, claim.pages or 0
        numbers_fit = max(width, height, frames, pages) < _SIDE_MAX
        fits = number and claim.size == self._sizes[index] and numbers_fit
        if fits and self._types[index] == 0:
            self._types[index] = number
            self._widths[index], self._heights[index] = width, height
            if self.deep:
                self._frames[index], self._pages[index] = frames, pages
        else:
            self._further.setdefault(index, set()).add(claim)

    def _type_number(self, media_type: str) -> int:
        """Number of a media type, 0 if there are too many different ones to number."""
        number = self._type_numbers.get(media_type, 0)
        if number == 0 and len(self._type_names) + 1 < _MEDIA_TYPES_MAX:
            self._type_names.append(media_type)
            number = self._type_numbers[media_type] = len(self._type_names)
        return number
