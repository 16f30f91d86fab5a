"""World: a small file system in memory that several actors share, as a value.

Files, names, open files and locks, with what the product's `Disk` promises of them (link refuses
to replace, rename and exchange are atomic, flock belongs to the open file and goes with it), and
for each name the values that a power cut may leave of it: those it has had since its directory
was last synced. It can be copied and compared, so that states that were seen before are known
again. tests/concurrency/test_world.py holds it against the real file system, call by call.

Directories are there from the start; programs may ask for them to be made, but not remove them.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

Inode: TypeAlias = int
Result: TypeAlias = Hashable


class Held(NamedTuple):
    """An open file: what it leads to. A directory's is its path."""

    target: Inode | str


class File(NamedTuple):
    content: bytes
    synced: bool
    awaits_name: bool = False
    """Made without a name, and never given one. One that lost its name gets none again."""


@dataclass
class World:
    """`apply` changes it; whoever wants to go back copies it first."""

    directories: frozenset[str]
    files: dict[Inode, File] = field(default_factory=dict[Inode, File])
    names: dict[str, Inode] = field(default_factory=dict[str, Inode])
    unsynced: dict[str, frozenset[Inode | None]] = field(
        default_factory=dict[str, frozenset[Inode | None]]
    )
    """Of each name that changed since its directory was synced: what a power cut may leave."""
    held: dict[tuple[int, int], Held] = field(default_factory=dict[tuple[int, int], Held])
    locks: dict[Inode | str, tuple[int, int]] = field(
        default_factory=dict[Inode | str, tuple[int, int]]
    )

    def copy(self) -> World:
        return World(
            self.directories,
            dict(self.files),
            dict(self.names),
            dict(self.unsynced),
            dict(self.held),
            dict(self.locks),
        )

    def key(self) -> Hashable:
        """Equal for worlds that no program can tell apart."""
        reachable = {*self.names.values(), *(held.target for held in self.held.values())}
        for left in self.unsynced.values():
            reachable.update(inode for inode in left if inode is not None)
        return (
            frozenset(item for item in self.files.items() if item[0] in reachable),
            frozenset(self.names.items()),
            frozenset(self.unsynced.items()),
            frozenset(self.held.items()),
            frozenset(self.locks.items()),
        )

    def may_be_left(self, path: str) -> frozenset[Inode | None]:
        """What a power cut may leave under `path`."""
        return self.unsynced.get(path, frozenset([self.names.get(path)]))

    def blocks(self, method: str, arguments: tuple[Any, ...], actor: int) -> bool:
        """Whether the call has to wait for another actor."""
        if method != "lock" or not arguments[2]:
            return False
        owner = self.locks.get(self.held[actor, arguments[0]].target)
        return owner not in (None, (actor, arguments[0]))

    def end(self, actor: int) -> None:
        """The kernel closes what a process that has ended or was killed held."""
        for holder, descriptor in list(self.held):
            if holder == actor:
                self.close(actor, descriptor)

    def apply(self, actor: int, method: str, arguments: tuple[Any, ...]) -> Result:
        """Make one call of a Disk. Raises OSError."""
        call: Callable[..., Result] = getattr(self, method)
        return call(actor, *arguments)

    # -- calls of a Disk, each with who makes it ---------------------------------------------

    def open_temporary(self, actor: int, directory: str, mode: int) -> int:
        return self._open(actor, self._new_file(actor, awaits_name=True))

    def create(self, actor: int, path: str, mode: int) -> int:
        self._refuse_taken(path)
        inode = self._new_file(actor)
        self._set(path, inode)
        return self._open(actor, inode)

    def open_read(self, actor: int, path: str) -> int:
        return self._open(actor, self._inode(path))

    def open_directory(self, actor: int, path: str) -> int:
        self._directory(path)
        return self._open(actor, path)

    def open_lock(self, actor: int, path: str) -> int:
        inode = self.names.get(path)
        if inode is None:
            inode = self._new_file(actor)
            self._set(path, inode)
        return self._open(actor, inode)

    def close(self, actor: int, descriptor: int) -> None:
        held = self.held.pop((actor, descriptor))
        if self.locks.get(held.target) == (actor, descriptor):
            del self.locks[held.target]

    def read_into(self, actor: int, descriptor: int, size_bytes: int, offset_bytes: int) -> bytes:
        return self._open_file(actor, descriptor).content[offset_bytes : offset_bytes + size_bytes]

    def write(self, actor: int, descriptor: int, data: bytes, offset_bytes: int) -> int:
        inode = self._open_inode(actor, descriptor)
        content = self.files[inode].content.ljust(offset_bytes, b"\0")
        end = offset_bytes + len(data)
        if data:
            changed = content[:offset_bytes] + data + content[end:]
            self._change(inode, changed)
        return len(data)

    def truncate(self, actor: int, descriptor: int, size_bytes: int) -> None:
        inode = self._open_inode(actor, descriptor)
        content = self.files[inode].content[:size_bytes].ljust(size_bytes, b"\0")
        self._change(inode, content)

    def drop_cache(self, actor: int, descriptor: int) -> None:
        """Nothing: there is no cache here."""

    def sync_file(self, actor: int, descriptor: int) -> None:
        inode = self._open_inode(actor, descriptor)
        self.files[inode] = self.files[inode]._replace(synced=True)

    def sync_directory(self, actor: int, path: str) -> None:
        self._directory(path)
        for name in list(self.unsynced):
            if os.path.dirname(name) == path:  # noqa: PTH120 - paths are strings here
                del self.unsynced[name]

    def link_open_file(self, actor: int, descriptor: int, path: str) -> None:
        inode = self._open_inode(actor, descriptor)
        self._refuse_taken(path)
        if inode not in self.names.values() and not self.files[inode].awaits_name:
            raise _error(errno.ENOENT, path)
        self._set(path, inode)
        self.files[inode] = self.files[inode]._replace(awaits_name=False)

    def link(self, actor: int, path: str, new_path: str) -> None:
        inode = self._inode(path)
        self._refuse_taken(new_path)
        self._set(new_path, inode)

    def rename(self, actor: int, path: str, new_path: str) -> None:
        inode = self._inode(path)
        if self.names.get(new_path) != inode:  # then POSIX says: do nothing
            self._set(new_path, inode)
            self._set(path, None)

    def exchange(self, actor: int, path: str, other_path: str) -> None:
        inode, other = self._inode(path), self._inode(other_path)
        self._set(path, other)
        self._set(other_path, inode)

    def unlink(self, actor: int, path: str) -> None:
        self._inode(path)
        self._set(path, None)

    def make_directory(self, actor: int, path: str) -> None:
        if path not in self.directories:
            raise NotImplementedError(path)
        raise _error(errno.EEXIST, path)

    def status(self, actor: int, path: str) -> os.stat_result:
        if path in self.directories:
            return _status(0, stat.S_IFDIR | 0o755)
        return self._status_of(self._inode(path))

    def status_followed(self, actor: int, path: str) -> os.stat_result:
        return _status(0, stat.S_IFDIR | 0o755)  # only ever asked of /proc

    def status_open(self, actor: int, descriptor: int) -> os.stat_result:
        return self._status_of(self._open_inode(actor, descriptor))

    def list_names(self, actor: int, path: str) -> tuple[str, ...]:
        self._directory(path)
        inside = (name.rpartition("/") for name in self.names)
        return tuple(sorted(last for directory, _, last in inside if directory == path))

    def lock(self, actor: int, descriptor: int, exclusive: bool, wait: bool) -> None:
        target = self.held[actor, descriptor].target
        if self.locks.setdefault(target, (actor, descriptor)) != (actor, descriptor):
            raise _error(errno.EWOULDBLOCK, str(target))

    # -- parts -------------------------------------------------------------------------------

    def _new_file(self, actor: int, *, awaits_name: bool = False) -> Inode:
        # Numbered by who made it: the order in which actors make files leaves no trace.
        inode = 1 + sum(made // 1000 == actor for made in self.files) + 1000 * actor
        self.files[inode] = File(b"", synced=False, awaits_name=awaits_name)
        return inode

    def _change(self, inode: Inode, content: bytes) -> None:
        self.files[inode] = self.files[inode]._replace(content=content, synced=False)

    def _open(self, actor: int, target: Inode | str) -> int:
        descriptor = next(n for n in range(3, 1000) if (actor, n) not in self.held)
        self.held[actor, descriptor] = Held(target)
        return descriptor

    def _open_inode(self, actor: int, descriptor: int) -> Inode:
        target = self.held[actor, descriptor].target
        assert isinstance(target, int)
        return target

    def _open_file(self, actor: int, descriptor: int) -> File:
        return self.files[self._open_inode(actor, descriptor)]

    def _inode(self, path: str) -> Inode:
        inode = self.names.get(path)
        if inode is None:
            raise _error(errno.ENOENT, path)
        return inode

    def _directory(self, path: str) -> None:
        if path not in self.directories:
            raise _error(errno.ENOTDIR if path in self.names else errno.ENOENT, path)

    def _refuse_taken(self, path: str) -> None:
        if path in self.names:
            raise _error(errno.EEXIST, path)

    def _set(self, path: str, inode: Inode | None) -> None:
        self.unsynced[path] = self.may_be_left(path) | {inode}
        if inode is None:
            del self.names[path]
        else:
            self.names[path] = inode

    def _status_of(self, inode: Inode) -> os.stat_result:
        return _status(inode, stat.S_IFREG | 0o444, len(self.files[inode].content))


def _status(inode: Inode, mode: int, size_bytes: int = 0) -> os.stat_result:
    """Without the number of links: objects' code does not look at it. Always just changed."""
    fields = (mode, inode, 1, 1, 0, 0, size_bytes, 0, 0, 0)
    return os.stat_result(fields, {"st_ctime_ns": _LATER_NS})


_LATER_NS = 2**62


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
