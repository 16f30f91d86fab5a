"""List a medium for a scan: the objects into the table, everything else into the report."""

from __future__ import annotations

from attachstore.digest import Digest
from attachstore.integrity.report import Finding, Kind, ScanReport
from attachstore.integrity.suspects import Suspect, Suspects
from attachstore.integrity.table import ObjectTable
from attachstore.objects.backend import Entry, EntryKind

_WRITE_BITS = 0o222
_PREFIX_DIGITS = 16


def in_subset(digest: Digest, subset: tuple[int, int] | None) -> bool:
    """Whether an object is in the K-th of N parts, equal ranges of all possible digests."""
    if subset is None:
        return True
    part, parts = subset
    return int(digest.hex[:_PREFIX_DIGITS], 16) * parts >> 4 * _PREFIX_DIGITS == part - 1


def check_subset(subset: tuple[int, int] | None) -> None:
    """Raises ValueError unless `subset` is None or (K, N) with 1 <= K <= N."""
    match subset:
        case None:
            return
        case (int(part), int(parts)) if 1 <= part <= parts:
            return
        case _:
            message = f"subset must be (K, N) with 1 <= K <= N: {subset!r}"
            raise ValueError(message)


class Lister:
    """Sorts the entries of a medium into what is to be checked and what is to be told."""

    def __init__(
        self,
        table: ObjectTable,
        suspects: Suspects,
        report: ScanReport,
        subset: tuple[int, int] | None,
    ) -> None:
        self._table = table
        self._suspects = suspects
        self._report = report
        self._subset = subset

    def take(self, entry: Entry) -> None:
        """Look at one entry. Entries under digests outside the subset are passed over."""
        if entry.digest is not None and not in_subset(entry.digest, self._subset):
            return
        if entry.kind is EntryKind.OBJECT:
            assert entry.digest is not None  # noqa: S101 - for the type checker
            self._table.append(entry.digest, entry.size_bytes)
            if entry.mode is not None and entry.mode & _WRITE_BITS:
                what = f"the object's mode is {entry.mode:04o}; nobody should be able to write it"
                self._add(Kind.WRITABLE_OBJECT, entry, what)
            return
        kind, what = _KINDS[entry.kind]
        if entry.kind is EntryKind.STAGING and not entry.stale:
            return  # a writer is at work, or may be
        self._add(kind, entry, what if entry.reason is None else f"{what}: {entry.reason}")

    def _add(self, kind: Kind, entry: Entry, what: str) -> None:
        found = Finding(
            kind=kind,
            what=what,
            digest=entry.digest,
            path=entry.path,
            size_bytes=entry.size_bytes,
        )
        if not kind.is_fault:
            self._report.notes.append(found)
        elif entry.digest is not None:
            self._suspects.add(Suspect(found))
        else:
            self._report.findings.append(found)


_KINDS = {
    EntryKind.IRREGULAR: (
        Kind.STORE_LAYOUT,
        "something that is no plain file takes a store's name",
    ),
    EntryKind.MISPLACED: (Kind.OBJECT_MISPLACED, "no reader looks for an object here"),
    EntryKind.FOREIGN: (Kind.FOREIGN_FILE, "no version of attachstore puts this here"),
    EntryKind.STAGING: (Kind.STALE_STAGING, "a writer that is gone left this"),
    EntryKind.QUARANTINE: (Kind.QUARANTINE_CONTENT, "this was moved aside"),
    EntryKind.UNREADABLE: (Kind.DIRECTORY_UNREADABLE, "it cannot be looked at"),
}
