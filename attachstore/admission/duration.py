"""How long a sound is, where the extra `audio` (tinytag) is installed.

Told by `examine` only. A reference has no place for it, and needs none: it is in the bytes.
"""

from __future__ import annotations

from typing import BinaryIO, cast

from attachstore.admission.contents import open_content
from attachstore.admission.reading import Reader
from attachstore.attachment import Content
from attachstore.threads import CancelFlag

_CALLS_MAX = 1_000_000
_BITS_PER_S_MIN = 100
"""Of the whole file. Silence in Opus takes 400; less is a length that nobody filled in."""


class _TooLongError(Exception):
    """A parser that runs in circles."""


class _Counted:
    """A reader that answers so many calls and no more."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._calls = 0

    def read(self, size: int = -1) -> bytes:
        self._count()
        return self._reader.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._count()
        return self._reader.seek(offset, whence)

    def tell(self) -> int:
        return self._reader.tell()

    def _count(self) -> None:
        self._calls += 1
        if self._calls > _CALLS_MAX:
            raise _TooLongError


def duration_s(content: Content, cancel: CancelFlag | None = None) -> float | None:
    """In seconds, as the file's own headers say; None if they do not, or nobody can read them.

    An estimate for MP3 without a header that counts its frames. Blocking.
    """
    try:
        from tinytag import TinyTag  # noqa: PLC0415 - an extra
    except ImportError:
        return None
    with open_content(content, cancel) as reader:
        try:
            file = cast("BinaryIO", _Counted(reader))
            found = TinyTag.get(file_obj=file, tags=False).duration
        except Exception:  # noqa: BLE001 - it raises whatever its parsers stumble over
            found = None
        if cancel is not None:
            cancel.check()  # what it raised in there was taken for a stumble
    if not found or not 0 < found * _BITS_PER_S_MIN <= content.size * 8:
        return None
    return found
