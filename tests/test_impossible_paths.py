"""Paths at which nothing can be: the user is told so, and nobody is sent to look at a disk."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from attachstore.blocking import Store
from attachstore.conversion.work import convert
from attachstore.destination import destination_errors
from attachstore.disk import Disk, storage_errors
from attachstore.errors import (
    DestinationError,
    InvalidConfigurationError,
    StorageIOError,
    StoreLayoutError,
    StoreMissingError,
)

LONG = "a" * 300
IMPOSSIBLE = [LONG, f"{LONG}/x", "loop/x", "file/x"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("x")
    root = tmp_path / "store"
    with Store.open(root, decode_in_process=True) as store:
        file = store.attach(b"x", name="x.txt", declared="text/plain")
        with store.sessions.create("s-1") as session:
            session.append("message", {"file": file})
    return root


def write(store: Store, what: str, path: Path) -> None:
    if what == "copy":
        store.copy_to(next(store.list()), path)
    elif what == "page":
        store.write_page("s-1", path)
    elif what == "export":
        store.export("s-1", path)
    else:
        store.scan(resume=path)


@pytest.mark.parametrize("name", [*IMPOSSIBLE, "loop"])
@pytest.mark.parametrize("what", ["copy", "page", "export", "checkpoint"])
def test_what_cannot_be_written_is_a_refused_destination(root: Path, name: str, what: str) -> None:
    with Store.open(root, decode_in_process=True) as store, pytest.raises(DestinationError):
        write(store, what, root.parent / name)


@pytest.mark.parametrize("name", [*IMPOSSIBLE, "loop"])
def test_where_no_store_can_be_there_is_none(root: Path, name: str) -> None:
    place = root.parent / name
    for read_only in (True, False):
        with (
            pytest.raises(StoreMissingError),
            Store.open(place, read_only=read_only, create=False),
        ):
            pass
    with pytest.raises(StoreMissingError):
        convert(Disk(), place, "sqlite")
    with Store.open(root, decode_in_process=True) as store, pytest.raises(StoreMissingError):
        store.scan(repair_from=place)


@pytest.mark.parametrize("name", [*IMPOSSIBLE, "loop", "dangling"])
def test_where_no_store_can_be_none_is_made(root: Path, name: str) -> None:
    (root.parent / "dangling").symlink_to("nowhere/at all")

    with (
        pytest.raises(InvalidConfigurationError, match="no directory can be made there"),
        Store.open(root.parent / name),
    ):
        pass


def test_a_link_in_the_place_of_the_marker_is_a_broken_store(root: Path) -> None:
    """Also one that leads to itself: the store's own path is in order."""
    (root / "attachstore.json").unlink()
    (root / "attachstore.json").symlink_to("attachstore.json")

    with pytest.raises(StoreLayoutError), Store.open(root):
        pass


def test_a_disk_that_fails_is_no_refused_destination(tmp_path: Path) -> None:
    with (
        pytest.raises(StorageIOError),
        storage_errors(tmp_path),
        destination_errors(tmp_path),
    ):
        raise OSError(errno.EIO, "failed")


def test_a_link_in_a_store_is_the_stores_fault(tmp_path: Path) -> None:
    disk = Disk()
    disk.confine(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)

    with (
        pytest.raises(StoreLayoutError),
        storage_errors(tmp_path),
        destination_errors(tmp_path),
    ):
        disk.status(tmp_path / "link" / "a")
