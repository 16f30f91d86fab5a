"""Checkpoint: how far a scan has come, in a file that outlives it.

    write beside ─▶ fsync ─▶ rename over ─▶ fsync the directory

The file is the user's, outside of the store: a scan writes nothing into what it looks at, and
nobody who can write to a store can make a later scan believe that all was well.

Invariants

 (1) The file is whole at every moment: the old one or the new one.
 (2) What it says is covered was read to its end and judged: objects up to a digest, in the order
     of digests. What was found on the way is all in it.
 (3) It is used for the same store, at the same place, with the same options, or not at all.
 (4) A temporary file beside it is held by a lock while its writer lives, so what can be locked
     was left by a kill, and is removed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import secrets
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from attachstore.destination import destination_errors
from attachstore.digest import Digest
from attachstore.disk import (
    Disk,
    is_regular,
    leads_to,
    read_all,
    remove_quietly,
    storage_errors,
    write_all,
)
from attachstore.errors import (
    AttachstoreError,
    DestinationError,
    InvalidConfigurationError,
    InvalidReferenceError,
)
from attachstore.integrity.claims import Claim
from attachstore.integrity.report import Finding, Kind
from attachstore.integrity.suspects import Suspect

FORMAT = 1
_KIND = "attachstore scan"
_BYTES_MAX = 256 << 20
_MODE = 0o600
_PART = ".part"
_log = logging.getLogger("attachstore")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is scanned, and how: two scans with equal subjects may go on with each other's work."""

    store: str
    """The id in attachstore.json."""
    root: str
    subset: tuple[int, int] | None = None
    deep: bool = False
    quarantine: bool = False
    repair_from: str | None = None

    def to_json(self) -> dict[str, Any]:
        return json.loads(json.dumps(asdict(self)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """What an interrupted scan has done."""

    started_at: str
    upto: Digest | None = None
    """Every object listed up to this digest, inclusive, was checked."""
    bytes_read: int = 0
    """For that; second readings included."""
    found: tuple[Suspect, ...] = ()
    """Everything that was wrong with objects, also beyond `upto`."""

    @classmethod
    def nothing(cls) -> Covered:
        return cls(
            started_at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "started_at": self.started_at,
            "upto": None if self.upto is None else str(self.upto),
            "bytes_read": self.bytes_read,
            "found": [_suspect_to_json(suspect) for suspect in self.found],
        }

    @classmethod
    def from_json(cls, value: Any) -> Covered:
        """Raises LookupError, TypeError, ValueError or InvalidReferenceError for anything else."""
        upto = value["upto"]
        return cls(
            started_at=_checked(str, value["started_at"]),
            upto=None if upto is None else Digest.parse(_checked(str, upto)),
            bytes_read=_checked(int, value["bytes_read"]),
            found=tuple(_suspect_from_json(each) for each in _checked(list, value["found"])),
        )


class Checkpoint:
    """The file at `path`, for one subject."""

    def __init__(self, path: Path, disk: Disk, subject: Subject) -> None:
        """Touches nothing. The directory of `path` must be there when it is first saved."""
        self.path = path
        self._disk = disk
        self._subject = subject

    def load(self) -> Covered | None:
        """What was covered; None if no scan was interrupted.

        Raises:
            InvalidConfigurationError: the file is damaged, or of another store or other options.
            DestinationError: no file can be at `path`.
        """
        with storage_errors(self.path), destination_errors(self.path):
            try:
                text = self._read()
            except FileNotFoundError:
                return None
        try:
            value = json.loads(text)
            kind, subject = (value["kind"], value["format"]), value["subject"]
            covered = Covered.from_json(value["covered"]) if kind == (_KIND, FORMAT) else None
        except (LookupError, TypeError, ValueError, RecursionError, InvalidReferenceError):
            raise self._refusal("it is damaged, or no checkpoint of a scan") from None
        if covered is None:
            raise self._refusal("it is no checkpoint that this attachstore reads")
        if subject != self._subject.to_json():
            raise self._refusal(_difference(subject, self._subject.to_json()))
        return covered

    def save(self, covered: Covered) -> None:
        """Replace the file, durably. Raises UnavailableError and DestinationError."""
        value = {
            "kind": _KIND,
            "format": FORMAT,
            "subject": self._subject.to_json(),
            "covered": covered.to_json(),
        }
        temporary = self.path.with_name(f"{self.path.name}.{secrets.token_hex(8)}{_PART}")
        with storage_errors(self.path), destination_errors(self.path):
            try:
                descriptor = self._disk.create(temporary, _MODE)
            except FileNotFoundError:
                reason = "there is no such directory"
                raise DestinationError(where=_place(self.path.parent), reason=reason) from None
            try:
                self._disk.lock(descriptor, exclusive=True, wait=False)
                write_all(self._disk, descriptor, json.dumps(value).encode() + b"\n", 0)
                self._disk.sync_file(descriptor)
                self._disk.rename(temporary, self.path)
            except BaseException:
                remove_quietly(self._disk, temporary)
                raise
            finally:
                self._disk.close(descriptor)
            self._disk.sync_directory(self.path.parent)

    def remove(self) -> None:
        """The scan is over. Raises UnavailableError."""
        with storage_errors(self.path):
            with contextlib.suppress(FileNotFoundError):
                self._disk.unlink(self.path)
            self._disk.sync_directory(self.path.parent)

    def sweep(self) -> None:
        """Remove what killed scans left beside the file. What cannot be removed stays."""
        with contextlib.suppress(OSError):
            for name in self._disk.names(self.path.parent):
                if name.startswith(f"{self.path.name}.") and name.endswith(_PART):
                    self._remove_abandoned(self.path.with_name(name))

    def _remove_abandoned(self, path: Path) -> None:
        descriptor = self._disk.open_read(path)
        try:
            self._disk.lock(descriptor, exclusive=True, wait=False)
            if leads_to(self._disk, path, descriptor):
                self._disk.unlink(path)
        except BlockingIOError:
            return  # another scan is writing it
        finally:
            self._disk.close(descriptor)

    def _read(self) -> bytes:
        descriptor = self._disk.open_read(self.path)
        try:
            status = self._disk.status_open(descriptor)
            if not is_regular(status) or status.st_size > _BYTES_MAX:
                raise self._refusal("it is no checkpoint of a scan")
            return read_all(self._disk, descriptor, status.st_size)
        finally:
            self._disk.close(descriptor)

    def _refusal(self, reason: str) -> InvalidConfigurationError:
        return InvalidConfigurationError(
            where=_place(self.path),
            key="resume",
            reason=f"{reason}. Remove {_place(self.path)} to begin again",
        )


class Keeper:
    """Saves what a scan has covered, now and then. Used by the scanning thread alone."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._broken = False

    def save(self, covered: Covered) -> None:
        """As far as the medium lets us: the scan is worth more than its checkpoint.

        After a failure the file is left as it is, which is as far as can be resumed from.
        """
        if self._broken:
            return
        try:
            self._checkpoint.save(covered)
        except AttachstoreError as error:
            self._broken = True
            _log.warning("the scan goes on, but its checkpoint could not be saved: %s", error)


def _suspect_to_json(suspect: Suspect) -> dict[str, Any]:
    found = suspect.finding
    return {
        "kind": found.kind.value,
        "what": found.what,
        "digest": str(found.digest),
        "path": found.path,
        "size_bytes": found.size_bytes,
        "differences": [list(each) for each in found.differences],
        "quarantined": found.quarantined,
        "hint": found.hint,
        "unmended": suspect.unmended,
        "claim": None if suspect.claim is None else asdict(suspect.claim),
    }


def _suspect_from_json(value: Any) -> Suspect:
    finding = Finding(
        kind=Kind(value["kind"]),
        what=_checked(str, value["what"]),
        digest=Digest.parse(_checked(str, value["digest"])),
        path=_optional(str, value["path"]),
        size_bytes=_optional(int, value["size_bytes"]),
        differences=tuple(_difference_from_json(each) for each in value["differences"]),
        quarantined=_checked(bool, value["quarantined"]),
        hint=_optional(str, value["hint"]),
    )
    claim = None if value["claim"] is None else Claim(**value["claim"])
    return replace(Suspect(finding, claim), unmended=_checked(str, value["unmended"]))


def _difference_from_json(value: Any) -> tuple[str, str, str]:
    name, logged, actual = (_checked(str, each) for each in value)
    return name, logged, actual


def _checked(kind: type[Any], value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


def _optional(kind: type[Any], value: Any) -> Any:
    return None if value is None else _checked(kind, value)


def _difference(theirs: Any, ours: dict[str, Any]) -> str:
    """Which part of the subject is another, in words."""
    known = cast("dict[str, Any]", theirs) if isinstance(theirs, dict) else {}
    if known.get("store") != ours["store"] or known.get("root") != ours["root"]:
        return f"it is of another store, {ascii(known.get('root'))[:200]}"
    options = [name for name in ours if known.get(name) != ours[name]]
    shown = ", ".join(f"{name} was {ascii(known.get(name))[:100]}" for name in options)
    return f"it is of a scan with other options: {shown or 'unknown ones'}"


def _place(path: Path) -> str:
    return ascii(str(path))[1:-1]
