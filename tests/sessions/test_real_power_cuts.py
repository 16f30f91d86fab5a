"""Power cuts of a real file system with its real recovery, on every medium that syncs.

SQLite does its own reading and writing, below the disk seam, so no fake disk can cut its power.
Here an ext4 image is shut down the hard way while a process writes to it: all that was not synced
is dropped, the journal is replayed at the next mount. The instrument is checked first: a writer
that does not sync must be seen to lose.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from attachstore.disk import Disk
from attachstore.errors import AttachstoreError, SessionMissingError
from attachstore.sessions import JsonlMedium, SessionLogs, SessionMedium
from attachstore.sessions.sqlite import SqliteMedium
from tests.conformance.session_place import confirm, content_of

# From the kernel's fs/ext4/ext4.h: EXT4_IOC_SHUTDOWN, EXT4_GOING_FLAGS_NOLOGFLUSH.
_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2
_IMAGE_BYTES = 48 << 20

WRITER = """
import os, sys
from pathlib import Path
from attachstore.disk import Disk
from attachstore.errors import SessionMissingError
from attachstore.sessions import SessionLogs
from attachstore.sessions.jsonl import JsonlMedium
from attachstore.sessions.sqlite import SqliteMedium
from attachstore.sessions.sqlite_database import Database

class Unsynced(Disk):
    def sync_file(self, descriptor): pass
    def sync_data(self, descriptor): pass
    def sync_directory(self, path): pass

root, kind, synced = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "synced"
if not synced:
    Database._insist_on_durability = (
        lambda self, connection: connection.execute("PRAGMA synchronous = OFF")
    )
disk = Disk() if synced else Unsynced()
medium = {"jsonl": JsonlMedium, "sqlite": SqliteMedium}[kind](root, disk)
logs = SessionLogs(medium, lambda reference: None)
for attempt in range(1000000):
    name = f"s-{attempt % 4}"
    try:
        log = logs.load(name)
    except SessionMissingError:
        log = logs.create(name)
    number = log.head
    log.append_many([("message", [number + more, "x" * 900]) for more in range(1 + attempt % 3)])
    os.write(1, f"{name} {log.head}\\n".encode())
    if attempt % 5 == 0:
        log.close()
"""


def run(*command: str) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout


class Machine:
    """A file system in an image, whose power can be cut."""

    def __init__(self, directory: Path) -> None:
        self.image = directory / "image"
        self.mounted = directory / "mounted"
        self.mounted.mkdir()
        with self.image.open("wb") as file:
            file.truncate(_IMAGE_BYTES)
        run("mkfs.ext4", "-q", "-F", str(self.image))
        self.start()

    def start(self) -> None:
        run("mount", "-o", "loop", str(self.image), str(self.mounted))

    def cut_power(self) -> None:
        """Drop every byte that is not on the disk, with the part of the journal that is not."""
        descriptor = os.open(self.mounted, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(descriptor)

    def stop(self) -> None:
        """Unmount, and wait until the kernel has let go of the image.

        Another test may be in a mount namespace of its own, which keeps a copy of our mount. A
        mount made meanwhile would be the old one, shut down as it is.
        """
        run("umount", str(self.mounted))
        deadline_s = time.monotonic() + 60
        while run("losetup", "--associated", str(self.image)):
            assert time.monotonic() < deadline_s, "the image is still in use"
            time.sleep(0.01)

    def scrap(self) -> None:
        with contextlib.suppress(subprocess.SubprocessError):
            run("umount", "--lazy", str(self.mounted))


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine: Machine | None = None
    try:
        machine = Machine(tmp_path)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"no loop image can be made here: {error}")
    try:
        yield machine
    finally:
        machine.scrap()


def make(kind: str, root: Path) -> SessionMedium:
    return {"jsonl": JsonlMedium, "sqlite": SqliteMedium}[kind](root, Disk())


def stop(pid: int) -> None:
    """Let the process make no promise after this; a call that it is in goes on in the kernel.

    A real power cut ends the process with the disk. Here it would live on, and the kernel answers
    an fsync that was under way when its journal was aborted with OK now and then.
    """
    os.kill(pid, signal.SIGSTOP)
    while True:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state in {"T", "D"}:  # D: in the kernel, and stopped before it comes out
            return


def promises_until_the_cut(
    machine: Machine, kind: str, how: str, running_s: float
) -> dict[str, int]:
    """What a writer was promised before its power was cut: each session's head."""
    command = [sys.executable, "-c", WRITER, str(machine.mounted), kind, how]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert writer.stdout is not None
    select.select([writer.stdout], [], [], 30)  # the first promise
    time.sleep(running_s)
    stop(writer.pid)
    machine.cut_power()
    writer.kill()
    output, _ = writer.communicate()
    machine.stop()
    machine.start()
    heads: dict[str, int] = {}
    for line in output.decode().splitlines():
        name, head = line.split()
        heads[name] = int(head)
    assert heads, "the writer never got anywhere"
    return heads


def head_found(logs: SessionLogs, name: str) -> int:
    """What is there after the reboot; whatever it is, it is a prefix of what was written."""
    try:
        log = logs.load(name)
    except SessionMissingError:
        return 0
    numbers = [number for number, _ in content_of(logs, name)]
    assert numbers == list(range(log.head))
    return log.head


@pytest.mark.root
@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
def test_no_promise_is_broken_by_a_power_cut(machine: Machine, kind: str) -> None:
    for create in (JsonlMedium.create, SqliteMedium.create):
        create(machine.mounted, Disk()).close()

    promised: dict[str, int] = {}
    for round_ in range(6):
        promised |= promises_until_the_cut(machine, kind, "synced", 0.05 * round_)

        logs = SessionLogs(make(kind, machine.mounted), confirm)
        for name, head in promised.items():
            assert head_found(logs, name) >= head
        logs.close()


@pytest.mark.root
@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
def test_a_writer_that_does_not_sync_is_seen_to_lose(machine: Machine, kind: str) -> None:
    """Otherwise the test above would prove nothing."""
    for create in (JsonlMedium.create, SqliteMedium.create):
        create(machine.mounted, Disk()).close()
    machine.stop()
    machine.start()
    lost = 0

    for _ in range(5):  # whatever syncs everything meanwhile saves it once, not always
        promised = promises_until_the_cut(machine, kind, "unsynced", 0.3)
        logs = SessionLogs(make(kind, machine.mounted), confirm)
        with contextlib.suppress(AttachstoreError):  # it may leave damage, too
            lost += sum(head - min(head, head_found(logs, name)) for name, head in promised.items())
        logs.close()
    assert lost > 0
