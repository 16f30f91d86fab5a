"""Confinement: a path below a store's root leads to that place, or nowhere.

A store may have been unpacked from somebody's archive, or be another user's: a link in the place
of one of its directories must not make us write elsewhere. So the directory that holds a name is
opened first, in one step that follows no link (openat2, RESOLVE_NO_SYMLINKS), and the call is
made relative to it. Nobody can swap a directory for a link between the two.

Definitions. The *root* is as the user gave it, links and all: it is theirs to choose. What lies
below it is ours, and no link is followed there.

A root may also be unmounted or moved away under an open store. Then what lies at its path is no
store: none of its directories is made there anew, and none is taken for an empty one.

Limits: a mount below the root is not seen (administrators mount shards); a hard link to a file
is a file; on a kernel without openat2 the components are opened one by one, which is as safe and
takes longer. SQLite opens its files itself (sessions/sqlite_database.py).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import stat
import struct
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

from attachstore.errors import AttachstoreError, StoreLayoutError, StoreMissingError

_AT_FDCWD = -100
_OPENAT2 = 437  # the same on every architecture that attachstore runs on
_RESOLVE_NO_SYMLINKS = 0x04
_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)
_DIRECTORY = _O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_HOW = struct.pack("QQQ", _DIRECTORY, 0, _RESOLVE_NO_SYMLINKS)  # struct open_how
_NO_OPENAT2 = frozenset({errno.ENOSYS, errno.EPERM})  # an old kernel; an old container's filter
_WRONG = frozenset({errno.ELOOP, errno.ENOTDIR})
_NO_WAY = frozenset({errno.ELOOP, errno.ENOTDIR, errno.ENOENT})


class OutOfPlaceError(OSError):
    """A directory of ours is a link: `filename` says which."""

    def told(self) -> AttachstoreError:
        """The same as the package's own error."""
        return StoreLayoutError(where=ascii(self.filename)[1:-1], reason=str(self.strerror))


class UnreadableError(PermissionError):
    """A call that only reads was refused: this user may not read what it was about."""


class NoDirectoryError(OutOfPlaceError, NotADirectoryError):
    """A directory of ours is a file, a device, ...: `filename` says which."""


class GoneError(OutOfPlaceError):
    """At the root's path is no store any more: `filename` says where."""

    def told(self) -> AttachstoreError:
        hint = "It was there when it was opened: mount it again or move it back, then repeat."
        return StoreMissingError(where=ascii(self.filename)[1:-1], hint=hint)


class _Held(threading.local):
    """The directory that this thread has open for calls on many names in it."""

    path: str | None = None
    descriptor = -1


class Confinement:
    """The roots of the stores that a disk is used for. May be shared by threads."""

    def __init__(self) -> None:
        self._real: dict[str, str] = {}  # a root, with "/" → the same without links, with "/"
        self._markers: dict[str, str | None] = {}  # a root, with "/" → what makes it a store
        self.held = _Held()

    def add(self, root: Path) -> None:
        """From now on no link is followed below `root`. Touches nothing."""
        self._real.setdefault(_with_slash(str(root)), "")

    def keep_to(self, root: Path, marker: str | None) -> None:
        """From now on `root` is a store only while it holds a `marker`. Touches nothing."""
        self._markers[_with_slash(str(root))] = marker

    def refuse_gone(self, path: str) -> None:
        """Raises GoneError if the root that `path` lies below is no store any more."""
        root = self.root_of(path)
        marker = None if root is None else self._markers.get(root)
        if root is None or marker is None:
            return
        # Where the root led before, then where it leads by now.
        for real in (self.real, self._resolve):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.stat(real(root) + marker, follow_symlinks=False)  # noqa: PTH116 - no Path made
                return
        raise GoneError(errno.ESTALE, "there is no store any more", root.rstrip("/"))

    def root_of(self, path: str) -> str | None:
        """The root, with "/", that `path` is or lies below; None: it is the user's business."""
        for root in self._real:
            if path.startswith(root) or path == root[:-1]:
                return root
        return None

    def real(self, root: str) -> str:
        """A root without links, with "/": where it led when it was first asked for."""
        return self._real[root] or self._resolve(root)

    def open_parent(self, root: str, path: str) -> int:
        """Open the directory that holds `path`.

        Raises OutOfPlaceError for a link on the way below `root`, and other OSErrors.
        """
        inside = path[len(root) :].rpartition("/")[0]
        real = self.real(root)
        try:
            return _open_directory(real, inside)
        except OSError as error:
            if error.errno not in _NO_WAY:
                raise
            if error.errno != errno.ENOENT:
                _blame(root, inside)
            # The user's own links may have changed since, or the store has been moved.
            if self._resolve(root) == real:
                raise
        return _open_directory(self.real(root), inside)

    def try_to_open(self, directory: str) -> int | None:
        """Open a directory of ours; None if that is not possible, or it is the user's."""
        root = self.root_of(directory)
        if root is not None:
            with contextlib.suppress(OSError):
                return self.open_parent(root, f"{directory}/")
        return None

    def _resolve(self, root: str) -> str:
        real = self._real[root] = _with_slash(os.path.realpath(root))
        return real


def refuse_second_name(status: os.stat_result, path: Path) -> None:
    """For what is about to be written in place: a hard link may make it a file of elsewhere.

    Raises StoreLayoutError.
    """
    if status.st_nlink > 1:
        reason = f"the file has {status.st_nlink} names, and all of them would be written"
        raise StoreLayoutError(where=ascii(str(path))[1:-1], reason=reason)


class Place:
    """`with Place(confinement, path) as (name, directory)`: what an `os` call is given."""

    __slots__ = ("_confinement", "_directory", "_is_below", "_name", "_opens", "_path", "_reads")

    def __init__(
        self,
        confinement: Confinement | None,
        path: Path | str,
        *,
        opens: bool = False,
        reads: bool = False,
    ) -> None:
        """`opens`: the call opens what has the name, so what it says is about that.

        `reads`: the call changes nothing; PermissionError is an UnreadableError then.
        """
        self._confinement = confinement
        self._opens = opens
        self._reads = reads
        self._path = str(path)
        self._name = self._path
        self._directory: int | None = None
        self._is_below = False

    def __enter__(self) -> tuple[str, int | None]:
        """The name to use, and the directory it is relative to; None: it is a path."""
        if self._confinement is not None:
            parent, _, name = self._path.rpartition("/")
            held = self._confinement.held
            if parent == held.path:
                self._name, self._is_below = name, True
                return name, held.descriptor
            root = self._confinement.root_of(self._path)
            if root is None:
                pass
            elif len(self._path) < len(root):  # the root itself
                self._name = self._confinement.real(root)
            else:
                self._name, self._is_below = name, True
                try:
                    self._directory = self._confinement.open_parent(root, self._path)
                except PermissionError as error:
                    self._refuse(error)
                    raise
        return self._name, self._directory

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        directory, self._directory = self._directory, None
        if directory is not None:
            with contextlib.suppress(OSError):  # it holds no data: nothing can be lost
                os.close(directory)
        if self._is_below and isinstance(error, OSError) and error.filename == self._name:
            error.filename = self._path
            if self._opens and error.errno in _WRONG:
                _blame_one(self._path)
        if isinstance(error, PermissionError):
            self._refuse(error)

    def _refuse(self, error: PermissionError) -> None:
        if self._reads:
            raise UnreadableError(error.errno, error.strerror, self._path) from error


class Confined:
    """What a Disk has of it."""

    _confinement: Confinement | None = None

    def confine(self, root: Path) -> None:
        """From now on follow no link below `root`. Touches nothing."""
        if self._confinement is None:
            self._confinement = Confinement()
        self._confinement.add(root)

    def keep_to(self, root: Path, marker: str | None) -> None:
        """From now on the confined `root` is a store only while it holds a `marker`.

        None: it is about to be made one.
        """
        if self._confinement is not None:
            self._confinement.keep_to(root, marker)

    def refuse_gone(self, path: Path) -> None:
        """For whoever misses a directory: raises GoneError if the whole store is not there.

        Unmounted, or moved away. What lies at its path then is somebody else's.
        """
        if self._confinement is not None:
            self._confinement.refuse_gone(str(path))

    @contextlib.contextmanager
    def holding(self, directory: Path) -> Generator[None]:
        """Open `directory` once for all calls that this thread makes on names in it.

        A directory that is moved meanwhile is still looked at. One that cannot be held is no
        error: each call finds out for itself. The block must end in the thread that began it.
        """
        confinement = self._confinement
        descriptor = None if confinement is None else confinement.try_to_open(str(directory))
        if confinement is None or descriptor is None:
            yield
            return
        held = confinement.held
        before = held.path, held.descriptor
        held.path, held.descriptor = str(directory), descriptor
        try:
            yield
        finally:
            held.path, held.descriptor = before
            with contextlib.suppress(OSError):
                os.close(descriptor)

    @contextlib.contextmanager
    def _both(
        self, path: Path, other_path: Path
    ) -> Generator[tuple[tuple[str, int | None], tuple[str, int | None]]]:
        """For the calls that take two paths."""
        confinement = self._confinement
        with Place(confinement, path) as one, Place(confinement, other_path) as other:
            yield one, other


def listed(name: str, directory: int | None) -> list[str]:
    """The names in the directory that a Place has led to; no link is followed to it."""
    if directory is None:
        return os.listdir(name)  # noqa: PTH208 - takes a descriptor too
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, dir_fd=directory)
    try:
        return os.listdir(descriptor)  # noqa: PTH208
    finally:
        os.close(descriptor)


def _with_slash(path: str) -> str:
    return path if path.endswith("/") else f"{path}/"


def _open_directory(real: str, inside: str) -> int:
    call = _openat2()
    if call is not None:
        path = os.fsencode(real + inside)
        try:
            descriptor = call(_OPENAT2, _AT_FDCWD, path, _HOW, len(_HOW))
        except ctypes.ArgumentError as error:  # its way of saying that there is no memory
            raise MemoryError from error
        if descriptor >= 0:
            return descriptor
        number = ctypes.get_errno()
        if number not in _NO_OPENAT2:
            raise OSError(number, os.strerror(number), real + inside)
    descriptor = os.open(real, _DIRECTORY)
    for part in filter(None, inside.split("/")):
        above = descriptor
        try:
            descriptor = os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
        finally:
            os.close(above)
    return descriptor


@functools.cache
def _openat2() -> Callable[..., int] | None:
    """`syscall`, where it may know openat2: no libc of today wraps that."""
    if sys.platform != "linux":
        return None
    function = ctypes.CDLL(None, use_errno=True).syscall
    function.argtypes = [
        ctypes.c_long,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_size_t,
    ]
    function.restype = ctypes.c_long
    return function


def _blame(root: str, inside: str) -> None:
    """Raise what says which directory below `root` is none; return if all are."""
    for path in _each_directory(root, inside):
        _blame_one(path)


def _blame_one(path: str) -> None:
    mode = os.stat(path, follow_symlinks=False).st_mode  # noqa: PTH116 - for a message only
    if stat.S_ISLNK(mode):
        raise OutOfPlaceError(errno.ELOOP, "it is a symbolic link", path)
    if not stat.S_ISDIR(mode):
        raise NoDirectoryError(errno.ENOTDIR, "it is not a directory", path)


def _each_directory(root: str, inside: str) -> Iterator[str]:
    path = root.rstrip("/")
    for part in filter(None, inside.split("/")):
        path = f"{path}/{part}"
        yield path
