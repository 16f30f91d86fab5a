"""Exit statuses: what a script may rely on. docs/reference/cli.md explains each."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from attachstore.errors import (
    AmbiguousReferenceError,
    AttachstoreError,
    ConflictError,
    HeaderMismatchError,
    IntegrityError,
    InvalidReferenceError,
    InvalidSessionIdError,
    NotFoundError,
    RejectedError,
)


class ExitStatus(IntEnum):
    """Small, stable numbers; 0 is the only success."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    CORRUPT = 4
    HEADER_MISMATCH = 5
    REJECTED = 6
    CONFLICT = 7
    PARTLY_DONE = 8
    INTERRUPTED = 130


# The first class that fits decides, so the special ones stand before their groups.
_BY_CLASS: tuple[tuple[type[AttachstoreError], ExitStatus], ...] = (
    (InvalidReferenceError, ExitStatus.USAGE),
    (AmbiguousReferenceError, ExitStatus.USAGE),
    (InvalidSessionIdError, ExitStatus.USAGE),
    (HeaderMismatchError, ExitStatus.HEADER_MISMATCH),
    (NotFoundError, ExitStatus.NOT_FOUND),
    (IntegrityError, ExitStatus.CORRUPT),
    (RejectedError, ExitStatus.REJECTED),
    (ConflictError, ExitStatus.CONFLICT),
)

# Of several kinds of fault, what matters most: wrong bytes, then absent ones, then wrong labels.
_BY_SEVERITY = (ExitStatus.CORRUPT, ExitStatus.NOT_FOUND, ExitStatus.HEADER_MISMATCH)


def status_of(error: AttachstoreError) -> ExitStatus:
    """The exit status of a command that ended with `error`."""
    for kind, status in _BY_CLASS:
        if isinstance(error, kind):
            return status
    return ExitStatus.FAILED


def status_of_items(succeeded: int, errors: Sequence[AttachstoreError]) -> ExitStatus:
    """Of a command that was given several items: all done, some, or none (then the first's)."""
    if not errors:
        return ExitStatus.DONE
    return ExitStatus.PARTLY_DONE if succeeded else status_of(errors[0])


def worst(statuses: set[ExitStatus]) -> ExitStatus:
    """Of a report with several kinds of fault: corrupt before not found before mismatch."""
    for status in _BY_SEVERITY:
        if status in statuses:
            return status
    return max(statuses, default=ExitStatus.DONE)
