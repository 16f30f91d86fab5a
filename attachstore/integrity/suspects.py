"""Suspects: faults of objects on their way to findings, while their uses are collected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from attachstore.digest import Digest
from attachstore.errors import AttachstoreError, ObjectCorruptError, StoreLayoutError
from attachstore.integrity.claims import Claim
from attachstore.integrity.decoding import Decoded
from attachstore.integrity.report import USES_MAX, Finding, Kind, Use
from attachstore.reference import Reference

_FROM_USES = frozenset(
    {Kind.DANGLING_REFERENCE, Kind.HEADER_MISMATCH, Kind.NOT_DECODABLE, Kind.NOT_DECODED}
)
"""Kinds that are nothing without a log that refers to the object."""


@dataclass(slots=True)
class Suspect:
    """A fault of one object, or a note about one that had one.

    `claim`: only references that say this are affected.
    """

    finding: Finding
    claim: Claim | None = None
    unmended: str = ""
    """Why a copy of the store was of no help."""
    uses: list[Use] = field(default_factory=list[Use])
    uses_total: int = 0
    described: str = ""
    """What a reference to the object says it is."""

    @property
    def is_nothing_without_uses(self) -> bool:
        return self.finding.kind in _FROM_USES

    @classmethod
    def missing(cls, digest: Digest, hint: str | None) -> Suspect:
        """The logs refer to it, and nothing lies under its name."""
        return cls(Finding(kind=Kind.DANGLING_REFERENCE, what="", digest=digest, hint=hint))

    @classmethod
    def bad(cls, digest: Digest, error: AttachstoreError, *, quarantined: bool = False) -> Suspect:
        """Reading it ended in `error`, which is not that it is missing."""
        if isinstance(error, ObjectCorruptError):
            what = f"object {digest} holds {error.size_bytes} bytes that hash to {error.actual}"
            kind, size_bytes = Kind.OBJECT_CORRUPT, error.size_bytes
        elif isinstance(error, StoreLayoutError):
            what = f"no plain file lies under the name of object {digest}: {error.reason}"
            kind, size_bytes = Kind.STORE_LAYOUT, None
        else:
            what = f"object {digest} cannot be read: {error}"
            kind, size_bytes = Kind.OBJECT_UNREADABLE, None
        finding = Finding(
            kind=kind,
            what=what.rstrip("."),
            digest=digest,
            path=error.where,
            size_bytes=size_bytes,
            quarantined=quarantined,
        )
        return cls(finding)

    @classmethod
    def mismatch(
        cls, digest: Digest, claim: Claim, differences: tuple[tuple[str, str, str], ...]
    ) -> Suspect:
        """It is whole, and some references say something else about it."""
        described = ", ".join(
            f"{name} logged {logged}, actual {actual}" for name, logged, actual in differences
        )
        finding = Finding(
            kind=Kind.HEADER_MISMATCH,
            what=f"a reference disagrees with object {digest}: {described}",
            digest=digest,
            differences=differences,
        )
        return cls(finding, claim)

    @classmethod
    def undecoded(cls, digest: Digest, claim: Claim, decoded: Decoded) -> Suspect:
        """It is whole; a decoder refused it, or none could be asked."""
        if decoded.defect is not None:
            what = f"object {digest} does not decode as {claim.media_type}: {decoded.defect}"
            kind = Kind.NOT_DECODABLE
        else:
            what = f"object {digest} was not decoded: {decoded.unknown}"
            kind = Kind.NOT_DECODED
        return cls(Finding(kind=kind, what=what.rstrip("."), digest=digest), claim)

    def mended(self, how: str) -> Suspect:
        """The note that takes the place of the fault."""
        was = self.finding.what or f"object {self.finding.digest} was missing"
        return Suspect(Finding(kind=Kind.MENDED, what=f"{was}; {how}", digest=self.finding.digest))

    def take_use(self, claim: Claim, use: Use) -> None:
        """Count a place that refers to the object, saying that."""
        if self.claim is not None and self.claim != claim:
            return
        self.uses_total += 1
        if len(self.uses) < USES_MAX:
            self.uses.append(use)
        self.described = f"{claim.media_type}, {claim.size} bytes"

    def complete(self) -> Finding:
        """The finding with all that has been collected."""
        what = self.finding.what
        if self.finding.kind is Kind.DANGLING_REFERENCE:
            times = "once" if self.uses_total == 1 else f"{self.uses_total} times"
            about = f" ({self.described})" if self.described else ""
            what = f"the logs refer {times} to {self.finding.digest}{about}, which is not there"
        if self.unmended:
            what = f"{what}; {self.unmended}"
        return replace(
            self.finding, what=what, uses=tuple(sorted(self.uses)), uses_total=self.uses_total
        )


class Suspects:
    """All of them, by digest."""

    def __init__(self, *, deep: bool = False) -> None:
        """`deep`: claims have frames and pages."""
        self._deep = deep
        self._by_digest: dict[Digest, list[Suspect]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_digest)

    def has_fault(self, digest: Digest) -> bool:
        return any(it.finding.kind.is_fault for it in self._by_digest.get(digest, ()))

    def add(self, suspect: Suspect) -> None:
        """A second suspect that would say the same is left out."""
        digest = suspect.finding.digest
        assert digest is not None  # noqa: S101 - for the type checker: suspects are objects
        known = self._by_digest.setdefault(digest, [])
        if not any(_same(suspect, other) for other in known):
            known.append(suspect)

    def take_use(self, reference: Reference, use: Use) -> None:
        """Count a place that refers to an object, if it is one of them."""
        for suspect in self._by_digest.get(reference.digest, ()):
            suspect.take_use(Claim.of(reference, deep=self._deep), use)

    def findings(self, *, complete: bool) -> Iterator[Finding]:
        """What remains. `complete`: all logs could be read to look for uses.

        A reference that was in a log before and is in none any more belonged to a session that
        has been deleted meanwhile: no finding.
        """
        for suspects in self._by_digest.values():
            for suspect in suspects:
                if suspect.uses_total or not (complete and suspect.is_nothing_without_uses):
                    yield suspect.complete()


def _same(one: Suspect, other: Suspect) -> bool:
    if one.finding.kind is not other.finding.kind:
        return False
    if one.finding.kind is Kind.OBJECT_MISPLACED:
        return one.finding.path == other.finding.path
    return one.claim == other.claim
