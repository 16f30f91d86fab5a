"""A small store to damage: objects and logs without the facade, on any media."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attachstore.admission.probe import probe
from attachstore.attachment import Attachment, BytesContent
from attachstore.digest import Digest
from attachstore.disk import Disk
from attachstore.integrity import ScanReport, scan
from attachstore.objects.backend import ObjectBackend
from attachstore.objects.filesystem import FilesystemBackend
from attachstore.objects.memory import MemoryBackend
from attachstore.objects.store import ObjectStore
from attachstore.reference import Reference
from attachstore.sessions.data import references_in
from attachstore.sessions.jsonl import JsonlMedium
from attachstore.sessions.logs import SessionLogs
from attachstore.sessions.medium import SessionMedium
from attachstore.sessions.memory import MemoryMedium


def png(width: int = 3, height: int = 2) -> bytes:
    """The front of a PNG, which is all that the probe looks at."""
    header = b"IHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\x02\0\0\0"
    return b"\x89PNG\r\n\x1a\n" + (13).to_bytes(4, "big") + header + b"\0\0\0\0"


@dataclass
class Workshop:
    backend: ObjectBackend
    medium: SessionMedium

    def __post_init__(self) -> None:
        self.objects = ObjectStore(self.backend)
        self.logs = SessionLogs(self.medium, lambda _reference: None)

    def put(
        self,
        data: bytes,
        media_type: str = "text/plain",
        name: str | None = None,
        *,
        frames: int | None = None,
        pages: int | None = None,
    ) -> Reference:
        """Commit `data` as if admission had let it in."""
        header = probe(data, media_type)
        assert header is not None
        attachment = Attachment(
            content=BytesContent(data), header=header, frames=frames, pages=pages, name=name
        )
        return self.objects.commit(attachment).reference

    def objects_reference(self, digest: Digest) -> Reference:
        """What the logs say of an object."""
        for summary in self.logs.list():
            for event in self.logs.events(summary.id):
                for _, reference in references_in(event.data):
                    if reference.digest == digest:
                        return reference
        raise LookupError(digest)

    def log(self, session: str, *events: object) -> None:
        """Append events; the session is made if it is not there, and let go afterwards."""
        known = {summary.id for summary in self.logs.list()}
        writer = self.logs.load(session) if session in known else self.logs.create(session)
        writer.append_many([("message", event) for event in events])
        writer.close()

    def scan(self, *, workers: int | None = 2, **options: Any) -> ScanReport:
        return scan(self.objects, self.logs, workers=workers, **options)


def in_memory() -> Workshop:
    return Workshop(MemoryBackend(), MemoryMedium())


class UnsyncedDisk(Disk):
    """The real disk without the waiting: these tests do not pull the plug."""

    def sync_file(self, descriptor: int) -> None:
        return

    def sync_data(self, descriptor: int) -> None:
        return

    def sync_directory(self, path: Path) -> None:
        return


def on_disk(root: Path) -> Workshop:
    """A store in a directory, made if it is not there."""
    disk = UnsyncedDisk()
    root.mkdir(exist_ok=True)
    JsonlMedium.create(root, disk)
    return Workshop(FilesystemBackend.create(root, disk), JsonlMedium(root, disk))


def bare(root: Path) -> Workshop:
    """As `on_disk`, without the 256 shard directories: each is made when it is needed."""
    for name in ("objects/blake3", "staging", "quarantine", "sessions", "locks"):
        (root / name).mkdir(parents=True)
    return look_at(root, UnsyncedDisk())


def look_at(root: Path, disk: Disk) -> Workshop:
    """A store that is there, through another disk; nothing is made."""
    return Workshop(FilesystemBackend(root, disk), JsonlMedium(root, disk))
