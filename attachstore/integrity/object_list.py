"""ObjectList: digests with sizes, of which there may be millions, in bounded memory."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import overload

from attachstore.digest import Digest
from attachstore.integrity.scratch import Scratch

_RECORD = struct.Struct(">32sQ")
_READ_RECORDS = 4096


class ObjectList(Sequence[tuple[Digest, int]]):
    """Digests in ascending order with their sizes in bytes.

    40 bytes each: in memory up to 1 MiB, beyond it in a temporary file that goes with this list.
    Reading it may raise UnavailableError then.
    """

    def __init__(self, scratch: Scratch | None = None) -> None:
        """Touches nothing."""
        self._scratch = Scratch() if scratch is None else scratch
        self._last = ""
        self.size_bytes = 0
        """Of all objects together."""

    def append(self, digest: Digest, size_bytes: int) -> None:
        """Add an object. Raises ValueError unless it comes after all others."""
        if digest.hex <= self._last:
            message = f"{digest} is not above its predecessor"
            raise ValueError(message)
        self._last = digest.hex
        self._scratch.append(_RECORD.pack(bytes.fromhex(digest.hex), size_bytes))
        self.size_bytes += size_bytes

    def __len__(self) -> int:
        return len(self._scratch) // _RECORD.size

    def __iter__(self) -> Iterator[tuple[Digest, int]]:
        for start in range(0, len(self), _READ_RECORDS):
            yield from self._records(start, min(start + _READ_RECORDS, len(self)))

    @overload
    def __getitem__(self, index: int) -> tuple[Digest, int]: ...

    @overload
    def __getitem__(self, index: slice) -> list[tuple[Digest, int]]: ...

    def __getitem__(self, index: int | slice) -> tuple[Digest, int] | list[tuple[Digest, int]]:
        if isinstance(index, slice):
            start, end, step = index.indices(len(self))
            if step == 1:
                return list(self._records(start, max(start, end)))
            return [self[each] for each in range(start, end, step)]
        position = range(len(self))[index]  # from the end, too; raises IndexError
        return next(self._records(position, position + 1))

    def _records(self, start: int, end: int) -> Iterator[tuple[Digest, int]]:
        block = self._scratch.read((end - start) * _RECORD.size, start * _RECORD.size)
        for raw, size_bytes in _RECORD.iter_unpack(block):
            yield Digest(raw.hex()), size_bytes

    def __reduce__(self) -> tuple[object, ...]:
        """A copy, and what is pickled, holds the list itself and not the file."""
        return _remade, (self._scratch.read(len(self._scratch), 0), self._last, self.size_bytes)

    def close(self) -> None:
        """Forget all of it. For whoever gives it up before the end of its life."""
        self._scratch.close()


def _remade(records: bytes, last: str, size_bytes: int) -> ObjectList:
    made = ObjectList()
    made._scratch.append(records)  # noqa: SLF001 - its own
    made._last = last  # noqa: SLF001
    made.size_bytes = size_bytes
    return made
