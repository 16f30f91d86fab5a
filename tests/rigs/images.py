"""Real file systems in image files: made, mounted, cut off from power, mounted again.

mount(2) and the loop driver are called directly, because a rig mounts thousands of times. Loop
devices are set to go away with their last user, so none is left behind by a rig that is killed.
Everything here needs root and belongs into a mount namespace of its own (alone.py).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import struct
import subprocess
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

STEP_TIMEOUT_S = 60.0

# include/uapi/linux/loop.h; the layout of struct loop_config.
_CONFIGURE, _DETACH, _GET_FREE = 0x4C0A, 0x4C01, 0x4C82
_CONFIG = struct.Struct("II 5Q 4I 64s 64s 32s 2Q 8Q")
_AUTOCLEAR = 4
# include/uapi/linux/mount.h, sys/mount.h
_NO_TIMES = 1024 | 2048  # MS_NOATIME, MS_NODIRATIME
_READ_ONLY, _REMOUNT, _LAZY = 1, 32, 2
# FS_IOC_SHUTDOWN: ext4 and XFS know it under their own names. NOLOGFLUSH keeps the unwritten part
# of the journal from the disk, as a power cut does.
_SHUTDOWN, _NO_LOG_FLUSH = 0x8004587D, 2

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class FileSystem:
    """One configuration. `name` is what reports call it."""

    name: str
    kind: str
    make: tuple[str, ...]
    """The command that makes it; the image's path is added."""
    package: str
    size_bytes: int
    options: str = ""
    """Mount options."""
    shuts_down: bool = True
    """Whether it can be told to forget what is not on the disk; else its image is copied."""
    mend: tuple[str, ...] = ()
    """The command that its users run after a power cut, before they mount it."""


# No lazy initialisation: nothing should write to the image but the workload.
_EXT4 = ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0")
EXT4 = FileSystem("ext4", "ext4", _EXT4, "e2fsprogs", 64 << 20)
EXT4_WRITEBACK = FileSystem(
    "ext4 data=writeback", "ext4", _EXT4, "e2fsprogs", 64 << 20, "data=writeback"
)
EXT4_NO_JOURNAL = FileSystem(
    "ext4 without journal",
    "ext4",
    (*_EXT4, "-O", "^has_journal"),
    "e2fsprogs",
    64 << 20,
    mend=("e2fsck", "-f", "-y"),
)
XFS = FileSystem("XFS", "xfs", ("mkfs.xfs", "-q", "-f"), "xfsprogs", 300 << 20)
BTRFS = FileSystem(
    "btrfs", "btrfs", ("mkfs.btrfs", "-q", "-f"), "btrfs-progs", 128 << 20, shuts_down=False
)
JOURNALED = (EXT4, EXT4_WRITEBACK, XFS, BTRFS)


def run(*command: str, accept: tuple[int, ...] = (0,)) -> str:
    """Run a tool; what it printed. Raises RuntimeError with what it said."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=STEP_TIMEOUT_S,
        check=False,
    )
    if done.returncode not in accept:
        message = (
            f"{' '.join(command)}: {done.returncode}: {done.stdout[-400:]}{done.stderr[-400:]}"
        )
        raise RuntimeError(message)
    return done.stdout


def make_image(system: FileSystem, image: Path) -> None:
    """A new, empty file system in `image`."""
    with image.open("wb") as file:
        file.truncate(system.size_bytes)
    run(*system.make, str(image))
    dig_holes(image)


def dig_holes(image: Path) -> None:
    """Free the blocks that hold zeros only: mkfs writes many, and each copy would write them."""
    run("fallocate", "--dig-holes", str(image))


def extents(image: Path) -> Iterator[tuple[int, int]]:
    """Where an image's data begin and end; between them are holes."""
    descriptor = os.open(image, os.O_RDONLY)
    try:
        end = 0
        while True:
            try:
                start = os.lseek(descriptor, end, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # no data up to the end
                    return
                raise
            end = os.lseek(descriptor, start, os.SEEK_HOLE)
            yield start, end
    finally:
        os.close(descriptor)


def copy_image(source: Path, target: Path) -> None:
    """Copy, leaving the holes. What was in `target` is gone."""
    reading = os.open(source, os.O_RDONLY)
    writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.ftruncate(writing, os.fstat(reading).st_size)
        for start, end in extents(source):
            os.lseek(writing, start, os.SEEK_SET)
            offset = start
            while offset < end:
                offset += os.sendfile(writing, reading, offset, end - offset)
    finally:
        os.close(reading)
        os.close(writing)


@contextlib.contextmanager
def loop_device(file: Path, size_bytes: int = 0) -> Generator[str]:
    """A block device over `file` (its first `size_bytes`); it goes away with its last user."""
    backing = os.open(file, os.O_RDWR)
    try:
        descriptor, path = _configure(backing, size_bytes)
    finally:
        os.close(backing)
    try:
        yield path
    finally:
        os.close(descriptor)


def _configure(backing: int, size_bytes: int) -> tuple[int, str]:
    config = bytearray(
        _CONFIG.pack(
            *(backing, 0),
            *(0, 0, 0, 0, size_bytes),
            *(0, 0, 0, _AUTOCLEAR),
            *(b"", b"", b"", 0, 0),
            *(0,) * 8,
        )
    )
    control = os.open("/dev/loop-control", os.O_RDWR)
    try:
        until_s = time.monotonic() + STEP_TIMEOUT_S
        while True:
            path = f"/dev/loop{fcntl.ioctl(control, _GET_FREE)}"
            descriptor = os.open(path, os.O_RDWR)
            try:
                fcntl.ioctl(descriptor, _CONFIGURE, config)
            except OSError as error:
                os.close(descriptor)
                # Somebody else took this one: there are more.
                if error.errno != errno.EBUSY or time.monotonic() > until_s:
                    raise
            else:
                return descriptor, path
    finally:
        os.close(control)


def mount(system: FileSystem, image: Path, where: Path, size_bytes: int = 0) -> None:
    """Mount; what a power cut has left is recovered by the file system itself."""
    with loop_device(image, size_bytes) as device:
        mount_device(device, where, system.kind, system.options)


def mount_device(device: str, where: Path, kind: str, options: str = "", flags: int = 0) -> None:
    arguments = (device.encode(), os.fsencode(where), kind.encode(), flags | _NO_TIMES)
    _checked(_libc.mount(*arguments, options.encode()), f"mount {device} ({kind}) {where}")


def remount(where: Path, *, read_only: bool) -> None:
    flags = _REMOUNT | (_READ_ONLY if read_only else 0)
    _checked(_libc.mount(None, os.fsencode(where), None, flags, None), f"remount {where}")


def mount_tmpfs(where: Path, options: str) -> None:
    mount_device("rig", where, "tmpfs", options)


def resize_tmpfs(where: Path, options: str) -> None:
    """Give it other limits; those that are not named stay."""
    result = _libc.mount(None, os.fsencode(where), None, _REMOUNT, options.encode())
    _checked(result, f"remount {where} {options}")


def unmount(where: Path) -> None:
    """Unmount, waiting for whoever is still on the way out of it."""
    until_s = time.monotonic() + STEP_TIMEOUT_S
    while _libc.umount2(os.fsencode(where), 0) != 0:
        number = ctypes.get_errno()
        if number != errno.EBUSY or time.monotonic() > until_s:
            raise OSError(number, os.strerror(number), f"umount {where}")
        time.sleep(0.001)


def scrap(where: Path) -> None:
    """Take whatever is mounted there away, sick or busy as it may be."""
    _libc.umount2(os.fsencode(where), _LAZY)


def shut_down(where: Path) -> None:
    """Cut the power: all that is not on the disk is forgotten, the journal's rest with it."""
    descriptor = os.open(where, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
    finally:
        os.close(descriptor)


def sync(where: Path) -> None:
    """Everything of this file system to the disk."""
    descriptor = os.open(where, os.O_RDONLY)
    try:
        _checked(_libc.syncfs(descriptor), f"syncfs {where}")
    finally:
        os.close(descriptor)


def start_writeout(descriptor: int) -> None:
    """Let the kernel begin to write a file, as it does by itself after a while."""
    everything = ctypes.c_int64(0)
    _libc.sync_file_range(descriptor, everything, everything, 2)  # SYNC_FILE_RANGE_WRITE


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
