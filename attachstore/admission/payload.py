"""How bytes get to a worker: few through the socket, many as a descriptor beside it."""

from __future__ import annotations

import contextlib
import io
import os
import shutil

from attachstore.admission.messages import INLINE_BYTES_MAX
from attachstore.attachment import Content
from attachstore.disk import BLOCK_BYTES


def payload(source: Content | bytes) -> tuple[bytes, int | None]:
    """The bytes themselves if they are few; else a descriptor to read them from, to be closed."""
    if isinstance(source, bytes):
        if len(source) <= INLINE_BYTES_MAX:
            return source, None
        return b"", _copied(io.BytesIO(source))
    if source.size <= INLINE_BYTES_MAX:
        return source.head(source.size), None
    number = getattr(source, "fileno", None)
    if number is not None:
        with contextlib.suppress(OSError):  # no /proc: copied below
            return b"", _read_only_twin(number())
    return b"", _copied(source.open())


def _copied(source: io.BufferedIOBase) -> int:
    """A file in memory with the same bytes."""
    descriptor = os.memfd_create("attachment", os.MFD_CLOEXEC)
    try:
        with source, open(descriptor, "wb", closefd=False) as target:
            shutil.copyfileobj(source, target, BLOCK_BYTES)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _read_only_twin(descriptor: int) -> int:
    """A new descriptor of the same file that cannot write to it, with a position of its own."""
    return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
