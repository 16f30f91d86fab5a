"""Scanning: a store's scan, with the copies of another store and a checkpoint where asked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from attachstore import layout
from attachstore.disk import Disk, ReadOnlyDisk, storage_errors
from attachstore.errors import InvalidConfigurationError, StoreMissingError
from attachstore.integrity.checkpoint import Checkpoint, Subject
from attachstore.integrity.decoding import DeepCheck
from attachstore.integrity.progress import Progress
from attachstore.integrity.report import Finding, Kind, ScanReport
from attachstore.integrity.scan import scan
from attachstore.objects.filesystem import FilesystemBackend
from attachstore.objects.intake_backend import IntakeBackend
from attachstore.objects.store import ObjectStore
from attachstore.opening import StrPath, local_path
from attachstore.sessions.logs import SessionLogs
from attachstore.threads import CancelFlag


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """What a caller asked of a scan."""

    subset: tuple[int, int] | None
    deep: bool
    quarantine: bool
    repair_from: StrPath | None
    rate_bytes_s: float | None
    resume: StrPath | None
    progress: Callable[[Progress], None] | None

    @property
    def changes_the_store(self) -> bool:
        return self.quarantine or self.repair_from is not None


class Scanner:
    """Scans one open store. Making one touches nothing."""

    def __init__(
        self,
        root: Path,
        objects: ObjectStore,
        logs: SessionLogs,
        disk: Disk,
        deep: DeepCheck,
    ) -> None:
        self._root = root
        self._objects = objects
        self._logs = logs
        self._disk = disk
        self._deep = deep

    def scan(self, cancel: CancelFlag, request: ScanRequest, store_id: str) -> ScanReport:
        """Scan as the request says. Blocking. Raises as `Store.scan`."""
        copies_root = None if request.repair_from is None else local_path(request.repair_from)
        copies = None
        if copies_root is not None:
            copies = _open_copies(self._disk, self._root, copies_root)
        try:
            report = scan(
                self._objects,
                self._logs,
                subset=request.subset,
                quarantine=request.quarantine,
                repair_from=copies,
                deep=self._deep if request.deep else None,
                rate_bytes_s=request.rate_bytes_s,
                checkpoint=self._checkpoint(request, store_id, copies_root),
                progress=request.progress,
                cancel=cancel,
                disk=self._disk_of_users(),
            )
        finally:
            if copies is not None:
                copies.close()
        self._note_absent_sessions(report)
        return report

    def _note_absent_sessions(self, report: ScanReport) -> None:
        """Say that there is no place for logs, which to every reader is a store without any.

        A tool that knows no empty directories leaves it out too, so it is no fault.
        """
        place = Path(self._logs.medium.location)
        if not report.objects or not report.logs_complete:
            return
        with storage_errors(place):
            try:
                self._disk.status(place)
            except FileNotFoundError:
                what = "objects are there, and the folder of the session logs is not"
                report.notes.append(
                    Finding(kind=Kind.SESSIONS_ABSENT, what=what, path=ascii(place.name)[1:-1])
                )
                report.finish("")

    def _checkpoint(
        self, request: ScanRequest, store_id: str, copies_root: Path | None
    ) -> Checkpoint | None:
        if request.resume is None:
            return None
        subject = Subject(
            store=store_id,
            root=_place(self._root),
            subset=request.subset,
            deep=request.deep,
            quarantine=request.quarantine,
            repair_from=None if copies_root is None else _place(copies_root),
        )
        disk = self._disk_of_users()
        path = Path(os.path.abspath(request.resume))  # noqa: PTH100
        layout.refuse_inside(disk, path)
        return Checkpoint(path, disk, subject)

    def _disk_of_users(self) -> Disk:
        """For files that are not the store's, which may be open for reading only."""
        return Disk() if isinstance(self._disk, ReadOnlyDisk) else self._disk


def _open_copies(disk: Disk, root: Path, copies_root: Path) -> ObjectStore:
    """The objects of the store at `copies_root`, for reading only."""
    reader = ReadOnlyDisk()
    if layout.read_marker(reader, copies_root) is None:
        raise StoreMissingError(where=_place(copies_root))
    with storage_errors(copies_root):
        ours, theirs = disk.status_followed(root), reader.status_followed(copies_root)
    if (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino):
        reason = "it is the store that is to be repaired"
        raise InvalidConfigurationError(where=_place(copies_root), key="repair_from", reason=reason)
    files = FilesystemBackend(copies_root, reader)
    return ObjectStore(IntakeBackend(files, reader, intake=False))


def _place(path: Path) -> str:
    return ascii(str(path))[1:-1]
