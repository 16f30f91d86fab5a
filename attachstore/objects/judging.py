"""Judging: whether bytes that lie under a digest are what it says, and the note if they are not."""

from __future__ import annotations

from attachstore.digest import Digest
from attachstore.errors import StorageIOError
from attachstore.objects.backend import Judge, QuarantineNote, StoredObject
from attachstore.objects.verification import fingerprint
from attachstore.threads import CancelFlag


def note_on(
    digest: Digest,
    stored: StoredObject,
    found_by: str,
    cancel: CancelFlag | None,
    *,
    unreadable: bool = True,
) -> QuarantineNote | None:
    """A note if the bytes are bad; with `unreadable`, also if the medium can't give them."""
    try:
        found = fingerprint(stored, cancel)
    except StorageIOError:
        if not unreadable:
            raise
        actual, size_bytes = "unreadable", stored.size
    else:
        if found.digest == digest:
            return None
        actual, size_bytes = str(found.digest), found.size_bytes
    return QuarantineNote(
        found_by=found_by, expected=str(digest), actual=actual, size_bytes=size_bytes
    )


def judge_of(
    digest: Digest, found_by: str, cancel: CancelFlag | None, *, unreadable: bool = True
) -> Judge:
    """For a medium, which asks again under its lock."""
    return lambda stored: note_on(digest, stored, found_by, cancel, unreadable=unreadable)
