"""The recorder and its model against the kernel: what the one shows, the other must show."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from tests.crash_model import FileNode, Model
from tests.rigs.adopting import UnmodelledError, adopt
from tests.rigs.crash_states import Selection, crash_trees
from tests.rigs.recording import check_model
from tests.rigs.replaying import Replay
from tests.rigs.tracing import Tracer, calls_in

_PUNCH_HOLE, _KEEP_SIZE, _ZERO_RANGE = 2, 1, 16


def every_kind_of_call(root: str, journal: str) -> None:
    """In the traced child: each call that the model knows, once."""
    os.write(os.open(journal, os.O_WRONLY | os.O_CREAT, 0o644), b'["attempt", "work", {}]\n')
    os.chdir(root)
    unnamed = os.open(root, os.O_TMPFILE | os.O_RDWR, 0o644)
    os.pwrite(unnamed, b"unnamed" * 2_000, 0)
    os.link(f"/proc/self/fd/{unnamed}", "named", src_dir_fd=unnamed, follow_symlinks=True)
    os.fsync(unnamed)
    os.mkdir("folder")
    folder = os.open("folder", os.O_RDONLY | os.O_DIRECTORY)
    os.mkdir("inner", dir_fd=folder)
    os.rename("named", "moved", dst_dir_fd=folder)
    os.fsync(folder)
    target = os.open("copy", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    os.copy_file_range(unnamed, target, 5_000, 100)
    os.copy_file_range(unnamed, target, 50)
    os.ftruncate(target, 4_000)
    os.posix_fallocate(target, 0, 9_000)
    libc = ctypes.CDLL(None)
    libc.fallocate(target, _PUNCH_HOLE | _KEEP_SIZE, ctypes.c_long(64), ctypes.c_long(32))
    libc.fallocate(target, _ZERO_RANGE, ctypes.c_long(8_000), ctypes.c_long(2_000))
    other = os.dup(target)
    os.lseek(other, 10, os.SEEK_SET)
    os.write(target, b"through one of two descriptors")
    appended = os.open("copy", os.O_WRONLY | os.O_APPEND)
    os.write(appended, b"at the end")
    os.link("copy", "folder/linked")
    os.truncate("folder/linked", 9_500)
    os.unlink("copy")
    os.rmdir("inner", dir_fd=folder)
    libc.renameat2(-100, b"folder", -100, b"old", 2)  # exchange
    os.sync()


def threads_and_processes(root: str, _: str) -> None:
    """In the traced child: what is not modelled."""
    if os.fork() == 0:
        os._exit(0)
    os.wait()


def watched(tmp_path: Path, work: str) -> Replay:
    """A replay at the end of `work`, which began with a directory that holds one file, "old"."""
    disk, journal = tmp_path / "disk", tmp_path / "journal"
    disk.mkdir()
    (disk / "old").write_bytes(b"old")
    replay = Replay(adopt(disk), disk, journal)
    with Tracer(tmp_path, bare=True) as tracer:
        trace = tracer.run(f"tests.rigs.test_tracing:{work}", str(disk), str(journal))
    replay.apply_all(trace.calls)
    return replay


def test_the_model_shows_what_the_kernel_shows(tmp_path: Path) -> None:
    replay = watched(tmp_path, "every_kind_of_call")
    check_model(replay, tmp_path / "disk")
    assert [record.kind for record in replay.records] == ["work"]


def test_a_process_of_its_own_is_refused(tmp_path: Path) -> None:
    """Its descriptors would be others under the same numbers."""
    with pytest.raises(UnmodelledError):
        watched(tmp_path, "threads_and_processes")


def test_a_sync_covers_what_was_written_before_it_began() -> None:
    """Another thread's write during the sync may or may not be on the disk after it."""
    lines = [
        b"1 clone(child_stack=NULL) = 7",
        b'7 openat(AT_FDCWD, "\\x2f\\x64\\x2f\\x66", O_RDWR|O_CREAT, 0644) = 3',
        b'7 pwrite64(3, "\\x61", 1, 0) = 1',
        b"7 fsync(3 <unfinished ...>",
        b'8 pwrite64(3, "\\x62", 1, 0) = 1',
        b"7 <... fsync resumed>) = 0",
        b'8 openat(AT_FDCWD, "\\x2f\\x64", O_RDONLY|O_DIRECTORY) = 4',
        b"8 fsync(4) = 0",
    ]
    model = Model()
    Replay(model, Path("/d"), Path("/journal")).apply_all(calls_in(lines))
    found = {tree["f"][1] for tree in crash_trees(model, Selection(100))}
    assert found == {b"a", b"b"}


class TestStates:
    """What a power cut may leave, by example."""

    def test_a_name_is_not_made_durable_by_its_file(self) -> None:
        model = Model()
        file = FileNode(0o644)
        file.write(b"bytes", 0)
        file.sync()
        model.root.set("name", file)
        assert _names(model) == {(), ("name",)}
        model.root.sync()
        assert _names(model) == {("name",)}

    def test_a_new_size_may_come_with_zeros(self) -> None:
        model = _with_file(b"old")
        _file(model).write(b"new", 3)
        assert _contents(model) == {b"old", b"oldnew", b"old\0\0\0"}

    def test_a_block_may_be_torn_between_sectors(self) -> None:
        model = _with_file(b"o" * 1024)
        _file(model).write(b"n" * 1024, 0)
        halves = {b"n" * 512 + b"o" * 512, b"o" * 512 + b"n" * 512}
        assert _contents(model) == {b"o" * 1024, b"n" * 1024} | halves

    def test_what_was_durably_cut_off_does_not_come_back(self) -> None:
        model = _with_file(b"old tail")
        _file(model).resize(3)
        _file(model).sync()
        _file(model).write(b"+new", 3)
        assert _contents(model) == {b"old", b"old+new", b"old\0\0\0\0"}

    @pytest.mark.parametrize("atomic", [False, True])
    def test_a_rename_may_lose_both_names_unless_it_is_atomic(self, atomic: bool) -> None:
        model = _with_file(b"bytes")
        replay = Replay(model, Path("/d"), Path("/journal"))
        replay._renamed(b"/d/name", b"/d/other")
        selection = Selection(100, atomic_renames=atomic)
        found = {tuple(sorted(it)) for it in crash_trees(model, selection, replay.renames)}
        both = {("name",), ("other",)}
        assert found == (both if atomic else both | {(), ("name", "other")})

    def test_more_combinations_than_the_cap_are_tried_by_selection(self) -> None:
        """With nothing kept, all kept, and each single deviation among them."""
        model = Model()
        for number in range(20):
            model.root.set(f"{number}", FileNode(0o644))
        found = {tuple(sorted(it)) for it in crash_trees(model, Selection(60))}
        assert len(found) <= 60
        assert {len(it) for it in found} >= {0, 1, 19, 20}


def _with_file(content: bytes) -> Model:
    model = Model()
    file = FileNode(0o644)
    file.write(content, 0)
    file.sync()
    model.root.names["name"] = [file]
    return model


def _file(model: Model) -> FileNode:
    file = model.root.get("name")
    assert isinstance(file, FileNode)
    return file


def _contents(model: Model) -> set[bytes | None]:
    return {tree["name"][1] for tree in crash_trees(model, Selection(1_000))}


def _names(model: Model) -> set[tuple[str, ...]]:
    return {tuple(tree) for tree in crash_trees(model, Selection(1_000))}
