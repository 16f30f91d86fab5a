"""Scratch: bytes come back whether a file takes them or not, and nothing of it stays behind."""

from __future__ import annotations

import errno
import logging
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attachstore.disk import Disk
from attachstore.errors import StorageIOError
from attachstore.integrity.scratch import Scratch
from tests.descriptors import open_descriptors
from tests.faults import InterceptedDisk

PIECES = [bytes([number]) * 40 for number in range(10)]
WHOLE = b"".join(PIECES)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files are made, behind a link as on macOS."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "link"))
    return tmp_path / "real"


class FaultyDisk(InterceptedDisk):
    """`faults` may raise before the call that it is named after; or do something else."""

    def __init__(self, **faults: Callable[[], object]) -> None:
        super().__init__()
        self._faults = faults

    def intercept(self, method: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        if method in self._faults:
            self._faults[method]()
        return call()


def fails(number: int) -> Callable[[], object]:
    def fail() -> None:
        raise OSError(number, os.strerror(number))

    return fail


def filled(scratch: Scratch) -> Scratch:
    for piece in PIECES:
        scratch.append(piece)
    return scratch


def assert_whole(scratch: Scratch) -> None:
    assert len(scratch) == len(WHOLE)
    for start in range(0, len(WHOLE), 17):
        for end in range(start, len(WHOLE), 23):
            assert scratch.read(end - start, start) == WHOLE[start:end]


@pytest.mark.parametrize("memory_bytes", [1, 100, 1000])
def test_any_part_can_be_read_back(memory_bytes: int) -> None:
    """From the file, from memory, and from both."""
    assert_whole(filled(Scratch(memory_bytes=memory_bytes)))


def test_little_makes_no_file() -> None:
    before = open_descriptors()
    scratch = filled(Scratch(FaultyDisk(open_temporary=pytest.fail), memory_bytes=1000))

    assert_whole(scratch)
    assert open_descriptors() <= before


@pytest.mark.parametrize("error", [None, errno.EOPNOTSUPP, errno.EISDIR])
def test_the_file_has_no_name_and_goes_when_it_is_closed(place: Path, error: int | None) -> None:
    """Also where it has to have one for a moment."""
    disk = Disk() if error is None else FaultyDisk(open_temporary=fails(error))
    before = open_descriptors()
    scratch = filled(Scratch(disk, memory_bytes=100))

    assert open_descriptors() == before + 1
    assert list(place.iterdir()) == []
    assert_whole(scratch)
    scratch.close()
    scratch.close()
    assert open_descriptors() <= before


@pytest.mark.parametrize(
    ("method", "number"),
    [
        ("open_temporary", errno.EROFS),
        ("open_temporary", errno.EACCES),
        ("open_temporary", errno.EMFILE),
        ("write", errno.ENOSPC),
        ("write", errno.EIO),
        ("sync_data", errno.EIO),
    ],
)
def test_what_no_file_takes_stays_in_memory_and_is_told_once(
    method: str, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "attachstore"):
        scratch = filled(Scratch(FaultyDisk(**{method: fails(number)}), memory_bytes=100))

    assert_whole(scratch)
    assert [record.message for record in caplog.records if "stays in memory" in record.message]
    assert len(caplog.records) == 1


def test_a_disk_that_fills_up_loses_nothing() -> None:
    """What was written before is read from the file, the rest from memory."""
    writes: list[int] = []

    def third_fails() -> None:
        writes.append(1)
        if len(writes) == 3:
            raise OSError(errno.ENOSPC, "full")

    assert_whole(filled(Scratch(FaultyDisk(write=third_fails), memory_bytes=100)))
    assert len(writes) == 3, "it is not tried again for every piece"


def test_without_a_directory_for_temporary_files_all_stays_in_memory(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)

    assert_whole(filled(Scratch(memory_bytes=100)))
    assert "stays in memory" in caplog.text


def test_a_name_that_cannot_be_removed_leaves_no_descriptor_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = FaultyDisk(open_temporary=fails(errno.EOPNOTSUPP), unlink=fails(errno.EACCES))
    before = open_descriptors()

    assert_whole(filled(Scratch(disk, memory_bytes=100)))
    assert open_descriptors() <= before


def test_a_file_that_cannot_be_read_back_is_an_error_of_ours() -> None:
    scratch = filled(Scratch(FaultyDisk(read_into=fails(errno.EIO)), memory_bytes=100))

    with pytest.raises(StorageIOError, match="EIO"):
        scratch.read(10, 0)


def test_a_file_that_has_lost_its_end_is_an_error_of_ours() -> None:
    """Fewer objects than there were would be called missing, or not be looked at."""
    scratch = filled(Scratch(memory_bytes=100))
    descriptor = scratch._descriptor
    assert descriptor is not None
    os.ftruncate(descriptor, 50)

    with pytest.raises(StorageIOError, match="shorter"):
        scratch.read(100, 0)
