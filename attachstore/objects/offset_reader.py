"""OffsetReader: bytes that are read by explicit offset, as a file with a position of its own."""

from __future__ import annotations

import io
from collections.abc import Callable


class OffsetReader(io.RawIOBase):
    """For code that wants a file: decoders, the probe. Closing it closes nothing else."""

    def __init__(self, read_into: Callable[[memoryview, int], int], size_bytes: int) -> None:
        self._read_into = read_into
        self._size_bytes = size_bytes
        self._offset_bytes = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._offset_bytes

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        starts = {
            io.SEEK_SET: 0,
            io.SEEK_CUR: self._offset_bytes,
            io.SEEK_END: self._size_bytes,
        }
        target = starts[whence] + offset
        if target < 0:
            message = f"negative seek position {target}"
            raise ValueError(message)
        self._offset_bytes = target
        return target

    def readinto(self, buffer: memoryview, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride] - any writable buffer, which Python 3.11 has no type for
        filled = self._read_into(memoryview(buffer).cast("B"), self._offset_bytes)
        self._offset_bytes += filled
        return filled
