"""The faults of rig 9: what machines do to programs every day, done by the real kernel.

Each is a NaturalFault. `around` is what the rig does to the place before the work and undoes
after it, `inside` what the process does to itself, `before_call` what happens in between.
`degrees` say how much is left to the work, from nothing to too much to be noticed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import struct
import time
from collections.abc import Generator, Iterable
from pathlib import Path

from attachstore import daemon
from tests.rigs.images import remount, resize_tmpfs

# include/uapi/linux/fs.h
_GET_FLAGS, _SET_FLAGS = 0x80086601, 0x40086602
_IMMUTABLE, _APPEND_ONLY = 0x10, 0x20
_GROUPS = Path("/sys/fs/cgroup")
_SETTLING_S = 10.0


class NaturalFault:
    """Does nothing yet. `place` is the mounted tmpfs; the store is in `place`/place/store."""

    name = ""
    told_as: frozenset[str] = frozenset()
    """Codes of the errors that say so."""
    degrees: tuple[int, ...] = (0,)
    needs_root = False
    """Of the machine; else being root in a user namespace is enough."""
    may_kill = False

    def reason_not_to_run(self) -> str:
        return "needs root" if self.needs_root and not _is_root_of_the_machine() else ""

    @contextlib.contextmanager
    def around(self, place: Path, degree: int) -> Generator[None]:
        yield

    def inside(self, degree: int) -> None:
        """In the process, before it works."""

    def before_call(self, pid: int, place: Path, number: int, degree: int) -> None:
        """By the rig, before the process's `number`-th call that changes something."""


class FullDisk(NaturalFault):
    """So many bytes are free on the tmpfs; a write of more is short, then ENOSPC."""

    name = "full disk"
    told_as = frozenset({"storage-full"})
    degrees = (0, 4 << 10, 8 << 10, 24 << 10, 64 << 10, 1 << 20, 3 << 20)

    @contextlib.contextmanager
    def around(self, place: Path, degree: int) -> Generator[None]:
        status = os.statvfs(place)
        used_bytes = (status.f_blocks - status.f_bfree) * status.f_frsize
        resize_tmpfs(place, f"size={used_bytes + degree}")
        yield
        resize_tmpfs(place, f"size={status.f_blocks * status.f_frsize}")


class NoInodes(NaturalFault):
    """So many files more can be made."""

    name = "no inodes"
    told_as = frozenset({"storage-full"})
    degrees = (0, 1, 2, 3)

    @contextlib.contextmanager
    def around(self, place: Path, degree: int) -> Generator[None]:
        status = os.statvfs(place)
        resize_tmpfs(place, f"nr_inodes={status.f_files - status.f_ffree + degree}")
        yield
        resize_tmpfs(place, f"nr_inodes={status.f_files}")


class FileSizeLimit(NaturalFault):
    """No file grows beyond so many bytes (RLIMIT_FSIZE); a write is short, then EFBIG.

    SQLite says of EFBIG only that a write failed.
    """

    name = "file-size limit"
    told_as = frozenset({"storage-full", "storage-io"})
    degrees = (0, 10, 1_500, 2_000, 5_000, 40_000, 1 << 20)

    def inside(self, degree: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (degree, degree))


class DescriptorLimit(NaturalFault):
    """So many descriptors more can be opened (RLIMIT_NOFILE)."""

    name = "descriptor limit"
    told_as = frozenset({"resource-exhausted"})
    degrees = (0, 1, 2, 3, 4, 5, 6, 8, 10)

    def inside(self, degree: int) -> None:
        highest = max(int(name) for name in os.listdir("/proc/self/fd"))
        for free in set(range(highest)) - {int(name) for name in os.listdir("/proc/self/fd")}:
            with contextlib.suppress(OSError):
                os.dup2(0, free, inheritable=False)
        limit = highest + 1 + degree
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


class ReadOnlyRemount(NaturalFault):
    """Read-only from that call on, or from the next moment when no file is open for writing."""

    name = "read-only remount"
    told_as = frozenset({"storage-read-only"})
    degrees = (1, 4, 8, 16, 32)

    def __init__(self) -> None:
        self._done = False

    @contextlib.contextmanager
    def around(self, place: Path, degree: int) -> Generator[None]:
        self._done = False
        yield
        remount(place, read_only=False)

    def before_call(self, pid: int, place: Path, number: int, degree: int) -> None:
        if number >= degree and not self._done:
            with contextlib.suppress(OSError):  # EBUSY: a file is open for writing
                remount(place, read_only=True)
                self._done = True


class Flagged(NaturalFault):
    """`chattr +i` or `+a` on something of the store: EPERM, for root too."""

    told_as = frozenset({"storage-read-only"})
    needs_root = True

    def __init__(self, flag: int, what: str, *paths: str) -> None:
        word = "immutable" if flag == _IMMUTABLE else "append-only"
        self.name = f"{word} {what}"
        self._flag = flag
        self._paths = paths

    @contextlib.contextmanager
    def around(self, place: Path, degree: int) -> Generator[None]:
        root = place / "place" / "store"
        for path in [it for pattern in self._paths for it in root.glob(pattern)]:
            _set_flag(path, self._flag, on=True)
        yield
        for path in [root, *root.rglob("*")]:  # what is marked may have another name now
            _set_flag(path, self._flag, on=False)


class AddressSpaceLimit(NaturalFault):
    """No more address space from that call on (RLIMIT_AS): MemoryError, and no new threads."""

    name = "address-space limit"
    told_as = frozenset({"resource-exhausted"})
    degrees = (1, 2, 4, 7, 11, 16, 24)

    def inside(self, degree: int) -> None:
        daemon._BEGINNING_S = 1.0  # a thread that dies as it begins is what is looked for here

    def before_call(self, pid: int, place: Path, number: int, degree: int) -> None:
        if number == degree:
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
            limit = pages * resource.getpagesize()
            resource.prlimit(pid, resource.RLIMIT_AS, (limit, limit))


class MemoryGroup(NaturalFault):
    """So many bytes of memory, files on the tmpfs included (a cgroup): the kernel kills."""

    name = "memory limit of a group"
    degrees = (1 << 20, 2 << 20, 4 << 20)
    needs_root = True
    may_kill = True

    def __init__(self) -> None:
        self._group: Path | None = None

    def reason_not_to_run(self) -> str:
        if reason := super().reason_not_to_run():
            return reason
        try:
            with self.around(Path("/"), 1 << 30):
                return ""
        except OSError as error:
            return f"no memory group can be made: {error.strerror}"

    @contextlib.contextmanager
    def around(self, place: Path, degree: int) -> Generator[None]:
        version_1 = (_GROUPS / "memory").is_dir()
        group = _GROUPS / ("memory" if version_1 else "") / f"attachstore-rig-{time.time_ns()}"
        group.mkdir()
        try:
            limit = "memory.limit_in_bytes" if version_1 else "memory.max"
            (group / limit).write_text(str(degree))
            self._no_swap(group, degree)
            self._group = group
            yield
        finally:
            _remove_group(group)

    def _no_swap(self, group: Path, degree: int) -> None:
        for name, value in (("memory.memsw.limit_in_bytes", degree), ("memory.swap.max", 0)):
            if (group / name).exists():
                (group / name).write_text(str(value))

    def inside(self, degree: int) -> None:
        assert self._group is not None
        (self._group / "cgroup.procs").write_text("0")


def all_faults() -> Iterable[NaturalFault]:
    """One of each kind."""
    return (
        FullDisk(),
        NoInodes(),
        FileSizeLimit(),
        DescriptorLimit(),
        ReadOnlyRemount(),
        AddressSpaceLimit(),
        Flagged(_IMMUTABLE, "objects", "objects/blake3/??/*", "objects/blake3/??"),
        Flagged(_IMMUTABLE, "staging", "staging"),
        Flagged(_IMMUTABLE, "logs", "sessions/*/log*", "sessions.db*"),
        Flagged(_IMMUTABLE, "sessions", "sessions/*", "sessions"),
        Flagged(_APPEND_ONLY, "logs", "sessions/*/log*", "sessions.db*"),
        Flagged(_APPEND_ONLY, "directories", "sessions", "sessions/*", "objects/blake3/??"),
        MemoryGroup(),
    )


def _is_root_of_the_machine() -> bool:
    """And not only in a user namespace."""
    everybody = ["0", "0", str((1 << 32) - 1)]
    return os.geteuid() == 0 and Path("/proc/self/uid_map").read_text().split() == everybody


def _set_flag(path: Path, flag: int, *, on: bool) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        buffer = bytearray(8)
        fcntl.ioctl(descriptor, _GET_FLAGS, buffer)
        (flags,) = struct.unpack("l", buffer)
        fcntl.ioctl(descriptor, _SET_FLAGS, struct.pack("l", flags | flag if on else flags & ~flag))
    finally:
        os.close(descriptor)


def _remove_group(group: Path) -> None:
    until_s = time.monotonic() + _SETTLING_S
    while True:
        try:
            group.rmdir()
        except OSError as error:  # its last process is on its way out
            if error.errno != errno.EBUSY or time.monotonic() > until_s:
                raise
            time.sleep(0.01)
        else:
            return
