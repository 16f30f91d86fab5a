"""ScanReport: what a scan found, sorted and countable, for people and for programs.

A *fault* means that something a session log relies on is not as promised; a *note* is worth
knowing and breaks nothing. Kinds that are also errors carry the error's code.

    fault   object-corrupt object-unreadable object-misplaced store-layout log-damaged
            log-unreadable directory-unreadable | dangling-reference | header-mismatch
            not-decodable
    note    mended not-decoded sessions-absent unreferenced stale-staging quarantine-content
            uncommitted-tail foreign-file writable-object
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from attachstore.digest import Digest
from attachstore.integrity.object_list import ObjectList

USES_MAX = 1000
"""Uses listed per finding; `uses_total` counts all of them."""


class Severity(enum.Enum):
    """What kind of answer a fault is; the worst comes first."""

    CORRUPT = "corrupt"
    MISSING = "missing"
    MISMATCH = "mismatch"
    NOTE = "note"


class Kind(enum.Enum):
    """What was found. The values are stable; faults come before notes, worst first."""

    OBJECT_CORRUPT = "object-corrupt"
    OBJECT_UNREADABLE = "object-unreadable"
    OBJECT_MISPLACED = "object-misplaced"
    STORE_LAYOUT = "store-layout"
    LOG_DAMAGED = "log-damaged"
    LOG_UNREADABLE = "log-unreadable"
    DIRECTORY_UNREADABLE = "directory-unreadable"
    DANGLING_REFERENCE = "dangling-reference"
    HEADER_MISMATCH = "header-mismatch"
    NOT_DECODABLE = "not-decodable"
    MENDED = "mended"
    NOT_DECODED = "not-decoded"
    SESSIONS_ABSENT = "sessions-absent"
    UNREFERENCED = "unreferenced"
    STALE_STAGING = "stale-staging"
    QUARANTINE_CONTENT = "quarantine-content"
    UNCOMMITTED_TAIL = "uncommitted-tail"
    FOREIGN_FILE = "foreign-file"
    WRITABLE_OBJECT = "writable-object"

    @property
    def severity(self) -> Severity:
        return _SEVERITIES.get(self, Severity.NOTE)

    @property
    def is_fault(self) -> bool:
        return self in _SEVERITIES

    @property
    def mend(self) -> str:
        """What to do about it, in a sentence or two."""
        return _MENDS[self]


_SEVERITIES = {
    Kind.OBJECT_CORRUPT: Severity.CORRUPT,
    Kind.OBJECT_UNREADABLE: Severity.CORRUPT,
    Kind.OBJECT_MISPLACED: Severity.CORRUPT,
    Kind.STORE_LAYOUT: Severity.CORRUPT,
    Kind.LOG_DAMAGED: Severity.CORRUPT,
    Kind.LOG_UNREADABLE: Severity.CORRUPT,
    Kind.DIRECTORY_UNREADABLE: Severity.CORRUPT,
    Kind.DANGLING_REFERENCE: Severity.MISSING,
    Kind.HEADER_MISMATCH: Severity.MISMATCH,
    Kind.NOT_DECODABLE: Severity.MISMATCH,
}

_MENDS = {
    Kind.OBJECT_CORRUPT: (
        "Attach the original file again, which heals it; `scan --repair-from` takes it from a copy "
        "of the store, `scan --quarantine` moves the bad bytes aside and keeps them."
    ),
    Kind.OBJECT_UNREADABLE: "Check permissions and the disk, then scan again; nothing was decided.",
    Kind.OBJECT_MISPLACED: (
        "Move it to objects/blake3/<first 2 digits>/<64 digits>, or attach the file again, and "
        "remove it."
    ),
    Kind.STORE_LAYOUT: (
        "Move what lies there out of the store, then attach the file again or restore the entry."
    ),
    Kind.LOG_DAMAGED: (
        "Restore the log from a copy, fork before the damage, or cut it with `attachstore session "
        "repair`, which keeps the cut bytes."
    ),
    Kind.LOG_UNREADABLE: "Check permissions and the disk, then scan again; nothing was decided.",
    Kind.DIRECTORY_UNREADABLE: (
        "Check permissions and the disk, then scan again; what lies in it was not looked at."
    ),
    Kind.DANGLING_REFERENCE: (
        "Attach the same file again, or `scan --repair-from` a copy of the store."
    ),
    Kind.HEADER_MISMATCH: (
        "The object is intact; the reference was changed. Restore the log from a copy."
    ),
    Kind.NOT_DECODABLE: (
        "The bytes are those that were attached; this decoder does not take them. Look at them "
        "with another program, and attach what it can save under a new reference."
    ),
    Kind.MENDED: "Nothing to mend. Bad bytes, if there were any, are kept in quarantine.",
    Kind.NOT_DECODED: (
        "Nothing was decided: install what is missing or raise the limit, then scan again."
    ),
    Kind.SESSIONS_ABSENT: (
        "If there were sessions, restore it from a copy of the store before anything is written. "
        "If not, nothing: the first session makes it."
    ),
    Kind.UNREFERENCED: "Nothing to mend: a scan never removes an object.",
    Kind.STALE_STAGING: (
        "Nothing to mend: `Store.drain` removes it, or the next write to a session what a deletion "
        "has left."
    ),
    Kind.QUARANTINE_CONTENT: "Look at it, keep or remove it; no read ever uses it.",
    Kind.UNCOMMITTED_TAIL: (
        "Nothing to mend: it was never acknowledged. The next append moves it to torn/."
    ),
    Kind.FOREIGN_FILE: "Move it out of the store; attachstore did not put it there.",
    Kind.WRITABLE_OBJECT: "Take the write permission away: chmod a-w.",
}


@dataclass(frozen=True, slots=True, order=True)
class Use:
    """A place in a session log that refers to an object."""

    session: str
    seq: int
    pointer: str
    """JSON pointer (RFC 6901) of the reference inside the event's data; "" is the data itself."""

    def to_json(self) -> dict[str, str | int]:
        return {"session": self.session, "seq": self.seq, "pointer": self.pointer}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault or note: what, where, who is affected, how to mend it."""

    kind: Kind
    what: str
    """One sentence without a full stop."""
    digest: Digest | None = None
    path: str | None = None
    """Where: relative to the store's root, or as the medium writes it; escaped for printing."""
    size_bytes: int | None = None
    session: str | None = None
    line: int | None = None
    """Line of the log, from 1 (the header)."""
    offset_bytes: int | None = None
    """Byte of the log at which that line begins."""
    differences: tuple[tuple[str, str, str], ...] = ()
    """Header mismatch: (field, logged value, actual value), as text."""
    quarantined: bool = False
    """This scan has moved the bytes to quarantine."""
    hint: str | None = None
    """What to do, where more is known than the kind of finding tells."""
    uses: tuple[Use, ...] = ()
    """The events that refer to the object, at most USES_MAX of them."""
    uses_total: int = 0

    @property
    def mend(self) -> str:
        """What to do about it."""
        if self.quarantined:
            return "Attach the original file again; the bad bytes are kept in quarantine."
        return self.hint or self.kind.mend

    def to_json(self) -> dict[str, Any]:
        """JSON-ready; absent fields are left out, the names are stable."""
        found: dict[str, Any] = {"kind": self.kind.value, "what": self.what, "mend": self.mend}
        if self.digest is not None:
            found["digest"] = str(self.digest)
        for name in ("path", "size_bytes", "session", "line", "offset_bytes"):
            value = getattr(self, name)
            if value is not None:
                found[name] = value
        if self.differences:
            found["differences"] = [
                {"field": field, "logged": logged, "actual": actual}
                for field, logged, actual in self.differences
            ]
        if self.quarantined:
            found["quarantined"] = True
        if self.kind in _ABOUT_USES:
            found["uses"] = [use.to_json() for use in self.uses]
            found["uses_total"] = self.uses_total
        return found


_ABOUT_USES = frozenset(
    {
        Kind.OBJECT_CORRUPT,
        Kind.OBJECT_UNREADABLE,
        Kind.OBJECT_MISPLACED,
        Kind.STORE_LAYOUT,
        Kind.DANGLING_REFERENCE,
        Kind.HEADER_MISMATCH,
        Kind.NOT_DECODABLE,
        Kind.MENDED,
        Kind.NOT_DECODED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """What an interrupted scan had done before this one went on with it."""

    started_at: str
    """When the first of them began: RFC 3339, UTC."""
    objects: int
    bytes_read: int

    def to_json(self) -> dict[str, str | int]:
        return {
            "started_at": self.started_at,
            "objects": self.objects,
            "bytes_read": self.bytes_read,
        }


@dataclass(slots=True, kw_only=True)
class ScanReport:
    """Result of a scan. `clean` means: no faults; notes are allowed."""

    findings: list[Finding] = field(default_factory=list[Finding])
    """The faults, worst first."""
    notes: list[Finding] = field(default_factory=list[Finding])
    """All notes but unreferenced objects, of which there may be millions."""
    unreferenced: ObjectList = field(default_factory=ObjectList)
    """Objects that no session refers to, with their sizes. Legal; a scan never removes one."""
    logs_complete: bool = True
    """Every log was read to its end. If not, what is called unreferenced may be in use."""
    subset: tuple[int, int] | None = None
    deep: bool = False
    resumed: Resumed | None = None
    objects: int = 0
    """Objects read, whatever the outcome; those of an interrupted scan included."""
    bytes_read: int = 0
    """By this scan alone."""
    sessions: int = 0
    """Session logs read."""
    events: int = 0
    references: int = 0
    """References met in those events, repetitions included."""
    elapsed_s: float = 0.0

    @property
    def clean(self) -> bool:
        return not self.findings

    @property
    def worst(self) -> Kind | None:
        """Kind of the gravest fault (corrupt before missing before mismatch), None if clean."""
        return min((finding.kind for finding in self.findings), key=_rank, default=None)

    def counts(self) -> dict[Kind, int]:
        """How many of each kind there are, faults first; kinds without any are left out."""
        counts = dict.fromkeys(Kind, 0)
        for finding in (*self.findings, *self.notes):
            counts[finding.kind] += 1
        counts[Kind.UNREFERENCED] += len(self.unreferenced)
        return {kind: count for kind, count in counts.items() if count}

    def all_notes(self) -> Iterator[Finding]:
        """Every note, unreferenced objects one by one among them."""
        for digest, size_bytes in self.unreferenced:
            yield Finding(
                kind=Kind.UNREFERENCED,
                what="no session refers to this object",
                digest=digest,
                size_bytes=size_bytes,
            )
        yield from self.notes

    def finish(self, root: str) -> None:
        """Put findings and notes into their stable form and order: kind, then place.

        Paths below `root` become relative to it, so that two copies of a store report alike.
        """
        for found in (self.findings, self.notes):
            found[:] = [
                replace(finding, path=finding.path.removeprefix(root)) if finding.path else finding
                for finding in found
            ]
            found.sort(key=_order)

    def to_json(self) -> dict[str, Any]:
        """JSON-ready; the names are stable, the lists sorted.

        Some 400 bytes of memory for each object that nothing refers to: `json_parts` has bounded
        memory. Raises UnavailableError if a temporary file of `unreferenced` cannot be read.
        """
        whole = self._json_without_list()
        whole["unreferenced"]["list"] = list(map(_object_to_json, self.unreferenced))
        return whole

    def json_parts(self, encode: Callable[[Any], bytes]) -> Iterator[bytes]:
        """`to_json()` as `encode` writes JSON without blanks, in pieces of bounded memory.

        Bounded in the number of objects that nothing refers to. Raises as `to_json`.
        """
        yield encode(self._json_without_list()).removesuffix(_LIST_END)
        comma = b""
        for start in range(0, len(self.unreferenced), _PART_OBJECTS):
            some = self.unreferenced[start : start + _PART_OBJECTS]
            yield comma + encode(list(map(_object_to_json, some)))[1:-1]
            comma = b","
        yield _LIST_END

    def _json_without_list(self) -> dict[str, Any]:
        """The list of unreferenced objects is the last thing in it, and empty."""
        return {
            "clean": self.clean,
            "worst": None if self.worst is None else self.worst.value,
            "subset": None if self.subset is None else list(self.subset),
            "deep": self.deep,
            "resumed": None if self.resumed is None else self.resumed.to_json(),
            "objects": self.objects,
            "bytes_read": self.bytes_read,
            "sessions": self.sessions,
            "events": self.events,
            "references": self.references,
            "logs_complete": self.logs_complete,
            "elapsed_s": round(self.elapsed_s, 3),
            "counts": {kind.value: count for kind, count in self.counts().items()},
            "findings": [finding.to_json() for finding in self.findings],
            "notes": [note.to_json() for note in self.notes],
            "unreferenced": {
                "objects": len(self.unreferenced),
                "size_bytes": self.unreferenced.size_bytes,
                "list": [],
            },
        }


_LIST_END = b"]}}"
_PART_OBJECTS = 1024


def _object_to_json(each: tuple[Digest, int]) -> dict[str, str | int]:
    digest, size_bytes = each
    return {"digest": str(digest), "size_bytes": size_bytes}


_RANKS = {kind: rank for rank, kind in enumerate(Kind)}


def _rank(kind: Kind) -> int:
    return _RANKS[kind]


def _order(finding: Finding) -> tuple[int, str, str, str, int, tuple[Use, ...]]:
    return (
        _RANKS[finding.kind],
        finding.session or "",
        finding.digest.hex if finding.digest else "",
        finding.path or "",
        finding.offset_bytes or 0,
        finding.uses[:1],
    )
