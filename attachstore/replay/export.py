"""ExportWriter: every attachment of a session as a file with a safe name, and a manifest.

   DIR/photo.jpg  DIR/photo (2).jpg  …  DIR/manifest.json

(1) Nothing is written outside DIR, and nothing in it is replaced: DIR is new or empty at the
    start, and no name is given twice (`filenames`).
(2) A file holds verified bytes and appears whole. The same object under the same name is
    written once, however often the session refers to it.
(3) manifest.json is written last, when all other names are durable. A folder without it is an
    export that did not finish, also after a power cut.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from attachstore.destination import destination_errors
from attachstore.digest import Digest
from attachstore.disk import Disk, remove_quietly, storage_errors
from attachstore.errors import AttachstoreError, DestinationError
from attachstore.layout import refuse_inside
from attachstore.objects.store import ObjectStore
from attachstore.objects.stream import VerifiedStream
from attachstore.replay.filenames import FileNames
from attachstore.replay.output import Draft
from attachstore.replay.steps import Outcome, Resolved, Step, drain, outcome_of
from attachstore.sessions.event import SessionView
from attachstore.threads import CancelFlag

MANIFEST = "manifest.json"
MANIFEST_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """What was written."""

    directory: Path
    files: int
    size_bytes: int
    attachments: int
    broken: int
    """Attachments that could not be exported; the manifest says why."""
    renamed: int
    """Attachments whose file is called otherwise than they are."""


class ExportWriter:
    """Exports steps as they come. A context manager: it removes all again unless `publish` ran."""

    def __init__(
        self,
        directory: Path,
        view: SessionView,
        objects: ObjectStore,
        *,
        at: int | None = None,
        disk: Disk | None = None,
        cancel: CancelFlag | None = None,
    ) -> None:
        """Make `directory` if it is not there.

        Raises:
            DestinationError: it holds something, is no folder, lies in a store, or its parent
                does not exist.
        """
        self._directory = directory
        self._objects = objects
        self._disk = disk or Disk()
        self._cancel = cancel
        self._names = FileNames(reserved=(MANIFEST,))
        self._files: dict[tuple[Digest, str | None], str] = {}
        self._ours: list[str] = []
        """Names under which something of ours may lie."""
        self._size_bytes = self._attachments = self._broken = self._renamed = 0
        self._made_directory = _claim(self._disk, directory)
        self._published = False
        try:
            self._manifest = Draft(self._disk, directory)
        except BaseException:
            self._remove_directory()
            raise
        self._manifest.write(_manifest_head(view, at))

    def add(self, step: Step) -> None:
        """Write the step's attachments. An attachment that fails is noted, not raised.

        Raises:
            UnavailableError: DIR cannot be written to.
        """
        for resolved in step.attachments:
            self._add(step, resolved)

    def publish(self) -> ExportReport:
        """Write the manifest; all of the export is durable on return."""
        self._manifest.write(b"\n]}\n")
        self._sync_directory(self._directory)  # the names of what it lists, before it has one
        self._name(self._manifest, MANIFEST)
        self._sync_directory(self._directory)
        if self._made_directory:
            self._sync_directory(self._directory.parent)
        self._published = True
        return ExportReport(
            directory=self._directory,
            files=len(self._files),
            size_bytes=self._size_bytes,
            attachments=self._attachments,
            broken=self._broken,
            renamed=self._renamed,
        )

    def discard(self) -> None:
        """Remove what was written; after `publish` it does nothing."""
        if self._published:
            return
        self._manifest.discard()
        for name in self._ours:
            remove_quietly(self._disk, self._directory / name)
        self._ours.clear()
        self._remove_directory()

    def _sync_directory(self, directory: Path) -> None:
        with storage_errors(directory):
            self._disk.sync_directory(directory)

    def _remove_directory(self) -> None:
        if self._made_directory:
            with contextlib.suppress(OSError):
                self._disk.remove_directory(self._directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.discard()

    def _add(self, step: Step, resolved: Resolved) -> None:
        outcome, error, file = resolved.outcome, resolved.error, None
        if outcome is Outcome.OK:
            file, error = self._written(resolved)
            outcome = outcome_of(error)
        name = resolved.reference.name
        renamed = file is not None and name is not None and file != name
        entry: dict[str, Any] = {
            "seq": step.event.seq,
            "pointer": resolved.pointer,
            "name": name,
            "file": file,
            "renamed": renamed,
            "outcome": outcome,
            "reference": resolved.reference.to_json(),
        }
        if error is not None:
            entry["error"] = {"code": error.code, "message": str(error)}
        separator = b",\n" if self._attachments else b"\n"
        self._manifest.write(separator + _json(entry))
        self._attachments += 1
        self._broken += error is not None
        self._renamed += renamed

    def _written(self, resolved: Resolved) -> tuple[str | None, AttachstoreError | None]:
        """The file that holds the attachment, or why there is none."""
        reference = resolved.reference
        key = reference.digest, reference.name
        known = self._files.get(key)
        if known is not None:
            return known, None
        fallback = f"attachment-{reference.digest.hex[:12]}"
        try:
            stream = self._objects.stream(reference, self._cancel)
        except AttachstoreError as error:
            return None, error
        try:
            file = self._names.give(reference.name, reference.media_type, fallback)
            error = self._copy(stream, file)
        finally:
            stream.close()
        if error is not None:
            return None, error
        self._files[key] = file
        self._size_bytes += reference.size
        return file, None

    def _copy(self, stream: VerifiedStream, file: str) -> AttachstoreError | None:
        """Write all of the stream. Returns what fails in reading, raises what fails in writing."""
        with Draft(self._disk, self._directory) as draft:
            while True:
                try:
                    block = stream.read_block()
                except AttachstoreError as error:
                    return error
                if not block:
                    break
                draft.write(block)
            self._name(draft, file)
        return None

    def _name(self, draft: Draft, file: str) -> None:
        """Give the draft its name. Somebody may write to the folder beside us: their file stays."""
        target = self._directory / file
        with storage_errors(target):
            if not _is_absent(self._disk, target):
                raise DestinationError(
                    where=ascii(str(target))[1:-1],
                    reason="a file of that name has appeared meanwhile",
                )
        self._ours.append(file)  # first, so that it is removed even if publishing fails halfway
        draft.publish(target)


def export(
    steps: Iterable[Step],
    directory: Path,
    view: SessionView,
    objects: ObjectStore,
    *,
    at: int | None = None,
    disk: Disk | None = None,
    cancel: CancelFlag | None = None,
) -> ExportReport:
    """Write every attachment of the `steps` of one `replay` to a new or empty `directory`.

    If the steps end in an error (`log-damaged`), the export is finished with what came before;
    then the error is raised.

    Raises:
        DestinationError: the directory is in use; nothing was written.
        UnavailableError: it could not be written; what was written is removed again.
    """
    with ExportWriter(directory, view, objects, at=at, disk=disk, cancel=cancel) as writer:
        failure = drain(steps, writer.add)
        report = writer.publish()
    if failure is not None:
        raise failure
    return report


def _claim(disk: Disk, directory: Path) -> bool:
    """Make sure of a folder of our own. Whether it was made here; False: it was there, empty."""
    where = ascii(str(directory))[1:-1]
    refuse_inside(disk, directory)
    with storage_errors(directory), destination_errors(directory):
        try:
            disk.make_directory(directory)
        except FileExistsError:
            pass
        except (FileNotFoundError, NotADirectoryError):
            raise DestinationError(where=where, reason="its parent folder does not exist") from None
        else:
            return True
        try:
            is_empty = not disk.names(directory)
        except NotADirectoryError:
            raise DestinationError(where=where, reason="it is not a folder") from None
    if not is_empty:
        raise DestinationError(where=where, reason="the folder is not empty")
    return False


def _is_absent(disk: Disk, path: Path) -> bool:
    try:
        disk.status(path)
    except FileNotFoundError:
        return True
    return False


def _manifest_head(view: SessionView, at: int | None) -> bytes:
    header = view.header
    parent = header.parent
    head = {
        "application": "attachstore",
        "export": MANIFEST_VERSION,
        "session": {
            "id": header.id,
            "created_at": header.created_at,
            "parent": parent and {"id": parent.id, "seq": parent.seq, "chain": parent.chain},
        },
        "at": at,
    }
    return _json(head)[:-1] + b',"attachments":['


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
