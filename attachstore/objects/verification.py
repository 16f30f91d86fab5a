"""Reading stored bytes with their hash: what every verified operation is made of.

Memory is bounded by one block, except for `load`, whose caller decides that all of the bytes
may be held at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from attachstore.digest import Digest, Hasher
from attachstore.disk import BLOCK_BYTES, storage_errors
from attachstore.objects.backend import StoredObject
from attachstore.threads import CancelFlag

_HASHED_BYTES = 8 << 20
"""Between two looks at the cancel flag, of bytes that are in memory already."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What bytes are, whatever they are called."""

    digest: Digest
    size_bytes: int


def fingerprint(
    stored: StoredObject,
    cancel: CancelFlag | None = None,
    each_block: Callable[[memoryview], object] | None = None,
) -> Fingerprint:
    """Hash `stored` to its end, handing each block of 1 MiB (the last may be shorter) on.

    The end is where reading ends, not where a status says it is. `each_block` must copy what it
    wants to keep: the buffer is used again.
    """
    hasher = Hasher()
    buffer = memoryview(bytearray(min(BLOCK_BYTES, max(stored.size, 1))))
    offset_bytes = 0
    while True:
        filled = read_block(stored, buffer, offset_bytes, cancel)
        if filled == 0:
            return Fingerprint(hasher.digest(), offset_bytes)
        hasher.update(buffer[:filled])
        if each_block is not None:
            each_block(buffer[:filled])
        offset_bytes += filled


def load(
    stored: StoredObject, cancel: CancelFlag | None = None
) -> tuple[Fingerprint, bytes | None]:
    """All the bytes and their fingerprint; the bytes are those that were hashed.

    None if the object has grown since it was opened: nobody may trust its size then.
    """
    with storage_errors(stored.location):  # of memory, too
        data = _read_whole(stored, cancel)
    if len(data) > stored.size:
        return fingerprint(stored, cancel), None
    hasher = Hasher(len(data))
    view = memoryview(data)
    for start in range(0, len(data), _HASHED_BYTES):
        if cancel is not None:
            cancel.check()
        hasher.update(view[start : start + _HASHED_BYTES])
    return Fingerprint(hasher.digest(), len(data)), data


def _read_whole(stored: StoredObject, cancel: CancelFlag | None) -> bytes:
    """All there is, or one byte more than there was when it was opened.

    Asked for at once, so that nothing is copied; who reads from a socket may get it in parts.
    """
    wanted_bytes = stored.size + 1
    data = stored.read(wanted_bytes, 0)
    if len(data) >= stored.size:
        return data
    parts = [data]
    filled = len(data)
    while parts[-1] and filled < wanted_bytes:
        if cancel is not None:
            cancel.check()
        parts.append(stored.read(wanted_bytes - filled, filled))
        filled += len(parts[-1])
    return b"".join(parts)


def read_block(
    stored: StoredObject, buffer: memoryview, offset_bytes: int, cancel: CancelFlag | None = None
) -> int:
    """Fill `buffer` from `offset_bytes`; less only at the end of the object."""
    if cancel is not None:
        cancel.check()
    filled = 0
    while filled < len(buffer):
        got = stored.read_into(buffer[filled:], offset_bytes + filled)
        if got == 0:
            break
        filled += got
    return filled
