"""Session ids, and the one path segment that each becomes.

The mapping is injective, so two ids never share a log: bytes that are not plain are `%XX`, and
what would be too long for a file name ends in the id's hash, after a `~` that no escaped id
holds. Only then is the id not readable from the segment; the log's header has it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import unquote_to_bytes

from attachstore.digest import Digest
from attachstore.errors import InvalidSessionIdError

ID_BYTES_MAX = 512
SEGMENT_BYTES_MAX = 200

_KEPT_OF_LONG = 100
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")
_PLAIN_ID = re.compile(rf"[A-Za-z0-9_-][A-Za-z0-9_.-]{{0,{SEGMENT_BYTES_MAX - 1}}}")
_SEGMENT = re.compile(r"(?!\.)(?:[A-Za-z0-9_.-]|%[0-9A-F]{2})+")
_LONG_SEGMENT = re.compile(r"[A-Za-z0-9_.%-]{100}~[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class SessionName:
    """A session's id and its path segment."""

    id: str
    """As the user wrote it; for a long one found by listing, the segment stands in for it."""
    segment: str

    @classmethod
    def of(cls, session_id: str) -> Self:
        """Raises InvalidSessionIdError."""
        return cls(session_id, escape(session_id))

    @classmethod
    def from_segment(cls, segment: str) -> Self | None:
        """The session that a directory entry belongs to; None if no id leads to that entry."""
        if _PLAIN_ID.fullmatch(segment):
            return cls(segment, segment)  # as nearly all are; see `escape`
        if _LONG_SEGMENT.fullmatch(segment):
            return cls(segment, segment)
        if not _SEGMENT.fullmatch(segment):
            return None
        try:
            name = cls.of(unquote_to_bytes(segment).decode())
        except (UnicodeDecodeError, InvalidSessionIdError):
            return None
        return name if name.segment == segment else None

    @property
    def is_hashed(self) -> bool:
        """Whether the segment does not tell the id."""
        return "~" in self.segment

    def belongs_to(self, session_id: str) -> bool:
        """Whether a log with that id in its header may lie under this segment."""
        try:
            return escape(session_id) == self.segment
        except InvalidSessionIdError:
            return False


def escape(session_id: str) -> str:
    """The path segment of a session id, at most 200 bytes. Raises InvalidSessionIdError."""
    if isinstance(session_id, str) and _PLAIN_ID.fullmatch(session_id):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
        return session_id  # nearly all are, and a listing asks several times for each
    raw = _checked(session_id)
    segment = "".join(
        chr(byte) if byte in _PLAIN and (position or byte != ord(".")) else f"%{byte:02X}"
        for position, byte in enumerate(raw)
    )
    if len(segment) <= SEGMENT_BYTES_MAX:
        return segment
    return f"{segment[:_KEPT_OF_LONG]}~{Digest.of(raw).hex}"


def _checked(session_id: str) -> bytes:
    if not isinstance(session_id, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
        message = f"a session id is text, not {type(session_id).__name__}"
        raise TypeError(message)
    try:
        raw = session_id.encode()
    except UnicodeEncodeError:
        raise _invalid(session_id, "it is not UTF-8 (a lone surrogate)") from None
    if not raw:
        raise _invalid(session_id, "it is empty")
    if len(raw) > ID_BYTES_MAX:
        raise _invalid(session_id, f"it takes {len(raw)} bytes, the limit is {ID_BYTES_MAX}")
    if b"\0" in raw:
        raise _invalid(session_id, "it holds a NUL")
    return raw


def _invalid(session_id: str, reason: str) -> InvalidSessionIdError:
    return InvalidSessionIdError(where="session id", session=ascii(session_id[:80]), reason=reason)
