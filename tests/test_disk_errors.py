"""What a read-only disk refuses, and what the system's error numbers become."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from attachstore import confinement
from attachstore.disk import (
    Disk,
    ReadOnlyDisk,
    read_all,
    storage_errors,
)
from attachstore.errors import (
    AttachstoreError,
    ObjectMissingError,
    ResourceExhaustedError,
    StorageFullError,
    StorageIOError,
    StorageReadOnlyError,
    StorageUnsupportedError,
)


class TestReadOnlyDisk:
    def test_it_reads_and_refuses_every_change(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(b"1")
        disk = ReadOnlyDisk()
        descriptor = disk.open_read(tmp_path / "a")
        assert read_all(disk, descriptor, 10) == b"1"

        for call in (
            lambda: disk.open_temporary(tmp_path, 0o444),
            lambda: disk.create(tmp_path / "b", 0o444),
            lambda: disk.open_write(tmp_path / "a"),
            lambda: disk.open_lock(tmp_path / "a"),
            lambda: disk.write(descriptor, b"2", 0),
            lambda: disk.truncate(descriptor, 0),
            lambda: disk.link_open_file(descriptor, tmp_path / "b"),
            lambda: disk.link(tmp_path / "a", tmp_path / "b"),
            lambda: disk.rename(tmp_path / "a", tmp_path / "b"),
            lambda: disk.exchange(tmp_path / "a", tmp_path / "a"),
            lambda: disk.unlink(tmp_path / "a"),
            lambda: disk.make_directory(tmp_path / "b"),
            lambda: disk.remove_directory(tmp_path),
        ):
            with pytest.raises(OSError) as caught:
                call()
            assert caught.value.errno == errno.EROFS

        disk.close(descriptor)
        assert disk.names(tmp_path) == ["a"]


class TestStorageErrors:
    @pytest.mark.parametrize(
        ("number", "expected"),
        [
            (errno.ENOSPC, StorageFullError),
            (errno.EDQUOT, StorageFullError),
            (errno.EFBIG, StorageFullError),
            (errno.EROFS, StorageReadOnlyError),
            (errno.EACCES, StorageReadOnlyError),
            (errno.EPERM, StorageReadOnlyError),
            (errno.EMFILE, ResourceExhaustedError),
            (errno.ENFILE, ResourceExhaustedError),
            (errno.ENOMEM, ResourceExhaustedError),
            (errno.EXDEV, StorageUnsupportedError),
            (errno.ENOSYS, StorageUnsupportedError),
            (errno.EIO, StorageIOError),
            (errno.ESTALE, StorageIOError),
            (99999, StorageIOError),
        ],
    )
    def test_each_number_is_what_a_caller_can_do_about_it(
        self, number: int, expected: type[AttachstoreError]
    ) -> None:
        with pytest.raises(expected) as caught, storage_errors(Path("store")):
            raise OSError(number, "raw text")

        assert type(caught.value) is expected
        assert caught.value.where == "store"
        assert isinstance(caught.value.__cause__, OSError)

    @pytest.mark.parametrize(
        ("method", "reading"),
        [
            ("open_read", True),
            ("open_directory", True),
            ("names", True),
            ("status", True),
            ("status_followed", True),
            ("open_write", False),
            ("open_lock", False),
            ("create", False),
            ("unlink", False),
            ("make_directory", False),
        ],
    )
    @pytest.mark.parametrize("confined", [False, True])
    @pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM])
    def test_who_may_not_read_is_told_so(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        method: str,
        reading: bool,
        confined: bool,
        number: int,
    ) -> None:
        """Whatever the call that was refused: it could not have changed anything."""
        disk = Disk()
        path = tmp_path / "a" / "b"
        arguments = [path, 0o644] if method == "create" else [path]
        if confined:
            disk.confine(tmp_path)
            path.parent.mkdir()

        def refuse(*_: object, **__: object) -> None:
            raise OSError(number, "refused")

        with monkeypatch.context() as patch:
            for name in ("open", "listdir", "stat", "unlink", "mkdir"):
                patch.setattr(os, name, refuse)
            with pytest.raises(StorageReadOnlyError) as caught, storage_errors("store"):
                getattr(disk, method)(*arguments)

        assert caught.value.reading == reading
        assert ("may not read it" in str(caught.value)) == reading
        assert ("mount it writable" in str(caught.value)) != reading

    def test_who_may_not_enter_a_directory_may_not_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        disk = Disk()
        disk.confine(tmp_path)

        def refuse(*_: object) -> None:
            raise PermissionError(errno.EACCES, "refused")

        monkeypatch.setattr(confinement, "_open_directory", refuse)
        for call, reading in ((disk.status, True), (disk.unlink, False)):
            with pytest.raises(StorageReadOnlyError) as caught, storage_errors("store"):
                call(tmp_path / "a" / "b")
            assert caught.value.reading == reading

    def test_an_error_without_a_number_is_typed_too(self) -> None:
        with pytest.raises(StorageIOError), storage_errors("store"):
            raise OSError("no number")

    def test_running_out_of_memory_is_typed(self) -> None:
        with pytest.raises(ResourceExhaustedError), storage_errors("store"):
            raise MemoryError

    def test_our_own_errors_and_bugs_pass(self) -> None:
        with pytest.raises(ObjectMissingError), storage_errors("store"):
            raise ObjectMissingError(where="x", digest="y")
        with pytest.raises(ZeroDivisionError), storage_errors("store"):
            raise ZeroDivisionError

    def test_a_path_is_shown_escaped(self) -> None:
        """Terminals and logs must survive it, and it must survive JSON."""
        with pytest.raises(StorageIOError) as caught, storage_errors("a\n\udcff\x1b[2J"):
            raise OSError(errno.EIO, "raw")

        assert caught.value.where == "a\\n\\udcff\\x1b[2J"
        str(caught.value).encode()
