"""What the conformance suites of session media share: the storage from outside, and sessions."""

from __future__ import annotations

from typing import Any, Protocol

from attachstore.digest import Digest
from attachstore.errors import DanglingReferenceError
from attachstore.reference import Reference
from attachstore.sessions import SessionLog, SessionLogs, SessionMedium

REFERENCE = Reference(digest=Digest.of(b"shot"), size=4, media_type="image/png", name="shot.png")
DANGLING = Reference(digest=Digest.of(b"gone"), size=4, media_type="image/png")

STRANGE_IDS = [
    "a",
    "A",
    "..",
    ".hidden",
    "a/b",
    "../../etc/passwd",
    "a b\n",
    "%41",
    "caf\u00e9",
    "cafe\u0301",
    "Screenshot at 3.04\u202fPM",
    "CON",
    "x~y",
    "\U0001f4ce" * 50,
    "l" * 200,
    "l" * 201,
    "l" * 512,
    "\u00e9" * 256,
]


class Place(Protocol):
    """A medium's storage, seen from outside."""

    def medium(self) -> SessionMedium:
        """The medium, opened anew: what it remembers is what is stored."""
        ...

    def read(self, session_id: str) -> bytes: ...

    def write(self, session_id: str, content: bytes) -> None: ...

    def torn(self, session_id: str) -> list[bytes]:
        """What was cut off the log, in any order."""
        ...


def confirm(reference: Reference) -> None:
    """The store of these tests holds REFERENCE's object only."""
    if reference.digest != REFERENCE.digest:
        raise DanglingReferenceError(where="objects", digest=str(reference.digest))


def content_of(logs: SessionLogs, session_id: str, **options: Any) -> list[Any]:
    return [event.data for event in logs.events(session_id, **options)]


def filled(logs: SessionLogs, session_id: str, *data: object) -> SessionLog:
    """A closed session with one event for each value."""
    log = logs.create(session_id)
    for value in data:
        log.append("message", value)
    log.close()
    return log
