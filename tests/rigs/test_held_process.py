"""The process that is held at each call that changes a file system."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.rigs.held_process import HeldProcess, unavailable

pytestmark = pytest.mark.skipif(
    unavailable() is not None, reason=f"no process can be held here: {unavailable()}"
)


def write_twice(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.pwrite(descriptor, b"first", 0)
    os.fsync(descriptor)
    os.pwrite(descriptor, b"other", 0)
    os.rename(path, path.with_name("renamed"))


def test_every_call_that_changes_something_waits_for_its_turn(tmp_path: Path) -> None:
    seen: list[tuple[str, bytes | None]] = []
    with HeldProcess(lambda: write_twice(tmp_path / "file")) as writer:
        for call in writer.calls():
            path = tmp_path / "file"
            seen.append((call.name, path.read_bytes() if path.exists() else None))
            writer.go_on(call)
        assert writer.status == 0, writer.complaint

    assert seen == [
        ("openat", None),
        ("pwrite64", b""),
        ("fsync", b"first"),
        ("pwrite64", b"first"),
        ("rename", b"other"),
    ]


def test_a_call_can_be_answered_without_being_done(tmp_path: Path) -> None:
    with HeldProcess(lambda: write_twice(tmp_path / "file")) as writer:
        for call in writer.calls():
            if call.name == "fsync":
                writer.answer(call, errno.EIO)
            else:
                writer.go_on(call)

        assert writer.status == 1
        assert "OSError: [Errno 5]" in writer.complaint
    assert (tmp_path / "file").read_bytes() == b"first"


def test_a_stopped_process_gets_no_further(tmp_path: Path) -> None:
    """Otherwise it could be promised something by a disk that is no longer there."""
    with HeldProcess(lambda: write_twice(tmp_path / "file")) as writer:
        for call in writer.calls():
            if call.name == "fsync":
                writer.stop()
            writer.go_on(call)
            if call.name == "fsync":
                writer.kill()

        assert writer.status == -9
    assert (tmp_path / "file").read_bytes() == b"first"


def test_a_borrowed_descriptor_is_the_same_open_file(tmp_path: Path) -> None:
    """The kernel tells each open file once that it could not be written."""

    def seek_and_sync() -> None:
        descriptor = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
        os.lseek(descriptor, 3, os.SEEK_SET)
        os.fsync(descriptor)

    with HeldProcess(seek_and_sync) as writer:
        for call in writer.calls():
            if call.name == "fsync":
                descriptor = writer.borrow(call.arguments[0])
                assert os.lseek(descriptor, 0, os.SEEK_CUR) == 3
                os.close(descriptor)
            writer.go_on(call)
        assert writer.status == 0, writer.complaint
