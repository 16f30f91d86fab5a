"""The steps of a conversion on a disk that loses what is not synced, each for itself.

A cut in the middle may leave a name on both sides of a rename, so what a later conversion clears
must be durably away from there. Each test turns red without one sync (tests/rigs, rig 11).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from attachstore import layout
from attachstore.conversion.places import (
    clear_converting,
    has_the_store_alone,
    move_in,
    put_aside,
    start_converting,
)
from attachstore.conversion.work import convert
from attachstore.disk import Disk, write_all
from attachstore.errors import SessionBusyError, StoreForeignError
from attachstore.lock import acquire
from attachstore.opening import create_medium
from tests.faults import PowerLossDisk, RecordingDisk

DISK = Disk()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    (root / "staging").mkdir(parents=True)
    create_medium("jsonl", root, DISK)
    layout.write_marker(DISK, root, sessions="jsonl")
    return root


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_what_the_store_says_is_durable_before_it_is_converted(root: Path, tmp_path: Path) -> None:
    """Another conversion was killed between its last rename and the sync of it."""
    marker = layout.read_marker(DISK, root)
    assert marker is not None
    disk = PowerLossDisk(root)
    descriptor = disk.create(root / "staging" / "marker", 0o644)
    text = (root / layout.MARKER).read_text().replace("jsonl", "sqlite")
    write_all(disk, descriptor, text.encode(), 0)
    disk.sync_file(descriptor)
    disk.close(descriptor)
    disk.rename(root / "staging" / "marker", root / layout.MARKER)

    with has_the_store_alone(disk, root):
        for state in disk.crash_states(into=tmp_path):
            found = layout.read_marker(DISK, state)
            assert found is not None
            assert found.sessions == "sqlite"


def test_nobody_writes_while_a_conversion_has_the_store(root: Path) -> None:
    medium_lock = root / layout.LOCKS / layout.MEDIUM_LOCK
    with has_the_store_alone(DISK, root):
        assert acquire(DISK, medium_lock, shared=True) is None
    writer = acquire(DISK, medium_lock, shared=True)
    assert writer is not None
    with pytest.raises(SessionBusyError), has_the_store_alone(DISK, root):
        pass
    writer.release()


def test_what_is_moved_in_is_durable_and_durably_gone_from_where_it_was_made(
    root: Path, tmp_path: Path
) -> None:
    place = start_converting(DISK, root)
    (place / "sessions.db").write_bytes(b"new")
    disk = PowerLossDisk(root)

    move_in(disk, root, "sqlite")

    for state in disk.crash_states(into=tmp_path):
        assert (state / "sessions.db").read_bytes() == b"new"
        assert names(state / "converting") == []


def test_what_is_put_aside_is_durable_and_durably_gone_from_where_it_was(
    root: Path, tmp_path: Path
) -> None:
    (root / "sessions.db").write_bytes(b"old")
    power = PowerLossDisk(root)
    disk = RecordingDisk(root, disk=power)

    kept = put_aside(disk, root, "sqlite")

    assert kept is not None
    for state in power.crash_states(into=tmp_path):
        (place,) = (state / "converted").iterdir()
        assert (place / "sessions.db").read_bytes() == b"old"
        assert not (state / "sessions.db").exists()
    directory = str(kept.relative_to(root))
    assert [step for step in disk.trace if step[0] != "rename"] == [
        ("make_directory", "converted"),
        ("sync_directory", "."),  # a rename into a directory that is gone loses a file
        ("make_directory", directory),
        ("sync_directory", "converted"),
        ("sync_directory", directory),
        ("sync_directory", "."),
    ]


def test_what_was_cleared_does_not_come_back(root: Path, tmp_path: Path) -> None:
    start_converting(DISK, root)
    disk = PowerLossDisk(root)

    clear_converting(disk, root)

    for state in disk.crash_states(into=tmp_path):
        assert not (state / "converting").exists()


def test_a_new_database_is_on_the_disk_before_it_is_proven_and_moved(root: Path) -> None:
    """What is proven is what the medium gives back; its name in its place is durable then."""
    disk = RecordingDisk(root, methods={"sync_file", "drop_cache", "sync_directory", "rename"})

    convert(disk, root, "sqlite")

    end = disk.trace.index(("rename", "converting/sessions.db sessions.db"))
    before = [step for step in disk.trace[:end] if step[1] != "."]
    assert before[-3:] == [
        ("sync_file", "converting/sessions.db"),
        ("drop_cache", "converting/sessions.db"),
        ("sync_directory", "converting"),
    ]


def test_somebodys_documents_are_not_converted(tmp_path: Path) -> None:
    (tmp_path / "thesis.odt").write_bytes(b"x")

    with pytest.raises(StoreForeignError):
        convert(DISK, tmp_path, "sqlite")
