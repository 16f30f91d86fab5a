"""Confinement: what a link below a store's root cannot do."""

from __future__ import annotations

import errno
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from attachstore import confinement
from attachstore.confinement import NoDirectoryError, OutOfPlaceError
from attachstore.disk import Disk, layout_errors, storage_errors
from attachstore.errors import StoreLayoutError
from tests.descriptors import open_descriptors


@pytest.fixture(params=["openat2", "component by component"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old kernels and old containers do not know openat2; the answers must be the same."""
    if request.param != "openat2":
        monkeypatch.setattr(confinement, "_openat2", lambda: None)


@pytest.fixture
def root(tmp_path: Path, _way: None) -> Path:
    """A root whose folder `linked` is a link to a folder outside, which has a file in it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(b"theirs")
    root = tmp_path / "root"
    (root / "folder" / "deep").mkdir(parents=True)
    (root / "linked").symlink_to(tmp_path / "outside")
    (root / "folder" / "deep" / "linked").symlink_to("../../../outside")
    (root / "a file").touch()
    return root


@pytest.fixture
def disk(root: Path) -> Disk:
    disk = Disk()
    disk.confine(root)
    return disk


def calls_below(disk: Disk, folder: Path) -> dict[str, Callable[[], Any]]:
    """Every call that takes a path, with a path in `folder`."""
    file, new, own = folder / "file", folder / "new", folder.parent / "a file"
    return {
        "open_temporary": lambda: disk.open_temporary(folder / "x", 0o444),
        "create": lambda: disk.create(new, 0o444),
        "open_read": lambda: disk.open_read(file),
        "open_write": lambda: disk.open_write(file),
        "open_lock": lambda: disk.open_lock(new),
        "open_directory": lambda: disk.open_directory(folder / "x"),
        "sync_directory": lambda: disk.sync_directory(folder / "x"),
        "link": lambda: disk.link(own, new),
        "link from": lambda: disk.link(file, own.with_name("new")),
        "rename": lambda: disk.rename(own, new),
        "rename from": lambda: disk.rename(file, own.with_name("new")),
        "exchange": lambda: disk.exchange(own, file),
        "unlink": lambda: disk.unlink(file),
        "make_directory": lambda: disk.make_directory(new),
        "remove_directory": lambda: disk.remove_directory(new),
        "status": lambda: disk.status(file),
        "may_write": lambda: disk.may_write(folder / "x"),
        "names": lambda: disk.names(folder / "x"),
        "statuses": lambda: disk.statuses(folder / "x", []),
    }


CALLS = list(calls_below(Disk(), Path("x")))


@pytest.mark.parametrize("call", CALLS)
def test_no_call_follows_a_link_among_the_directories(
    disk: Disk, root: Path, tmp_path: Path, call: str
) -> None:
    """Nor does it do anything where the link leads."""
    before = open_descriptors()

    with pytest.raises(OutOfPlaceError) as caught:
        calls_below(disk, root / "linked")[call]()

    assert caught.value.filename == str(root / "linked")
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["file"]
    assert (tmp_path / "outside" / "file").read_bytes() == b"theirs"
    assert (root / "a file").is_file()
    assert open_descriptors() <= before


def test_every_call_with_a_path_is_among_them() -> None:
    """A new call of the disk has to be confined too."""
    takes_a_path = {
        name
        for name, method in vars(Disk).items()
        if name[0] != "_" and {"path", "directory"} & set(getattr(method, "__annotations__", ()))
    }
    users = {"open_source", "status_followed"}  # paths that a user gave, links and all
    by_open_file = {"link_open_file"}  # below

    assert takes_a_path - users - by_open_file == {call.removesuffix(" from") for call in CALLS}


def test_an_open_file_gets_no_name_behind_a_link(disk: Disk, root: Path, tmp_path: Path) -> None:
    descriptor = disk.open_temporary(root / "folder", 0o444)

    with pytest.raises(OutOfPlaceError):
        disk.link_open_file(descriptor, root / "linked" / "new")
    disk.link_open_file(descriptor, root / "folder" / "new")
    disk.close(descriptor)

    assert not (tmp_path / "outside" / "new").exists()
    assert (root / "folder" / "new").is_file()


@pytest.mark.parametrize("call", ["open_temporary", "open_directory", "sync_directory", "names"])
def test_a_link_is_not_taken_for_the_directory_it_leads_to(
    disk: Disk, root: Path, call: str
) -> None:
    arguments = (0o444,) if call == "open_temporary" else ()

    with pytest.raises(OSError) as caught:
        getattr(disk, call)(root / "linked", *arguments)

    assert caught.value.errno in {errno.ELOOP, errno.ENOTDIR}
    assert caught.value.filename == str(root / "linked")


def test_the_link_is_named_however_deep_it_lies(disk: Disk, root: Path) -> None:
    deep = root / "folder" / "deep" / "linked"

    with pytest.raises(StoreLayoutError) as caught, storage_errors("the store"):
        disk.status(deep / "file")

    assert caught.value.where == str(deep)
    assert caught.value.reason == "it is a symbolic link"


def test_a_file_among_the_directories_is_named_too(disk: Disk, root: Path) -> None:
    """Still a NotADirectoryError for those who expect one."""
    with pytest.raises(NotADirectoryError) as caught:
        disk.status(root / "a file" / "x")
    with pytest.raises(StoreLayoutError) as told, layout_errors(root):
        raise caught.value

    assert isinstance(caught.value, NoDirectoryError)
    assert (told.value.where, told.value.reason) == (
        str(root / "a file"),
        "it is not a directory",
    )


def test_what_is_right_works_at_every_depth(disk: Disk, root: Path) -> None:
    for folder in (root, root / "folder", root / "folder" / "deep"):
        descriptor = disk.create(folder / "new", 0o644)
        disk.write(descriptor, b"1", 0)
        disk.close(descriptor)
        disk.rename(folder / "new", folder / "renamed")
        assert disk.status(folder / "renamed").st_size == 1
        disk.sync_directory(folder)
        assert "renamed" in disk.names(folder)
        disk.unlink(folder / "renamed")
        with pytest.raises(FileNotFoundError) as caught:
            disk.unlink(folder / "renamed")
        assert caught.value.filename == str(folder / "renamed")


def test_a_users_paths_are_not_confined(disk: Disk, root: Path, tmp_path: Path) -> None:
    """Links to sources and destinations are theirs to make, also from inside the store."""
    theirs = tmp_path / "theirs"
    theirs.symlink_to(tmp_path / "outside")

    assert disk.names(theirs) == ["file"]
    disk.close(disk.create(theirs / "new", 0o644))
    disk.close(disk.open_source(root / "linked" / "file"))
    assert (tmp_path / "outside" / "new").exists()


@pytest.mark.usefixtures("_way")
def test_a_root_may_be_a_link_and_a_link_may_change(tmp_path: Path) -> None:
    """It is the user's: where they put the store is not for us to judge."""
    for name in ("one", "two"):
        (tmp_path / name / "folder").mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to("one")
    disk = Disk()
    disk.confine(link)
    disk.close(disk.create(link / "folder" / "file", 0o644))
    disk.sync_directory(link)
    assert disk.names(link) == ["folder"]

    (tmp_path / "one").rename(tmp_path / "moved")
    link.unlink()
    link.symlink_to("moved")

    assert disk.names(link / "folder") == ["file"]


@pytest.mark.usefixtures("_way")
def test_a_root_that_is_not_there_is_an_answer(tmp_path: Path) -> None:
    disk = Disk()
    disk.confine(tmp_path / "absent")

    for path in (tmp_path / "absent", tmp_path / "absent" / "folder" / "file"):
        with pytest.raises(FileNotFoundError):
            disk.status(path)


def test_names_that_begin_alike_are_told_apart(tmp_path: Path) -> None:
    """`store` and `store-2` lie side by side."""
    (tmp_path / "store").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "store-2").symlink_to("outside")
    disk = Disk()
    disk.confine(tmp_path / "store")

    disk.close(disk.create(tmp_path / "store-2" / "file", 0o644))

    assert (tmp_path / "outside" / "file").exists()


def test_a_directory_swapped_for_a_link_in_between_changes_nothing(
    disk: Disk, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The race that a check before the call would lose: the swap comes after the opening."""
    opened = confinement.Confinement.open_parent

    def swapping(self: confinement.Confinement, root_: str, path: str) -> int:
        descriptor = opened(self, root_, path)
        if (root / "folder").is_dir() and not (root / "folder").is_symlink():
            (root / "folder").rename(root / "aside")
            (root / "folder").symlink_to(tmp_path / "outside")
        return descriptor

    monkeypatch.setattr(confinement.Confinement, "open_parent", swapping)

    disk.close(disk.create(root / "folder" / "new", 0o644))

    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["file"]
    assert (root / "aside" / "new").is_file()


def test_a_kernel_that_forbids_openat2_is_asked_once_more_in_the_old_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Filters of old containers answer EPERM to calls they do not know."""
    (tmp_path / "folder").mkdir()
    disk = Disk()
    disk.confine(tmp_path)

    def forbidden(*_: object) -> int:
        return -1

    monkeypatch.setattr(confinement, "_openat2", lambda: forbidden)
    monkeypatch.setattr(confinement.ctypes, "get_errno", lambda: errno.EPERM)

    disk.close(disk.create(tmp_path / "folder" / "file", 0o644))

    assert (tmp_path / "folder" / "file").exists()


@pytest.mark.parametrize(
    "call", ["open_temporary", "open_directory", "sync_directory", "open_read"]
)
@pytest.mark.parametrize(
    ("name", "reason"),
    [("linked", "it is a symbolic link"), ("a file", "it is not a directory")],
)
def test_what_is_opened_is_named_with_what_it_is(
    disk: Disk, root: Path, call: str, name: str, reason: str
) -> None:
    if (call, name) == ("open_read", "a file"):
        return
    arguments = (0o444,) if call == "open_temporary" else ()

    with pytest.raises(StoreLayoutError) as caught, storage_errors("the store"):
        getattr(disk, call)(root / name, *arguments)

    assert (caught.value.where, caught.value.reason) == (str(root / name), reason)


def test_a_file_that_is_written_in_place_has_one_name(tmp_path: Path) -> None:
    """The other name may be anywhere on the file system."""
    (tmp_path / "one").touch()
    confinement.refuse_second_name((tmp_path / "one").stat(), tmp_path / "one")
    (tmp_path / "two").hardlink_to(tmp_path / "one")

    with pytest.raises(StoreLayoutError, match="2 names"):
        confinement.refuse_second_name((tmp_path / "one").stat(), tmp_path / "one")


def test_calls_on_names_in_a_held_directory_say_what_they_say_otherwise(
    disk: Disk, root: Path
) -> None:
    folder = root / "folder"
    (folder / "file").write_bytes(b"ours")

    with disk.holding(folder):
        descriptor = disk.open_read(folder / "file")
        assert disk.read(descriptor, 10, 0) == b"ours"
        disk.close(descriptor)
        with pytest.raises(FileNotFoundError) as caught:
            disk.status(folder / "absent")
        assert caught.value.filename == str(folder / "absent")
        with pytest.raises(OutOfPlaceError):
            disk.open_read(folder / "deep" / "linked" / "file")


def test_a_held_directory_is_held_for_one_thread_and_let_go(disk: Disk, root: Path) -> None:
    """Others look where the name leads now."""
    folder = root / "folder"
    (folder / "file").write_bytes(b"ours")
    before = open_descriptors()

    with disk.holding(folder):
        folder.rename(root / "elsewhere")
        assert disk.status(folder / "file").st_size == 4
        with ThreadPoolExecutor(1) as executor, pytest.raises(FileNotFoundError):
            executor.submit(disk.status, folder / "file").result()
    with pytest.raises(FileNotFoundError):
        disk.status(folder / "file")

    assert open_descriptors() <= before


def test_what_cannot_be_held_is_told_by_the_calls_themselves(disk: Disk, root: Path) -> None:
    with disk.holding(root / "linked"), pytest.raises(OutOfPlaceError):
        disk.open_read(root / "linked" / "file")
    with disk.holding(root / "absent"), pytest.raises(FileNotFoundError):
        disk.open_read(root / "absent" / "file")


def test_paths_of_one_part_are_not_taken_for_names_in_a_held_directory(
    disk: Disk, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are relative to the working directory, and the user's."""
    monkeypatch.chdir(root / "folder")

    assert disk.status(Path("deep")).st_ino == (root / "folder" / "deep").stat().st_ino
