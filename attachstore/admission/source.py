"""Sources: reading the user's files and streams once, bounded, into Content.

One read feeds the digest, the decoder and the store: what is admitted is what was read, whatever
happens to the file meanwhile. A file is copied, never linked and never kept open.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

from attachstore.attachment import BytesContent, Content, Spool
from attachstore.disk import BLOCK_BYTES, Disk
from attachstore.errors import (
    AdmissionError,
    ResourceExhaustedError,
    SourceChangedError,
    SourceMissingError,
    SourceNotAFileError,
    SourceUnreadableError,
    TooManyBytesError,
    UnavailableError,
)
from attachstore.threads import CancelFlag

P = ParamSpec("P")
T = TypeVar("T")

MEMORY_BYTES_MAX = 1 << 20
"""Up to here a source is held in memory; a larger one goes to a spool on the store's disk."""

_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})
_EXHAUSTED = {errno.EMFILE: "descriptors", errno.ENFILE: "descriptors", errno.ENOMEM: "memory"}
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a link",
}


class Taker(Protocol):
    """What a file is read into. Exactly one of `finish` and `discard` ends it."""

    def room(self) -> memoryview:
        """Where to read the next bytes into, at most BLOCK_BYTES, until they are written."""
        ...

    def write(self, block: memoryview) -> None:
        """Take the next bytes: the front of what `room` gave last."""
        ...

    def finish(self) -> Content: ...

    def discard(self) -> None: ...


class Gatherer:
    """Content in the making, of a length that nobody knows yet.

    Exactly one of `finish` and `discard` ends it. `spool` makes the Spool when memory will not
    do; `where` names the source in errors.
    """

    def __init__(self, spool: Callable[[], Spool], bytes_max: int, where: str) -> None:
        self._make_spool = spool
        self._bytes_max = bytes_max
        self._where = where
        self._blocks: list[bytes] = []
        self._spool: Spool | None = None
        self._buffer: memoryview | None = None
        self._size = 0

    def write(self, block: bytes | bytearray | memoryview) -> None:
        """Take the next bytes. Raises TooManyBytesError at the first one over the limit."""
        self._size += len(block)
        if self._size > self._bytes_max:
            raise TooManyBytesError(where=self._where, bytes_max=self._bytes_max)
        if self._spool is None and self._size <= MEMORY_BYTES_MAX:
            self._blocks.append(bytes(block))
            return
        if self._spool is None:
            self._spool = self._make_spool()
            for earlier in self._blocks:
                self._spool.write(earlier)
            self._blocks.clear()
        self._spool.write(memoryview(block) if isinstance(block, bytearray) else block)

    def room(self) -> memoryview:
        """One buffer again and again: what is written is copied."""
        if self._buffer is None:
            self._buffer = memoryview(bytearray(BLOCK_BYTES))
        return self._buffer[: self.room_bytes]

    def finish(self) -> Content:
        """All bytes so far. The caller closes the Content."""
        if self._spool is None:
            return BytesContent(b"".join(self._blocks))
        return self._spool.finish()

    def discard(self) -> None:
        """Leave nothing behind; safe to repeat."""
        self._blocks.clear()
        if self._spool is not None:
            self._spool.discard()

    @property
    def room_bytes(self) -> int:
        """How many bytes to ask the source for: never more than one past the limit."""
        return min(BLOCK_BYTES, self._bytes_max - self._size + 1)


def read_file(disk: Disk, path: Path, gatherer: Taker, cancel: CancelFlag | None = None) -> Content:
    """Read a regular file through `gatherer`, from one descriptor, and say if it changed.

    Links are followed once, to a regular file; anything else (also a pipe that nobody writes to)
    is refused at once, without waiting. Its size is not believed: files in /proc say 0.

    Raises SourceMissingError, SourceNotAFileError, SourceUnreadableError, SourceChangedError,
    TooManyBytesError; what the spool raises. The gatherer is discarded then.
    """
    where = ascii(str(path))[1:-1]
    try:
        # Looked at before it is opened, since opening a tape rewinds it.
        _check_regular(_asking(where, disk.status_followed, path), where)
        descriptor = _asking(where, disk.open_source, path)
        try:
            _copy(disk, descriptor, gatherer, cancel, where)
        finally:
            _asking(where, disk.close, descriptor)
        return gatherer.finish()
    except BaseException:
        gatherer.discard()
        raise


def _copy(
    disk: Disk, descriptor: int, gatherer: Taker, cancel: CancelFlag | None, where: str
) -> None:
    before = _asking(where, disk.status_open, descriptor)
    _check_regular(before, where)
    offset = 0
    while True:
        if cancel is not None:
            cancel.check()
        room = gatherer.room()
        got = _asking(where, disk.read_into, descriptor, room, offset)
        if not got:
            break
        gatherer.write(room[:got])
        offset += got
    after = _asking(where, disk.status_open, descriptor)
    for field in ("st_size", "st_mtime_ns", "st_ctime_ns"):
        if getattr(before, field) != getattr(after, field):
            reason = f"its {_FIELD_WORDS[field]} is another than before"
            raise SourceChangedError(where=where, reason=reason)


_FIELD_WORDS = {
    "st_size": "size",
    "st_mtime_ns": "modification time",
    "st_ctime_ns": "change time",
}


def _asking(where: str, call: Callable[P, T], /, *args: P.args, **keywords: P.kwargs) -> T:
    """Make an operating system call on the source; its errors are the source's fault."""
    try:
        return call(*args, **keywords)
    except OSError as error:
        raise _source_error(error, where) from error
    except ValueError as error:  # a path with a NUL in it names nothing
        raise SourceMissingError(where=where) from error


def _source_error(error: OSError, where: str) -> AdmissionError | UnavailableError:
    number = error.errno or 0
    reason = f"{os.strerror(number)} ({errno.errorcode.get(number, number)})"
    if number in _MISSING:
        return SourceMissingError(where=where)
    if number == errno.ELOOP:
        return SourceNotAFileError(where=where, kind="a loop of links")
    if number in {errno.ENXIO, errno.ENODEV}:
        return SourceNotAFileError(where=where, kind="a socket or a device")
    if number in _EXHAUSTED:
        return ResourceExhaustedError(where=where, resource=_EXHAUSTED[number], reason=reason)
    return SourceUnreadableError(where=where, reason=reason)


def _check_regular(status: os.stat_result, where: str) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        raise SourceNotAFileError(where=where, kind=_KINDS.get(kind, "something special"))
