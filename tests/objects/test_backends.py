"""Every medium passes the conformance suite, the file system also where it lacks two calls."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from attachstore.digest import Digest
from attachstore.disk import Disk
from attachstore.objects.backend import ObjectBackend
from attachstore.objects.filesystem import FilesystemBackend
from attachstore.objects.memory import MemoryBackend
from tests.conformance.object_backend import ObjectBackendConformance
from tests.objects.samples import PlainDisk


class TestMemoryBackend(ObjectBackendConformance):
    def make(self, tmp_path: Path) -> ObjectBackend:
        return MemoryBackend()

    def damage(self, backend: ObjectBackend, digest: Digest, data: bytes) -> None:
        cast("MemoryBackend", backend).objects[digest] = data

    def remove(self, backend: ObjectBackend, digest: Digest) -> None:
        del cast("MemoryBackend", backend).objects[digest]


class TestFilesystemBackend(ObjectBackendConformance):
    def disk(self) -> Disk:
        return Disk()

    @pytest.fixture
    def backend(self, memory_path: Path) -> ObjectBackend:
        return self.make(memory_path)

    def make(self, tmp_path: Path) -> ObjectBackend:
        return FilesystemBackend.create(tmp_path / "store", self.disk())

    def damage(self, backend: ObjectBackend, digest: Digest, data: bytes) -> None:
        path = cast("FilesystemBackend", backend).path(digest)
        path.chmod(0o644)
        path.write_bytes(data)
        path.chmod(0o444)

    def remove(self, backend: ObjectBackend, digest: Digest) -> None:
        cast("FilesystemBackend", backend).path(digest).unlink()


class TestFilesystemBackendOnAPlainDisk(TestFilesystemBackend):
    def disk(self) -> Disk:
        return PlainDisk()
