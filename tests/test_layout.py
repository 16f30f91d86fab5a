"""attachstore.json: a store is made whole, once, and never in somebody's documents."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from pathlib import Path

import pytest

from attachstore.disk import Disk
from attachstore.errors import (
    AttachstoreError,
    InvalidConfigurationError,
    StorageIOError,
    StoreForeignError,
    StoreLayoutError,
    StoreVersionError,
)
from attachstore.layout import (
    MARKER,
    Marker,
    file_system_of,
    make_root,
    read_marker,
    refuse_foreign,
    replace_marker,
    write_marker,
)
from attachstore.objects.filesystem import FilesystemBackend
from tests.faults import FailingDisk, PowerLossDisk, failing_disks
from tests.intercepted_disk import MeanwhileDisk

DISK = Disk()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    make_root(DISK, root)
    (root / "staging").mkdir()
    return root


def test_a_marker_comes_back_and_leaves_no_temporary_file(root: Path) -> None:
    marker = write_marker(DISK, root, sessions="jsonl")

    assert read_marker(DISK, root) == marker
    assert json.loads((root / MARKER).read_bytes())["format"] == 1
    assert list((root / "staging").iterdir()) == []


def test_no_store_is_no_error(tmp_path: Path) -> None:
    assert read_marker(DISK, tmp_path / "absent") is None
    (tmp_path / "file").write_bytes(b"")
    assert read_marker(DISK, tmp_path / "file") is None


def test_the_losers_of_a_race_take_the_winners_marker(root: Path) -> None:
    """Two agents started at the same time must not believe in two stores."""
    markers: list[Marker] = []
    barrier = threading.Barrier(8)

    def create() -> None:
        barrier.wait()
        markers.append(write_marker(DISK, root, sessions="jsonl"))

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(markers) == 8
    assert len(set(markers)) == 1


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"", StoreLayoutError),
        (b"\x00" * 100, StoreLayoutError),
        (b"[" * 100_000, StoreLayoutError),
        (b"[]", StoreForeignError),
        (b'{"application":"other","format":1}', StoreForeignError),
        (b'{"application":"attachstore","format":2}', StoreVersionError),
        (b'{"application":"attachstore","format":"1"}', StoreVersionError),
        (b'{"application":"attachstore","format":1,"id":7}', StoreLayoutError),
    ],
)
def test_a_marker_that_is_not_ours_is_refused_never_guessed(
    root: Path, text: bytes, error: type[Exception]
) -> None:
    (root / MARKER).write_bytes(text)

    with pytest.raises(error):
        read_marker(DISK, root)


def test_a_marker_that_is_a_fifo_does_not_block(root: Path) -> None:
    os.mkfifo(root / MARKER)

    with pytest.raises(StoreLayoutError):
        read_marker(DISK, root)


def test_a_directory_with_documents_is_foreign(tmp_path: Path) -> None:
    (tmp_path / "thesis.odt").write_bytes(b"x")

    with pytest.raises(StoreForeignError, match=r"thesis\.odt"):
        refuse_foreign(DISK, tmp_path)


def test_a_file_is_foreign(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")

    with pytest.raises(StoreForeignError, match="it is a file"):
        refuse_foreign(DISK, tmp_path / "file")


@pytest.mark.parametrize("place", ["/proc/attachstore/store", "/dev/null/store"])
def test_a_place_where_no_directory_can_be_is_a_wrong_setting(place: str) -> None:
    """Not a failing disk: nobody should be sent to look at SMART values."""
    with pytest.raises(InvalidConfigurationError, match="no directory can be made"):
        make_root(DISK, Path(place))


def test_documents_in_a_directory_called_objects_are_foreign(tmp_path: Path) -> None:
    """The name alone is no proof: a killed creation leaves directories, never files."""
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects" / "vase.stl").write_bytes(b"x")

    with pytest.raises(StoreForeignError, match=r"vase\.stl"):
        refuse_foreign(DISK, tmp_path)


@pytest.mark.parametrize("name", ["objects", "sessions", "locks"])
@pytest.mark.parametrize("kind", ["file", "link to nothing"])
def test_what_has_a_name_of_ours_and_is_no_directory_is_foreign(
    tmp_path: Path, name: str, kind: str
) -> None:
    """No disk has failed."""
    if kind == "file":
        (tmp_path / name).write_bytes(b"x")
    else:
        (tmp_path / name).symlink_to("nowhere")

    with pytest.raises(StoreForeignError, match=f"but holds '{name}'"):
        refuse_foreign(DISK, tmp_path)


def test_a_store_that_has_lost_its_marker_is_told_to_put_it_back(tmp_path: Path) -> None:
    shard = tmp_path / "objects" / "blake3" / "ab"
    shard.mkdir(parents=True)
    (shard / ("ab" + "0" * 62)).write_bytes(b"x")

    with pytest.raises(StoreForeignError, match=r"lost its attachstore\.json, put that back"):
        refuse_foreign(DISK, tmp_path)


def test_what_a_killed_creation_left_is_taken_over(root: Path) -> None:
    (root / "objects" / "blake3" / "00").mkdir(parents=True)
    (root / "staging" / "spool-123").write_bytes(b"{")
    (root / "lost+found").mkdir()

    refuse_foreign(DISK, root)


def test_a_killed_creation_leaves_nothing_that_is_not_swept(root: Path) -> None:
    """Whatever call it was killed at, and whether a store is there by then or not."""
    for disk in failing_disks(sticky=True):
        with contextlib.suppress(AttachstoreError):
            write_marker(disk, root, sessions="jsonl")
        FilesystemBackend(root, DISK).sweep()
        assert list((root / "staging").iterdir()) == []


def test_missing_parents_are_made_and_each_name_is_synced(tmp_path: Path) -> None:
    """A root whose parent's name is lost with the power takes the whole store along."""
    synced: list[Path] = []

    class Watching(Disk):
        def sync_directory(self, path: Path) -> None:
            synced.append(path)
            super().sync_directory(path)

    make_root(Watching(), tmp_path / "a" / "b" / "store")

    assert synced == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]


def test_memory_file_systems_are_told_apart() -> None:
    assert file_system_of(Path("/dev/shm")).promise == "memory"
    assert file_system_of(Path("/nowhere/at/all")).promise == "unknown"


def sweep(root: Path) -> int:
    """What another process does with files that nobody holds."""
    return len(FilesystemBackend(root, DISK).sweep())


def test_a_marker_in_the_making_is_not_swept(root: Path) -> None:
    swept: list[int] = []
    disk = MeanwhileDisk("link", lambda: swept.append(sweep(root)))

    write_marker(disk, root, sessions="jsonl")

    assert swept == [0]


def test_a_marker_that_is_swept_before_it_is_held_is_made_again(root: Path) -> None:
    swept: list[int] = []
    disk = MeanwhileDisk("lock", lambda: swept.append(sweep(root) if len(swept) < 2 else 0))

    assert write_marker(disk, root, sessions="jsonl") == read_marker(DISK, root)
    assert swept == [1, 1, 0]


def test_a_replaced_marker_is_durable_and_so_is_one_that_is_put_back(
    root: Path, tmp_path: Path
) -> None:
    """After an error of the sync both may be on the disk; the old one must be, on return."""
    marker = write_marker(DISK, root, sessions="jsonl")
    power = PowerLossDisk(root)
    failing = FailingDisk(1, methods={"sync_directory"}, disk=power)
    with pytest.raises(StorageIOError):
        replace_marker(failing, root, marker, sessions="sqlite")
    for state in power.crash_states(into=tmp_path):
        assert read_marker(DISK, state) == marker

    replace_marker(power, root, marker, sessions="sqlite")
    for state in power.crash_states(into=tmp_path):
        found = read_marker(DISK, state)
        assert found is not None
        assert found.sessions == "sqlite"
