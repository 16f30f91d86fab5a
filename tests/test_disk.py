"""The real Disk: the one place that the fakes in tests/faults.py cannot look into."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attachstore import disk as disk_module
from attachstore.disk import (
    BLOCK_BYTES,
    Disk,
    ReadOnlyDisk,
    WeakDisk,
    ensure_directory,
    is_regular,
    leads_to,
    read_all,
    remove_quietly,
    write_all,
)
from tests.descriptors import open_descriptors


@pytest.fixture
def disk() -> Disk:
    return Disk()


def fill(disk: Disk, path: Path, data: bytes) -> None:
    descriptor = disk.create(path, 0o644)
    write_all(disk, descriptor, data, 0)
    disk.close(descriptor)


class TestOpening:
    def test_an_unnamed_file_is_seen_only_once_it_is_linked(
        self, disk: Disk, tmp_path: Path
    ) -> None:
        descriptor = disk.open_temporary(tmp_path, 0o444)
        disk.write(descriptor, b"12", 0)
        assert disk.names(tmp_path) == []

        disk.link_open_file(descriptor, tmp_path / "a")

        assert (tmp_path / "a").read_bytes() == b"12"
        with pytest.raises(FileExistsError):
            disk.link_open_file(descriptor, tmp_path / "a")
        disk.close(descriptor)

    def test_creating_never_opens_what_is_there(self, disk: Disk, tmp_path: Path) -> None:
        """Neither a file nor a link, which would lead anywhere."""
        (tmp_path / "file").write_bytes(b"1")
        (tmp_path / "link").symlink_to(tmp_path / "nowhere")

        for name in ("file", "link"):
            with pytest.raises(FileExistsError):
                disk.create(tmp_path / name, 0o644)

        assert disk.names(tmp_path) == ["file", "link"]

    @pytest.mark.parametrize("method", ["open_read", "open_write", "open_lock", "open_directory"])
    def test_stored_names_are_never_followed(self, disk: Disk, tmp_path: Path, method: str) -> None:
        (tmp_path / "file").write_bytes(b"1")
        (tmp_path / "folder").mkdir()
        for target in ("file", "folder"):
            link = tmp_path / f"link to {target}"
            link.symlink_to(target)

            with pytest.raises(OSError, match=r"Too many|Not a dir"):
                getattr(disk, method)(link)

    @pytest.mark.parametrize("method", ["open_read", "open_source", "open_write", "open_lock"])
    def test_a_fifo_does_not_block(self, disk: Disk, tmp_path: Path, method: str) -> None:
        os.mkfifo(tmp_path / "fifo")

        descriptor = getattr(disk, method)(tmp_path / "fifo")

        assert not is_regular(disk.status_open(descriptor))
        disk.close(descriptor)

    def test_a_users_link_is_followed(self, disk: Disk, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"1")
        (tmp_path / "link").symlink_to("file")

        descriptor = disk.open_source(tmp_path / "link")

        assert read_all(disk, descriptor, 10) == b"1"
        assert is_regular(disk.status_followed(tmp_path / "link"))
        assert stat.S_ISLNK(disk.status(tmp_path / "link").st_mode)
        disk.close(descriptor)

    def test_many_names_are_asked_for_at_once(self, disk: Disk, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"abc")
        (tmp_path / "link").symlink_to("file")

        file, link = disk.statuses(tmp_path, ["file", "link"])

        assert (file.st_size, stat.S_ISLNK(link.st_mode)) == (3, True)
        with pytest.raises(FileNotFoundError):
            disk.statuses(tmp_path, ["file", "absent"])

    def test_descriptors_do_not_reach_other_programs(self, disk: Disk, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(b"")
        opened = [
            disk.open_temporary(tmp_path, 0o444),
            disk.create(tmp_path / "b", 0o444),
            disk.open_read(tmp_path / "a"),
            disk.open_write(tmp_path / "a"),
            disk.open_lock(tmp_path / "c"),
            disk.open_directory(tmp_path),
            disk.open_source(tmp_path / "a"),
        ]

        assert all(fcntl.fcntl(it, fcntl.F_GETFD) & fcntl.FD_CLOEXEC for it in opened)
        for descriptor in opened:
            disk.close(descriptor)

    @pytest.mark.parametrize("umask", [0o000, 0o077])
    def test_nothing_is_ever_writable_by_others(
        self, disk: Disk, tmp_path: Path, umask: int
    ) -> None:
        before = os.umask(umask)
        try:
            disk.make_directory(tmp_path / "folder")
            disk.close(disk.open_lock(tmp_path / "lock"))
        finally:
            os.umask(before)

        assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o755 & ~umask
        assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == 0o644 & ~umask


class TestBytes:
    def test_reads_and_writes_have_offsets_of_their_own(self, disk: Disk, tmp_path: Path) -> None:
        descriptor = disk.create(tmp_path / "a", 0o644)
        disk.write(descriptor, b"456", 3)
        disk.write(descriptor, memoryview(b"123"), 0)
        buffer = bytearray(4)

        assert disk.read_into(descriptor, buffer, 1) == 4
        assert bytes(buffer) == b"2345"
        assert disk.read(descriptor, 3, 2) == b"345"
        assert disk.read(descriptor, 3, 6) == b""
        disk.truncate(descriptor, 2)
        assert read_all(disk, descriptor, 100) == b"12"
        assert read_all(disk, descriptor, 100, 1) == b"2"
        assert read_all(disk, descriptor, 1) == b"1"
        disk.close(descriptor)

    def test_short_writes_and_reads_are_continued(self, tmp_path: Path) -> None:
        class Short(Disk):
            def write(self, descriptor: int, data: bytes | memoryview, offset_bytes: int) -> int:
                return super().write(descriptor, memoryview(data)[:3], offset_bytes)

            def read_into(
                self, descriptor: int, buffer: memoryview | bytearray, offset_bytes: int
            ) -> int:
                return super().read_into(descriptor, memoryview(buffer)[:2], offset_bytes)

            def read(self, descriptor: int, size_bytes: int, offset_bytes: int) -> bytes:
                return super().read(descriptor, min(size_bytes, 2), offset_bytes)

        disk = Short()
        descriptor = disk.create(tmp_path / "a", 0o644)

        write_all(disk, descriptor, b"0123456789", 5)

        assert read_all(disk, descriptor, 100) == bytes(5) + b"0123456789"
        disk.close(descriptor)

    def test_a_write_of_nothing_is_an_error_and_no_endless_loop(self, tmp_path: Path) -> None:
        class Stuck(Disk):
            def write(self, descriptor: int, data: bytes | memoryview, offset_bytes: int) -> int:
                return 0

        with pytest.raises(OSError, match="0 bytes"):
            write_all(Stuck(), 0, b"1", 0)

    def test_write_out_and_dropping_change_no_byte(self, disk: Disk, tmp_path: Path) -> None:
        descriptor = disk.create(tmp_path / "a", 0o644)
        data = os.urandom(2 * BLOCK_BYTES + 7)
        write_all(disk, descriptor, data, 0)

        disk.start_writeout(descriptor, 0, len(data))
        disk.sync_file(descriptor)
        disk.drop_cache(descriptor)

        assert read_all(disk, descriptor, len(data) + 1) == data
        disk.close(descriptor)


class TestSyncing:
    def test_the_whole_file_leaves_the_cache(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What a failed write-back left there must not be believed; no fake disk sees this call."""
        asked: list[tuple[int, ...]] = []

        def advise(*arguments: int) -> None:
            asked.append(arguments)

        monkeypatch.setattr(os, "posix_fadvise", advise)
        (tmp_path / "file").write_bytes(b"bytes")
        descriptor = Disk().open_read(tmp_path / "file")
        Disk().drop_cache(descriptor)
        Disk().close(descriptor)
        assert asked == [(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)]

    def test_all_bytes_are_in_the_file_when_it_is_synced(
        self, disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The fakes see that `sync_file` was called, not what it calls."""
        synced: list[tuple[str, int]] = []
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, recorder(name, synced))
        descriptor = disk.create(tmp_path / "a", 0o644)

        write_all(disk, descriptor, b"12345", 0)
        disk.sync_file(descriptor)
        write_all(disk, descriptor, b"678", 5)
        disk.sync_data(descriptor)
        disk.close(descriptor)

        assert synced == [("fsync", 5), ("fdatasync", 8)]

    def test_a_directory_is_synced_through_a_descriptor_of_its_own(
        self, disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        synced: list[os.stat_result] = []

        def record(descriptor: int) -> None:
            synced.append(os.fstat(descriptor))

        monkeypatch.setattr(os, "fsync", record)
        before = open_descriptors()

        disk.sync_directory(tmp_path)

        assert os.path.samestat(synced[0], tmp_path.stat())
        assert open_descriptors() <= before

    def test_a_sync_goes_through_the_drives_cache_where_that_takes_another_call(
        self, disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """macOS: fsync stops at the drive's cache, F_FULLFSYNC does not."""
        calls: list[int] = []
        monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)

        def record(descriptor: int, command: int) -> None:
            del descriptor
            calls.append(command)

        monkeypatch.setattr(fcntl, "fcntl", record)
        descriptor = os.open(tmp_path, os.O_RDONLY)

        disk.sync_file(descriptor)
        disk.sync_data(descriptor)
        disk.sync_directory(tmp_path)

        assert calls == [51, 51, 51]
        os.close(descriptor)

    @pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS])
    def test_only_a_weak_disk_accepts_a_file_system_that_refuses_to_sync(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
    ) -> None:
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, failure(number))
        descriptor = os.open(tmp_path, os.O_RDONLY)

        for disk in (Disk(), ReadOnlyDisk()):
            for call in (disk.sync_file, disk.sync_data):
                with pytest.raises(OSError):
                    call(descriptor)
            with pytest.raises(OSError):
                disk.sync_directory(tmp_path)
        weak = WeakDisk()
        weak.sync_file(descriptor)
        weak.sync_data(descriptor)
        weak.sync_directory(tmp_path)
        os.close(descriptor)

    def test_a_weak_disk_still_reports_a_failing_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "fsync", failure(errno.EIO))

        with pytest.raises(OSError):
            WeakDisk().sync_directory(tmp_path)


def recorder(name: str, into: list[tuple[str, int]]) -> Callable[[int], None]:
    return lambda descriptor: into.append((name, os.fstat(descriptor).st_size))


def failure(number: int) -> Callable[..., None]:
    def fail(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    return fail


class TestNames:
    def test_linking_refuses_to_replace_and_renaming_replaces(
        self, disk: Disk, tmp_path: Path
    ) -> None:
        fill(disk, tmp_path / "a", b"1")
        fill(disk, tmp_path / "b", b"2")

        with pytest.raises(FileExistsError):
            disk.link(tmp_path / "a", tmp_path / "b")
        disk.link(tmp_path / "a", tmp_path / "c")
        disk.rename(tmp_path / "a", tmp_path / "b")

        assert disk.names(tmp_path) == ["b", "c"]
        assert (tmp_path / "b").read_bytes() == b"1"
        assert (tmp_path / "c").samefile(tmp_path / "b")

    def test_exchanging_swaps_two_names_at_once(self, disk: Disk, tmp_path: Path) -> None:
        fill(disk, tmp_path / "a", b"1")
        fill(disk, tmp_path / "b", b"2")

        disk.exchange(tmp_path / "a", tmp_path / "b")

        assert ((tmp_path / "a").read_bytes(), (tmp_path / "b").read_bytes()) == (b"2", b"1")

    def test_an_exchange_that_fails_says_why(self, disk: Disk, tmp_path: Path) -> None:
        fill(disk, tmp_path / "a", b"1")

        with pytest.raises(FileNotFoundError) as caught:
            disk.exchange(tmp_path / "a", tmp_path / "absent")

        assert caught.value.filename2 == str(tmp_path / "absent")

    def test_a_system_without_exchange_says_so(
        self, disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def absent(*_: object) -> None:
            """What a libc without the call looks like."""

        monkeypatch.setattr(disk_module, "libc_function", absent)

        with pytest.raises(OSError) as caught:
            disk.exchange(tmp_path / "a", tmp_path / "b")

        assert caught.value.errno in disk_module.UNSUPPORTED

    def test_a_system_without_unnamed_files_says_so(
        self, disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delattr(os, "O_TMPFILE")

        with pytest.raises(OSError) as caught:
            disk.open_temporary(tmp_path, 0o444)

        assert caught.value.errno in disk_module.UNSUPPORTED

    def test_names_come_in_the_order_of_their_bytes(self, disk: Disk, tmp_path: Path) -> None:
        names = [b"\xff", b"b", b"a", b"Z", "é".encode()]
        for name in names:
            (tmp_path / os.fsdecode(name)).touch()

        assert [os.fsencode(name) for name in disk.names(tmp_path)] == sorted(names)

    def test_what_is_not_there_is_an_answer(self, disk: Disk, tmp_path: Path) -> None:
        absent = tmp_path / "absent"
        for call in (disk.status, disk.unlink, disk.names, disk.open_read, disk.open_directory):
            with pytest.raises(FileNotFoundError):
                call(absent)

        remove_quietly(disk, absent)
        ensure_directory(disk, absent)
        ensure_directory(disk, absent)
        disk.remove_directory(absent)

    def test_an_open_file_is_told_from_another_of_its_name(
        self, disk: Disk, tmp_path: Path
    ) -> None:
        path = tmp_path / "a"
        descriptor = disk.create(path, 0o644)
        assert leads_to(disk, path, descriptor)

        path.unlink()
        assert not leads_to(disk, path, descriptor)
        path.touch()
        assert not leads_to(disk, path, descriptor)
        disk.close(descriptor)

    def test_a_lock_is_exclusive_between_descriptors(self, disk: Disk, tmp_path: Path) -> None:
        one, two = disk.open_lock(tmp_path / "a"), disk.open_lock(tmp_path / "a")
        disk.lock(one, exclusive=True, wait=False)

        for exclusive in (True, False):
            with pytest.raises(BlockingIOError):
                disk.lock(two, exclusive=exclusive, wait=False)
        disk.close(one)
        disk.lock(two, exclusive=False, wait=True)
        disk.close(two)
