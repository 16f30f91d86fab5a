"""Errors about what is stored: names that lead nowhere, damaged bytes, other writers."""

from __future__ import annotations

from attachstore.errors.error import ConflictError, IntegrityError, NotFoundError

MEND_HEADER = (
    "Restore the log from a copy: a header cannot be repaired. `attachstore replay` shows the "
    "events that can still be read."
)
"""For damage at line 1 of a log."""
BEYOND_HEAD = "Name an event that it has, or leave it out: then it is the head."
"""For whoever wants to see or to fork a session at an event that it does not have."""


class ObjectMissingError(NotFoundError):
    """No object lies under the digest."""

    code = "object-missing"
    what = "there is no object {digest}{described}"
    mend = "{hint}"
    digest: str
    hint: str = "Attach the same file again, or restore the object from a copy of the store."
    size: int | None = None
    """In bytes; this and the next two as the reference has them, where there is one."""
    media_type: str | None = None
    name: str | None = None

    @property
    def described(self) -> str:
        known = [self.media_type, None if self.size is None else f"{self.size} bytes"]
        known.append(None if self.name is None else ascii(self.name))
        found = [text for text in known if text is not None]
        return f" ({', '.join(found)})" if found else ""


class SessionMissingError(NotFoundError):
    """No session of that id has a log."""

    code = "session-missing"
    what = "there is no session {session!r}"
    mend = "`attachstore session list` shows the sessions there are."
    session: str


class DanglingReferenceError(NotFoundError):
    """An event refers to an object that is not there; nothing was written."""

    code = "dangling-reference"
    what = "the event refers to {digest}, which is not in the store"
    mend = "Attach the file first and use the reference that comes back."
    digest: str


class InvalidReferenceError(NotFoundError):
    """Something that is not a reference, a digest or a prefix of one."""

    code = "invalid-reference"
    what = "{text!r} is not a reference: {reason}"
    mend = "Use blake3:<64 hex digits>, a prefix of at least 6, or a reference as JSON."
    text: str
    reason: str


class AmbiguousReferenceError(NotFoundError):
    """A prefix that several objects share."""

    code = "ambiguous-reference"
    what = "{prefix} fits {matches} objects"
    mend = "Give more digits; `attachstore ls` shows the digests."
    prefix: str
    matches: int


class StoreMissingError(NotFoundError):
    """No store lies at the path, and none was to be made."""

    code = "store-missing"
    what = "there is no store"
    mend = "{hint}"
    hint: str = "Check the path, or make a store with `attachstore init`."


class ObjectCorruptError(IntegrityError):
    """An object's bytes do not hash to its digest, twice in a row."""

    code = "object-corrupt"
    what = "object {digest} holds {size_bytes} bytes that hash to {actual}"
    mend = "Attach the original file again, which heals it. `attachstore scan` lists who uses it."
    digest: str
    actual: str
    size_bytes: int


class HeaderMismatchError(IntegrityError):
    """The object is whole, and the logged reference says something else about it."""

    code = "header-mismatch"
    what = "the reference to {digest} disagrees with the object: {described}"
    mend = "The object is intact; the reference was changed. Use the one that attach gave out."
    digest: str
    differences: tuple[tuple[str, str, str], ...]
    """(field, logged value, actual value), as text."""

    @property
    def described(self) -> str:
        return ", ".join(
            f"{field} logged {logged}, actual {actual}"
            for field, logged, actual in self.differences
        )


class LogDamagedError(IntegrityError):
    """A session log holds something that no crash can explain."""

    code = "log-damaged"
    what = "session {session!r} is damaged at line {line}, byte {offset_bytes}: {reason}"
    mend = "{remedy}"
    session: str
    line: int
    """From 1, which is the header: then no event comes before the damage."""
    offset_bytes: int
    reason: str
    head_seq: int
    """Last good event before the damage."""

    @property
    def remedy(self) -> str:
        if self.line == 1:
            return MEND_HEADER
        return (
            "The events before it are intact. Restore the log from a copy, fork before the damage, "
            "or cut it with `attachstore session repair`, which keeps the cut bytes."
        )


class StoreLayoutError(IntegrityError):
    """The store's own files are not where or what they must be."""

    code = "store-layout"
    what = "the store's layout is broken: {reason}"
    mend = "Put the named entry right, or restore it from a copy; objects and logs are untouched."
    reason: str


class SessionExistsError(ConflictError):
    """A session of that id has a log already."""

    code = "session-exists"
    what = "session {session!r} exists"
    mend = "Load it, or choose another id."
    session: str


class SessionBusyError(ConflictError):
    """Another writer holds the session."""

    code = "session-busy"
    what = "session {session!r} is being written by {holder}"
    mend = "Close it there, or fork it. The lock goes with its process; there is none to remove."
    session: str
    holder: str


class SequenceConflictError(ConflictError):
    """The session's head is not where the caller believed it to be; nothing was written."""

    code = "sequence-conflict"
    what = "session {session!r} is at event {head_seq}, the caller expected {expected_seq}"
    mend = "{hint}"
    session: str
    expected_seq: int
    head_seq: int
    hint: str = (
        "Read the events after yours; then append again, or leave it if yours is among them."
    )


class LogPoisonedError(ConflictError):
    """An earlier append failed, so what is on disk is unknown until the log is read again."""

    code = "log-poisoned"
    what = "session {session!r} takes no more events: {reason}"
    mend = "Close the session and load it again: that reads what reached the disk."
    session: str
    reason: str
