"""attachstore.json: what makes a directory a store, and the kind of file system it lies on.

The file is made last, by temporary file and link, so a directory with it is a complete store,
and of two processes that create one at the same time the loser takes the winner's. A directory
that holds anything else and lacks it is somebody's documents: refused, never grown into.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
import uuid
from collections.abc import Generator, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from attachstore.destination import destination_errors
from attachstore.disk import (
    Disk,
    ensure_directory,
    is_regular,
    layout_errors,
    leads_to,
    read_all,
    remove_quietly,
    storage_errors,
    write_all,
)
from attachstore.errors import (
    DestinationError,
    InvalidConfigurationError,
    StoreForeignError,
    StoreLayoutError,
    StoreVersionError,
)

FORMAT = 1
MARKER = "attachstore.json"
JSONL = "jsonl"
SQLITE = "sqlite"
LOCKS = "locks"
MEDIUM_LOCK = ".medium"
"""In `locks/`: shared by everybody who writes sessions. No session has that name."""
_MARKER_BYTES_MAX = 64 << 10
_OWN_NAMES = frozenset({"objects", "staging", "quarantine", "intake", "sessions", LOCKS})
DATABASE = "sessions.db"
"""The session logs of a store that keeps them in SQLite."""
DATABASE_MARK = b"ATSS"
"""The application id in that file."""
_DATABASE_MARK_OFFSET_BYTES = 68  # https://sqlite.org/fileformat2.html, "The Database Header"
SESSION_NAMES = {
    JSONL: ("sessions",),
    SQLITE: (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm"),
}
"""What below the root holds the session logs, for each medium."""
_NOTHING = frozenset({errno.ENOENT, errno.ENOTDIR})
_NOWHERE = _NOTHING | {errno.ENAMETOOLONG, errno.ELOOP}
_TEMPORARY_PREFIX = "spool-"
_OBJECT = re.compile(r"objects/blake3/[0-9a-f]{2}/[0-9a-f]{64}")
_MEND_LOST_MARKER = (
    f"If it is a store that has lost its {MARKER}, put that back from a copy, or write it anew "
    "(docs/how-to/restore.md). Else give an empty or new directory, or the path of a store."
)
_HARMLESS = frozenset({"lost+found"})  # what a fresh ext4 volume holds


@dataclass(frozen=True, slots=True)
class Marker:
    """The contents of attachstore.json."""

    id: str
    created_at: str
    sessions: str
    """The medium of the session logs."""


def read_marker(disk: Disk, root: Path) -> Marker | None:
    """What the store at `root` says of itself; None if there is no store.

    Raises:
        StoreForeignError: the file is another application's.
        StoreVersionError: a newer attachstore wrote it.
        StoreLayoutError: it is damaged.
    """
    path = root / MARKER
    with storage_errors(path), layout_errors(path):
        try:
            descriptor = disk.open_read(path)
        except OSError as error:
            if error.errno in _NOTHING or not _is_anywhere(disk, root):
                return None
            raise
        try:
            if not is_regular(disk.status_open(descriptor)):
                raise StoreLayoutError(where=str(path), reason="it is not a regular file")
            text = read_all(disk, descriptor, _MARKER_BYTES_MAX)
        finally:
            disk.close(descriptor)
    return _parse(path, text)


def _is_anywhere(disk: Disk, root: Path) -> bool:
    """Whether the path of a store leads somewhere: not through a file, nor round in a circle."""
    try:
        disk.status_followed(root)
    except OSError as error:
        return error.errno not in _NOWHERE
    return True


def _parse(path: Path, text: bytes) -> Marker:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        raise StoreLayoutError(where=str(path), reason="it is not JSON") from None
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if fields.get("application") != "attachstore":
        raise StoreForeignError(where=str(path), reason="its attachstore.json is not ours")
    if type(fields.get("format")) is not int or fields["format"] != FORMAT:  # True == 1.0 == 1
        raise StoreVersionError(
            where=str(path), found=str(fields.get("format"))[:40], supported=FORMAT
        )
    texts = [fields.get(key) for key in ("id", "created_at", "sessions")]
    if not all(isinstance(text, str) for text in texts):
        raise StoreLayoutError(where=str(path), reason="id, created_at or sessions is absent")
    return Marker(*cast("list[str]", texts))


def refuse_foreign(disk: Disk, root: Path) -> None:
    """Raise StoreForeignError if `root` holds anything that a killed creation did not leave."""
    with storage_errors(root):
        for path in _leftovers(disk, root):
            reason = f"it has no {MARKER}, but holds {path!a}"
            if _OBJECT.fullmatch(path):
                raise StoreForeignError(where=str(root), reason=reason, hint=_MEND_LOST_MARKER)
            raise StoreForeignError(where=str(root), reason=reason)


def _leftovers(disk: Disk, root: Path) -> Iterator[str]:
    """Names that make `root` somebody else's directory; stops being lazy at the first."""
    try:
        names = disk.names(root)
    except OSError as error:
        if error.errno not in _NOWHERE:
            raise
        if error.errno == errno.ENOTDIR and _is_anywhere(disk, root):
            raise StoreForeignError(where=str(root), reason="it is a file") from None
        return
    own = _OWN_NAMES | _HARMLESS
    if DATABASE in names and _is_our_database(disk, root / DATABASE):
        own |= frozenset(SESSION_NAMES[SQLITE])
    for name in names:
        if name not in own:
            yield name
    for name in _OWN_NAMES.intersection(names):
        if not _is_directory(disk, root / name):
            yield name
        for directory, _, files in os.walk(root / name, onerror=_raise):
            # Creation makes directories, temporary files in staging/, and one lock.
            yield from (
                str(Path(directory, file).relative_to(root))
                for file in files
                if not (name == "staging" and file.startswith((_TEMPORARY_PREFIX, ".new-")))
                and not (name == LOCKS and file == MEDIUM_LOCK)
            )


def _is_directory(disk: Disk, path: Path) -> bool:
    try:
        return stat.S_ISDIR(disk.status_followed(path).st_mode)
    except FileNotFoundError:  # a link that leads nowhere
        return False


def _is_our_database(disk: Disk, path: Path) -> bool:
    """Whether a killed creation can have left it. Nobody has it open: there is no store here."""
    try:
        descriptor = disk.open_read(path)
    except FileNotFoundError:
        return False
    try:
        mark = read_all(disk, descriptor, len(DATABASE_MARK), _DATABASE_MARK_OFFSET_BYTES)
    finally:
        disk.close(descriptor)
    return mark == DATABASE_MARK


def _raise(error: OSError) -> None:
    raise error


def refuse_inside(disk: Disk, path: Path) -> None:
    """For what a user has written for them: nothing but a store itself writes into a store.

    Raises DestinationError if `path` lies in one, whichever it is, also by way of links.
    """
    with storage_errors(path), destination_errors(path):
        _refuse_inside(disk, path)


def _refuse_inside(disk: Disk, path: Path) -> None:
    for above in Path(os.path.realpath(path)).parents:
        if _is_store(disk, above):
            reason = f"it lies in the store at {ascii(str(above))[1:-1]}"
            raise DestinationError(where=ascii(str(path))[1:-1], reason=reason)


def _is_store(disk: Disk, folder: Path) -> bool:
    """Also one that is damaged, or of a newer format; not what holds another program's file."""
    try:
        disk.status(folder / MARKER)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        return read_marker(disk, folder) is not None
    except StoreForeignError:
        return False
    except (StoreLayoutError, StoreVersionError):
        return True


def make_root(disk: Disk, root: Path) -> None:
    """Make `root` and the parents it lacks, each name synced.

    Raises InvalidConfigurationError where the operating system has no place for a directory,
    DestinationError in a store.
    """
    with storage_errors(root), _no_place(root):
        _refuse_inside(disk, root)
        missing = [root]
        while not _is_there(disk, missing[-1].parent):
            missing.append(missing[-1].parent)
        for path in reversed(missing):
            ensure_directory(disk, path)
            disk.sync_directory(path.parent)
        disk.status_followed(root)  # a link that leads nowhere has the name, and is no directory


@contextlib.contextmanager
def _no_place(root: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:  # below /proc, below a file, ...
        if error.errno not in _NOWHERE:
            raise
        raise InvalidConfigurationError(
            where=ascii(str(root))[1:-1],
            key="store",
            reason=f"no directory can be made there ({error.strerror})",
        ) from error


def _is_there(disk: Disk, path: Path) -> bool:
    try:
        disk.status_followed(path)
    except FileNotFoundError:
        return False
    return True


def write_marker(disk: Disk, root: Path, *, sessions: str) -> Marker:
    """Turn a complete layout into a store; returns the winner's marker if another was first."""
    created_at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    fields = _fields(Marker(str(uuid.uuid4()), created_at, sessions))
    path = root / MARKER
    with storage_errors(path):
        with _written(disk, root, fields) as temporary, contextlib.suppress(FileExistsError):
            disk.link(temporary, path)
        disk.sync_directory(root)
    marker = read_marker(disk, root)
    if marker is None:
        raise StoreLayoutError(where=str(path), reason="it vanished while the store was made")
    return marker


def replace_marker(disk: Disk, root: Path, marker: Marker, *, sessions: str) -> None:
    """Let the store name another medium for its sessions, in one step, durable on return.

    After an error the old marker is put back, as far as the disk lets us.
    """
    path = root / MARKER
    with (
        storage_errors(path),
        _written(disk, root, _fields(marker)) as old,
        _written(disk, root, _fields(replace(marker, sessions=sessions))) as new,
    ):
        try:
            disk.rename(new, path)
            disk.sync_directory(root)
        except BaseException:
            with contextlib.suppress(OSError):
                disk.rename(old, path)
                disk.sync_directory(root)
            raise


def _fields(marker: Marker) -> dict[str, Any]:
    return {"application": "attachstore", "format": FORMAT, **asdict(marker)}


@contextlib.contextmanager
def _written(disk: Disk, root: Path, fields: dict[str, Any]) -> Generator[Path]:
    """A synced temporary file with the marker's text; removed if it still has its name."""
    temporary, descriptor = _temporary(disk, root / "staging")
    try:
        write_all(disk, descriptor, json.dumps(fields).encode() + b"\n", 0)
        disk.sync_file(descriptor)
        yield temporary
    finally:
        remove_quietly(disk, temporary)
        disk.close(descriptor)


def _temporary(disk: Disk, staging: Path) -> tuple[Path, int]:
    """A new file that is swept, as all in staging, once nobody holds it (objects/staging.py)."""
    ensure_directory(disk, staging)  # some tools do not restore empty directories
    while True:
        path = staging / f"{_TEMPORARY_PREFIX}{uuid.uuid4().hex}"
        descriptor = disk.create(path, 0o644)
        try:
            with contextlib.suppress(BlockingIOError):  # a sweeper was faster: start again
                disk.lock(descriptor, exclusive=True, wait=False)
                if leads_to(disk, path, descriptor):
                    return path, descriptor
        except BaseException:
            remove_quietly(disk, path)
            disk.close(descriptor)
            raise
        disk.close(descriptor)


@dataclass(frozen=True, slots=True)
class FileSystem:
    """What a path lies on. `promise` says how far durability can be trusted there."""

    kind: str
    """The kernel's name: ext4, xfs, btrfs, tmpfs, nfs4, ..."""
    promise: str
    """journaled | journal-less | network | memory | unknown"""


def file_system_of(root: Path) -> FileSystem:
    """The class of file system under `root`, from /proc; unknown where that cannot be told."""
    try:
        device = os.stat(root).st_dev  # noqa: PTH116 - the mount table, not stored data
        table = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return FileSystem("unknown", "unknown")
    wanted = f"{os.major(device)}:{os.minor(device)}"
    by_place: tuple[int, str, str] = (-1, "unknown", "")
    for line in table.splitlines():
        # Fields and the " - " separator: proc(5), "/proc/pid/mountinfo".
        front, _, back = line.partition(" - ")
        number, place = front.split(" ")[2], front.split(" ")[4]
        kind, source, *_ = back.split(" ")
        if number == wanted:
            return FileSystem(kind, _promise(kind, Path(source).name))
        # btrfs gives each subvolume a device number of its own, which no mount line shows.
        if len(place) > by_place[0] and root.is_relative_to(place):
            by_place = (len(place), kind, source)
    return FileSystem(by_place[1], _promise(by_place[1], Path(by_place[2]).name))


_PROMISES = {
    **dict.fromkeys(("nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "fuse.sshfs"), "network"),
    **dict.fromkeys(("tmpfs", "ramfs"), "memory"),
    **dict.fromkeys(("xfs", "btrfs", "ext3", "zfs", "f2fs", "jfs", "bcachefs"), "journaled"),
}


def _promise(kind: str, device: str) -> str:
    if kind != "ext4":
        return _PROMISES.get(kind, "unknown")
    try:
        known = device in os.listdir("/proc/fs/ext4")  # noqa: PTH208 - names only
        journals = os.listdir("/proc/fs/jbd2")  # noqa: PTH208 - names only
    except OSError:
        return "unknown"
    if not known:  # mounted as /dev/root or by a name that /proc does not use
        return "unknown"
    has_journal = any(name.rpartition("-")[0] == device for name in journals)
    return "journaled" if has_journal else "journal-less"
