"""Files without a name: opened here wherever they can be linked later, and are worth it then.

A file that has no name goes with its writer, however that ends, so nothing is left to sweep. It
needs O_TMPFILE, /proc to link it by, and a file system that makes a new name and the file's count
of names durable together. ext4 without a journal does not: it writes the name when the directory
is synced, and the count (still 0) was written when the file was; after a power cut `e2fsck` finds
a name of a file that nobody needs, and removes it (rig 6 saw it; docs/reliability.md).
"""

from __future__ import annotations

import errno
import functools
import os
from pathlib import Path

from attachstore.disk import UNSUPPORTED, Disk

# EISDIR: what a kernel that does not know O_TMPFILE makes of its bits.
_NO_UNNAMED = UNSUPPORTED | {errno.EISDIR}
_DESCRIPTORS = Path("/proc/self/fd")  # how an unnamed file gets its name


def unnamed_files_last(disk: Disk, directory: Path) -> bool:
    """Whether a file that is opened without a name in `directory` can be linked, and lasts."""
    try:
        disk.status_followed(_DESCRIPTORS)
    except FileNotFoundError:  # a container without /proc
        return False
    return not forgets_counts(directory)


def open_unnamed(disk: Disk, directory: Path, mode: int) -> int | None:
    """A new file without a name, or None where the file system has none. Raises OSError."""
    try:
        return disk.open_temporary(directory, mode)
    except OSError as error:
        if error.errno not in _NO_UNNAMED:
            raise
        return None


def forgets_counts(directory: Path) -> bool:
    """Whether this is known to be ext4 without a journal."""
    try:
        device = os.stat(directory).st_dev  # noqa: PTH116 - the file system, not stored data
        # A device number may be another file system's tomorrow; the identity goes with it.
        return _is_journal_less(device, os.statvfs(directory).f_fsid)
    except OSError:
        return False


@functools.lru_cache(maxsize=64)
def _is_journal_less(device: int, _identity: int) -> bool:
    # sysfs names a device as /proc/fs does, whatever it was mounted as.
    link = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    try:
        name = os.path.basename(os.readlink(link))  # noqa: PTH115, PTH119 - /sys, not stored data
        if name not in os.listdir("/proc/fs/ext4"):  # noqa: PTH208 - names only
            return False
        journals = os.listdir("/proc/fs/jbd2")  # noqa: PTH208 - names only
    except OSError:
        return False
    return not any(journal.rpartition("-")[0] == name for journal in journals)
