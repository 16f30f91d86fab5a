"""Content and Attachment: bytes on their way in, before and after admission.

    source ──stage──▶ Content ──admit──▶ Attachment ──commit──▶ Reference

A Content is bytes that will not change any more, with their digest: in memory, or spooled into
the store's staging area. An Attachment is a Content that admission has let in; only admission
makes one, so whatever takes an Attachment may rely on its header.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Protocol

from attachstore.digest import Digest


class Content(Protocol):
    """Unchanging bytes of a known size and digest.

    Whoever staged it closes it, once; the bytes may be read from several threads at once.
    """

    @property
    def digest(self) -> Digest: ...

    @property
    def size(self) -> int:
        """In bytes."""
        ...

    def head(self, size: int) -> bytes:
        """The first `size` bytes, or all if there are fewer."""
        ...

    def open(self) -> io.BufferedIOBase | io.BytesIO:
        """A new seekable reader at byte 0, independent of every other; the caller closes it."""
        ...

    def close(self) -> None:
        """Drop the bytes; safe to repeat. A published object is not touched."""
        ...


class Spool(Protocol):
    """Content in the making, on the store's own file system; hashed as it is written.

    Exactly one of `finish` and `discard` ends it.
    """

    def write(self, block: bytes | memoryview) -> None: ...

    def finish(self) -> Content:
        """The bytes written so far, not durable yet: `publish` syncs them."""
        ...

    def discard(self) -> None:
        """Leave nothing behind; safe to repeat, and after `finish` it does nothing."""
        ...


class BytesContent:
    """Content held in memory."""

    __slots__ = ("_digest", "data")

    def __init__(self, data: bytes, digest: Digest | None = None) -> None:
        self.data = data
        self._digest = digest or Digest.of(data)

    @property
    def digest(self) -> Digest:
        return self._digest

    @property
    def size(self) -> int:
        return len(self.data)

    def head(self, size: int) -> bytes:
        return self.data[:size]

    def open(self) -> io.BytesIO:
        return io.BytesIO(self.data)

    def close(self) -> None:
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What the probe finds at the front of the bytes: pixels of frame 0 for images, else None."""

    media_type: str
    width: int | None = None
    height: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """Content that admission has let in. Only `attachstore.admission` makes these.

    `header` is what the probe said, and what every later read compares with; `frames` and
    `pages` come from the full decode.
    """

    content: Content
    header: Header
    frames: int | None = None
    pages: int | None = None
    name: str | None = None
