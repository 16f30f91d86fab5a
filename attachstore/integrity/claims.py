"""Claims: what the logs say about objects, each distinct claim kept once, in bounded memory.

A claim is a line of text: the object's digest, then what is said of it. Lines are collected in a
set; a full one is sorted and put aside, and so begins anew. Digests are spread evenly, so what all
of these parts have to say about one *shard*, the digests that begin with the same byte, is a 256th
of the whole, and that is what is in memory when objects are compared with it.
"""

from __future__ import annotations

import functools
from array import array
from bisect import bisect_left
from dataclasses import dataclass

from attachstore.attachment import Header
from attachstore.digest import Digest
from attachstore.integrity.scratch import Scratch
from attachstore.objects.inventory import SHARDS
from attachstore.reference import Reference

LINES_MAX = 16_384
"""Claims in memory before they are put aside: some 200 bytes each."""

_NOTHING_SAID = "-"


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


class Claims:
    """All of them. Added first, then asked for. Used by one thread."""

    def __init__(self, scratch: Scratch, *, deep: bool = False) -> None:
        """`deep`: claims have frames and pages."""
        self._deep = deep
        self._scratch = scratch
        self._lines = set[str]()
        self._ordered: list[str] = []
        self._parts: list[array[int]] = []  # of each: where its shards begin, and where it ends

    def add(self, reference: Reference) -> None:
        """Remember what a log says of an object."""
        # No number is 0 in a reference, so 0 stands for none; a media type holds no blank.
        line = (
            f"{reference.digest.hex} {reference.size} "
            f"{reference.width or 0} {reference.height or 0} "
        )
        if self._deep:
            line += f"{reference.frames or 0} {reference.pages or 0} "
        self._add(line + reference.media_type)

    def mention(self, digest: Digest) -> None:
        """Remember that something refers to an object, without claiming anything about it."""
        self._add(f"{digest.hex} {_NOTHING_SAID}")

    def of_shard(self, shard: str) -> dict[str, list[str]]:
        """The distinct claims about each object that is referred to, by its hex digits.

        Those of the objects whose digits begin with `shard`, as `parsed` takes them. No claims:
        it is mentioned only.
        Raises UnavailableError if a temporary file cannot be read.
        """
        lines = set(self._in_memory(shard))
        number = int(shard, 16)
        for part in self._parts:
            start, end = part[number], part[number + 1]
            lines.update(self._scratch.read(end - start, start).decode().splitlines())
        said: dict[str, list[str]] = {}
        for line in sorted(lines):
            digits, _, claim = line.partition(" ")
            known = said.setdefault(digits, [])
            if claim != _NOTHING_SAID:
                known.append(claim)
        return said

    def close(self) -> None:
        """Forget all of it."""
        self._lines.clear()
        self._ordered.clear()
        self._parts.clear()
        self._scratch.close()

    def _add(self, line: str) -> None:
        self._lines.add(line)
        if len(self._lines) >= LINES_MAX:
            self._put_aside()

    def _put_aside(self) -> None:
        ordered = sorted(self._lines)
        self._lines.clear()
        bounds = array("Q", [len(self._scratch)])
        for shard in SHARDS:
            self._scratch.append("".join(f"{it}\n" for it in _of_shard(ordered, shard)).encode())
            bounds.append(len(self._scratch))
        self._parts.append(bounds)

    def _in_memory(self, shard: str) -> list[str]:
        if self._lines:
            self._ordered = sorted({*self._ordered, *self._lines})
            self._lines.clear()
        return _of_shard(self._ordered, shard)


def _of_shard(ordered: list[str], shard: str) -> list[str]:
    start = bisect_left(ordered, shard)
    return ordered[start : bisect_left(ordered, f"{shard}g", start)]  # no digit is above "f"


@functools.lru_cache(maxsize=1024)  # many texts have one size
def parsed(claim: str) -> Claim:
    """A claim from the text that `Claims` keeps of it."""
    *numbers, media_type = claim.split(" ")
    size, *others = map(int, numbers)
    return Claim(size, media_type, *(number or None for number in others))
