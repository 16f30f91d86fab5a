"""Quarantine: bad bytes moved aside, each with a note that says why.

    <64 hex>-<random>         the bytes as they were found under that digest
    <64 hex>-<random>.json    when, found by whom, expected and actual digest, size

The note comes first, so that there are no unexplained bytes after a crash; a note without bytes
is what a crash in between leaves. Nothing here is ever removed or read back by the store itself.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from attachstore.digest import Digest
from attachstore.disk import Disk, ensure_directory, layout_errors
from attachstore.errors import StoreLayoutError
from attachstore.objects.backend import QuarantineNote
from attachstore.objects.file_object import FileObject, open_object
from attachstore.objects.staging import Staging

_NAME = re.compile(r"([0-9a-f]{64})-[0-9a-f]{16}(\.json)?")


class Quarantine:
    """The quarantine directory of one store. Methods raise OSError."""

    def __init__(self, disk: Disk, directory: Path, staging: Staging) -> None:
        self._disk = disk
        self._staging = staging
        self.directory = directory

    def prepare(self, digest: Digest, note: QuarantineNote) -> Path:
        """Write the note; returns the name that is free for the bytes. Not synced yet."""
        path = self.directory / f"{digest.hex}-{secrets.token_hex(8)}"
        text = json.dumps(
            {
                "when": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                "found_by": note.found_by,
                "expected": note.expected,
                "actual": note.actual,
                "size_bytes": note.size_bytes,
            }
        )
        staged = self._staging.new_file()
        try:
            staged.append(text.encode() + b"\n")
            staged.sync()
            note_path = path.with_name(f"{path.name}.json")
            try:
                with layout_errors(note_path):
                    staged.link_to(note_path)
            except FileNotFoundError:
                # Some tools do not restore empty directories.
                ensure_directory(self._disk, self.directory)
                self._disk.sync_directory(self.directory.parent)
                staged.link_to(note_path)
        finally:
            staged.close()
        return path

    def copies(self, digest: Digest) -> Iterator[FileObject]:
        """Open, one after the other, what was moved aside from `digest`."""
        try:
            names = self._disk.names(self.directory)
        except FileNotFoundError:
            return
        for name in names:
            if digest_in(name) == digest and not name.endswith(".json"):
                with contextlib.suppress(FileNotFoundError, StoreLayoutError):
                    yield open_object(self._disk, self.directory / name)


def digest_in(name: str) -> Digest | None:
    """The digest in the name of quarantined bytes or of their note; None for other names."""
    found = _NAME.fullmatch(name)
    return Digest(found[1]) if found else None
