"""Sources: what is read, what is refused at once, and what a changing file does."""

from __future__ import annotations

import io
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from attachstore.admission import AdmissionPolicy, Gatherer, admit, read_file
from attachstore.admission.source import MEMORY_BYTES_MAX
from attachstore.attachment import BytesContent, Content
from attachstore.digest import Digest
from attachstore.disk import BLOCK_BYTES, Disk
from attachstore.errors import (
    ResourceExhaustedError,
    SourceChangedError,
    SourceMissingError,
    SourceNotAFileError,
    SourceUnreadableError,
    StorageFullError,
    TooManyBytesError,
)
from attachstore.threads import CancelFlag, Cancelled
from tests.admission.test_cases import CASES
from tests.faults import failing_disks


class MemorySpool:
    """A Spool that remembers how it ended."""

    def __init__(self) -> None:
        self.written = io.BytesIO()
        self.ended: list[str] = []

    def write(self, block: bytes | memoryview) -> None:
        self.written.write(block)

    def finish(self) -> Content:
        self.ended.append("finish")
        return BytesContent(self.written.getvalue())

    def discard(self) -> None:
        self.ended.append("discard")


class Spools:
    """Makes spools and keeps them."""

    def __init__(self) -> None:
        self.made: list[MemorySpool] = []

    def __call__(self) -> MemorySpool:
        self.made.append(MemorySpool())
        return self.made[-1]


def gatherer(spools: Spools, bytes_max: int = 1 << 30) -> Gatherer:
    return Gatherer(spools, bytes_max, "source")


def read(path: Path, bytes_max: int = 1 << 30, disk: Disk | None = None) -> bytes:
    content = read_file(disk or Disk(), path, gatherer(Spools(), bytes_max))
    with content.open() as reader:
        data = reader.read()
    assert content.digest == Digest.of(data)
    assert content.size == len(data)
    return data


def test_a_small_source_stays_in_memory_and_a_large_one_is_spooled(tmp_path: Path) -> None:
    for size, spooled in ((0, 0), (1, 0), (MEMORY_BYTES_MAX, 0), (MEMORY_BYTES_MAX + 1, 1)):
        path = tmp_path / str(size)
        path.write_bytes(os.urandom(size))
        spools = Spools()

        content = read_file(Disk(), path, gatherer(spools))

        assert len(spools.made) == spooled, size
        assert content.digest == Digest.of(path.read_bytes())


def test_blocks_of_any_size_make_the_same_content() -> None:
    data = os.urandom(3 << 20)
    for step in (1 << 10, BLOCK_BYTES - 1, BLOCK_BYTES, 5 << 20):
        into = gatherer(Spools())
        for at in range(0, len(data), step):
            into.write(bytearray(data[at : at + step]))
        assert into.finish().digest == Digest.of(data)


@pytest.mark.parametrize("size", [4096, 4097, 5000, 2 << 20])
def test_a_stream_is_read_one_byte_past_the_limit_and_no_further(size: int) -> None:
    """Case 037: from bytes, from a path and from a stream that cannot seek."""
    spools = Spools()
    into = gatherer(spools, 4096)
    source = io.BytesIO(bytes(size))

    def pump() -> None:
        while block := source.read(into.room_bytes):
            into.write(block)

    if size <= 4096:
        pump()
        assert into.finish().size == size
        return
    with pytest.raises(TooManyBytesError) as caught:
        pump()
    assert caught.value.bytes_max == 4096
    assert source.tell() == 4097
    into.discard()
    assert spools.made == []


def test_a_file_at_the_limit_is_read_and_one_over_it_is_not(tmp_path: Path) -> None:
    for case, fits in (("at.txt", True), ("over.txt", False)):
        path = CASES / "037-byte-limit-exact" / case
        if fits:
            assert len(read(path, 4096)) == 4096
        else:
            with pytest.raises(TooManyBytesError):
                read(path, 4096)


def test_a_refused_source_leaves_no_spool_behind(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(bytes(3 << 20))
    spools = Spools()

    with pytest.raises(TooManyBytesError):
        read_file(Disk(), path, gatherer(spools, 2 << 20))

    assert [spool.ended for spool in spools.made] == [["discard"]]


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def make_directory(path: Path) -> None:
    path.mkdir()


def link_to_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (make_fifo, "a named pipe"),
        (make_directory, "a directory"),
        (make_socket, "a socket"),
        (link_to_device, "a device"),
        (link_to_itself, "a loop of links"),
    ],
)
def test_what_is_no_regular_file_is_refused_at_once(
    tmp_path: Path, make: Callable[[Path], None], kind: str
) -> None:
    """Nobody writes to the pipe: opening it as usual would wait for ever (case 083)."""
    path = tmp_path / "source"
    make(path)
    result: list[BaseException] = []

    def attempt() -> None:
        try:
            read(path)
        except BaseException as error:  # noqa: BLE001 - handed to the test's thread
            result.append(error)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(10)

    assert not thread.is_alive()
    assert isinstance(result[0], SourceNotAFileError)
    assert result[0].kind == kind


def test_a_pipe_that_takes_the_place_of_the_file_is_refused_too(tmp_path: Path) -> None:
    """Between looking and opening anything may happen: the descriptor is looked at again."""
    path = tmp_path / "source"
    path.write_bytes(b"a file")

    class Swapping(Disk):
        def open_source(self, path: Path) -> int:
            path.unlink()
            os.mkfifo(path)
            return super().open_source(path)

    with pytest.raises(SourceNotAFileError, match="a named pipe"):
        read(path, disk=Swapping())


def test_a_link_is_followed_to_a_regular_file(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"data")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("nowhere")

    assert read(tmp_path / "link") == b"data"
    with pytest.raises(SourceMissingError):
        read(tmp_path / "dangling")


@pytest.mark.parametrize("name", ["absent", "a\0b", "x" * 300, "file/below", "Screenshot 5 PM.png"])
def test_a_path_that_leads_nowhere_is_shown_escaped(tmp_path: Path, name: str) -> None:
    """A narrow no-break space is no space; the message lets one see it (case 077)."""
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "Screenshot 5\u202fPM.png").write_bytes(b"")

    with pytest.raises(SourceMissingError) as caught:
        read(tmp_path / name)

    assert caught.value.where == ascii(str(tmp_path / name))[1:-1]
    assert read(tmp_path / "Screenshot 5\u202fPM.png") == b""


def test_files_whose_size_is_a_lie_are_read_to_their_end() -> None:
    """Everything in /proc says 0 bytes."""
    assert len(read(Path("/proc/self/status"))) > 100


def test_a_file_of_another_user_is_unreadable(tmp_path: Path) -> None:
    class Denied(Disk):
        def open_source(self, path: Path) -> int:
            raise PermissionError(13, "Permission denied", str(path))

    class Failing(Disk):
        def read_into(
            self, descriptor: int, buffer: memoryview | bytearray, offset_bytes: int
        ) -> int:
            raise OSError(5, "Input/output error")

    class OutOfDescriptors(Disk):
        def open_source(self, path: Path) -> int:
            raise OSError(24, "Too many open files")

    path = tmp_path / "file"
    path.write_bytes(b"x")
    with pytest.raises(SourceUnreadableError, match="EACCES"):
        read(path, disk=Denied())
    with pytest.raises(SourceUnreadableError, match="EIO"):
        read(path, disk=Failing())
    with pytest.raises(ResourceExhaustedError, match="descriptors"):
        read(path, disk=OutOfDescriptors())


class Meddling(Disk):
    """Does something to the source after the first block was read."""

    def __init__(self, meddle: Callable[[], object]) -> None:
        self._meddle = meddle
        self._reads = 0

    def read_into(self, descriptor: int, buffer: memoryview | bytearray, offset_bytes: int) -> int:
        got = super().read_into(descriptor, buffer, offset_bytes)
        self._reads += 1
        if self._reads == 1:
            self._meddle()
        return got


@pytest.mark.parametrize("change", ["grow", "shrink", "rewrite", "touch"])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, change: str) -> None:
    path = tmp_path / "source"
    path.write_bytes(bytes(BLOCK_BYTES * 2))
    os.utime(path, (1, 1))  # the tests' own writing must not hide the change in one clock tick

    def meddle() -> None:
        if change == "grow":
            with path.open("ab") as file:
                file.write(b"more")
        elif change == "shrink":
            os.truncate(path, 0)
        elif change == "rewrite":
            with path.open("r+b") as file:
                file.write(b"other")
        else:
            os.utime(path, (2, 2))

    with pytest.raises(SourceChangedError):
        read(path, disk=Meddling(meddle))


def test_a_file_that_is_replaced_while_it_is_read_is_the_old_one(tmp_path: Path) -> None:
    """The descriptor keeps what was opened (case 086 d); its link count changes, and its ctime."""
    path, new = tmp_path / "source", tmp_path / "new"
    old = os.urandom(BLOCK_BYTES * 2)
    path.write_bytes(old)
    new.write_bytes(b"new")
    os.link(path, tmp_path / "second name")  # so that replacing it is no unlink

    try:
        data = read(path, disk=Meddling(lambda: new.replace(path)))
    except SourceChangedError:
        return
    assert data == old


def test_a_cancelled_read_stops_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "source"
    path.write_bytes(bytes(BLOCK_BYTES * 4))
    cancel, spools = CancelFlag(), Spools()

    with pytest.raises(Cancelled):
        read_file(Meddling(cancel.set), path, gatherer(spools), cancel)

    assert all(spool.ended == ["discard"] for spool in spools.made)
    assert not [link for link in Path("/proc/self/fd").iterdir() if _leads_to(link, path)]


def test_a_full_disk_under_the_spool_is_no_fault_of_the_source(tmp_path: Path) -> None:
    class FullSpool(MemorySpool):
        def write(self, block: bytes | memoryview) -> None:
            raise StorageFullError(where="staging", reason="ENOSPC")

    path = tmp_path / "source"
    path.write_bytes(bytes(3 << 20))

    with pytest.raises(StorageFullError):
        read_file(Disk(), path, Gatherer(FullSpool, 1 << 30, "source"))


def test_every_call_on_the_source_fails_as_the_sources_fault(tmp_path: Path) -> None:
    """Also the close, and a close after another failure, which would hide that one."""
    path = tmp_path / "source.txt"
    path.write_bytes(b"text")
    for sticky in (False, True):
        for disk in failing_disks(sticky=sticky):
            try:
                read_file(disk, path, Gatherer(MemorySpool, 1 << 20, "here")).close()
            except SourceUnreadableError:
                assert disk.landed
            else:
                assert not disk.landed


def test_twelve_megabytes_in_one_line_are_text(tmp_path: Path) -> None:
    """Case 040; and the source may be edited in place afterwards (case 088)."""
    path = tmp_path / "output.txt"
    path.write_bytes(b"diff line 1 " * 1_000_000)
    content = read_file(Disk(), path, gatherer(Spools()))
    path.write_bytes(b"something else")

    attachment = admit(content, AdmissionPolicy())

    assert attachment.header.media_type == "text/plain"
    assert attachment.content.size == 12_000_000


def _leads_to(link: Path, path: Path) -> bool:
    try:
        return link.readlink() == path
    except FileNotFoundError:
        return False
