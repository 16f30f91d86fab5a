"""Where files without a name are used, and where a power cut would lose them."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from attachstore import AdmissionPolicy, blocking, unnamed
from attachstore.disk import Disk
from tests.faults import RecordingDisk

_really_forgets_counts = unnamed.forgets_counts  # conftest replaces it


@pytest.fixture
def proc(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What /proc/fs/ext4 and /proc/fs/jbd2 list, and a disk vdb1 under every path."""
    listed = {"/proc/fs/ext4": ["vda", "vdb1"], "/proc/fs/jbd2": ["vdb1-8"]}

    def names(path: str) -> list[str]:
        return listed[path]

    def target(_path: str) -> str:
        return "../../devices/pci0/virtio1/block/vdb1"

    monkeypatch.setattr(os, "listdir", names)
    monkeypatch.setattr(os, "readlink", target)
    unnamed._is_journal_less.cache_clear()
    return listed


class TestWhatIsKnownOfTheFileSystem:
    def test_ext4_with_a_journal_keeps_the_count_of_names(
        self, proc: dict[str, list[str]], tmp_path: Path
    ) -> None:
        assert not _really_forgets_counts(tmp_path)

    def test_ext4_without_a_journal_forgets_it(
        self, proc: dict[str, list[str]], tmp_path: Path
    ) -> None:
        """Rig 6: on about 50 of 330 disks a power cut had taken what was acknowledged."""
        proc["/proc/fs/jbd2"] = ["vda-8"]

        assert _really_forgets_counts(tmp_path)

    def test_another_file_system_is_not_asked_for_a_journal(
        self, proc: dict[str, list[str]], tmp_path: Path
    ) -> None:
        proc["/proc/fs/ext4"] = ["vda"]
        proc["/proc/fs/jbd2"] = []

        assert not _really_forgets_counts(tmp_path)

    def test_nothing_is_assumed_where_nothing_can_be_told(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """A container may have no /sys, a store no directory yet."""

        def refuse(path: str) -> str:
            raise FileNotFoundError(path)

        monkeypatch.setattr(os, "readlink", refuse)
        unnamed._is_journal_less.cache_clear()

        assert not _really_forgets_counts(tmp_path)
        assert not _really_forgets_counts(tmp_path / "absent")

    def test_another_file_system_under_the_same_number_is_asked_anew(
        self, proc: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """Loop devices are used again and again."""
        assert not _really_forgets_counts(tmp_path)
        proc["/proc/fs/jbd2"] = []

        def of_another(_path: Path) -> SimpleNamespace:
            return SimpleNamespace(f_fsid=1)

        monkeypatch.setattr(os, "statvfs", of_another)

        assert _really_forgets_counts(tmp_path)


def test_where_counts_are_forgotten_no_file_is_linked_that_had_no_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Objects, logs and databases have a temporary name when they are synced."""

    def forgets(_directory: Path) -> bool:
        return True

    monkeypatch.setattr(unnamed, "forgets_counts", forgets)

    for medium in ("jsonl", "sqlite"):
        disk = RecordingDisk(tmp_path, methods=("open_temporary", "link_open_file", "link"))
        root = tmp_path / medium
        with blocking.Store.open(
            root, policy=AdmissionPolicy.any(), sessions=medium, disk=disk
        ) as store:
            session = store.sessions.create("s-1")
            session.append("message", {"file": store.attach(b"an attachment\n")})
            session.close()
            if medium == "jsonl":
                store.sessions.seal("s-1")

        used = {method for method, _ in disk.trace}
        assert used == {"link"}, medium


def test_a_journaled_file_system_leaves_no_temporary_names(tmp_path: Path) -> None:
    """The usual way: what dies with its writer need not be swept."""
    assert unnamed.unnamed_files_last(Disk(), tmp_path)
