"""The intake in front of a store's files: the same medium, and where its objects are when."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import cast
from unittest.mock import Mock

import pytest

from attachstore.digest import Digest
from attachstore.errors import AttachstoreError
from attachstore.objects.backend import ObjectBackend
from attachstore.objects.intake import Intake
from attachstore.objects.intake_backend import IntakeBackend
from tests.conformance.object_backend import ObjectBackendConformance
from tests.objects.intakes import intake_files, opened
from tests.objects.samples import DATA, attachment, make_intake_store, object_path


class TestIntakeBackend(ObjectBackendConformance):
    @pytest.fixture
    def backend(self, memory_path: Path) -> Iterator[ObjectBackend]:
        backend = self.make(memory_path)
        yield backend
        with contextlib.suppress(AttachstoreError):  # a test may have taken its disk away
            backend.close()

    def make(self, tmp_path: Path) -> ObjectBackend:
        return cast("IntakeBackend", make_intake_store(tmp_path / "store").backend)

    def damage(self, backend: ObjectBackend, digest: Digest, data: bytes) -> None:
        path = self.file(backend, digest)
        path.chmod(0o644)
        path.write_bytes(data)
        path.chmod(0o444)

    def remove(self, backend: ObjectBackend, digest: Digest) -> None:
        self.file(backend, digest).unlink()

    def file(self, backend: ObjectBackend, digest: Digest) -> Path:
        """The object's file: the test's hand waits until there is one."""
        cast("IntakeBackend", backend).drain()
        return cast("IntakeBackend", backend).path(digest)


def test_a_close_that_was_interrupted_can_be_repeated(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it has given the objects their files; the files must still be open for that."""
    with opened(root) as store:
        store.commit(attachment())
        with monkeypatch.context() as interrupted:
            interrupted.setattr(Intake, "close", Mock(side_effect=KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                store.close()

        store.close()

        assert object_path(root).read_bytes() == DATA
        assert intake_files(root) == []
