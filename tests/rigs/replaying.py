"""Replay: calls in, a model of the disk out, and what the workload said on the way.

The model (tests/crash_model.py) knows for each block, size and name which of its versions are
durable. Here each call of a trace (tracing.py) does to the model what the kernel did to the files.
A call that the model does not know is refused, never ignored.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.crash_model import DirectoryNode, FileNode, Model, Node
from tests.rigs.adopting import UnmodelledError, all_nodes
from tests.rigs.journal import Record
from tests.rigs.open_file import OpenFile
from tests.rigs.tracing import Call


@dataclass(frozen=True, slots=True)
class Name:
    """One change of a name: which one, and its how-manieth version it made."""

    directory: DirectoryNode
    name: str
    version: int


class Replay:
    """Applies one process's trace to `model`, whose root stands for the directory `root`.

    `records` are what was written to `journal`, in step with the calls. `renames` are pairs of
    changes that a file system with atomic renames makes both or not at all.
    """

    def __init__(self, model: Model, root: Path, journal: Path) -> None:
        self.model = model
        self.records: list[Record] = []
        self.renames: list[tuple[Name, Name]] = []
        self._root = os.fsencode(root)
        self._journal = os.fsencode(journal)
        self._open: dict[int, OpenFile] = {}
        self._current = os.getcwdb()  # the traced process has been started from here

    def apply(self, call: Call) -> bool:
        """Whether the call changed anything, made something durable, or was a record."""
        handler = _HANDLERS.get(call.name)
        if handler is None:
            message = f"the model has no {call.name}{call.arguments}"
            raise UnmodelledError(message)
        return handler(self, call)

    def apply_all(self, calls: Iterable[Call]) -> None:
        for call in calls:
            self.apply(call)

    def is_record(self, call: Call) -> bool:
        """Whether a write goes to the journal."""
        found = self._open.get(call.number(0))
        return found is not None and found.path == self._journal

    # -- descriptors -----------------------------------------------------------------------

    def _openat(self, call: Call) -> bool:
        at, path, flags = call.arguments[:3]
        return self._opened(call, self._path(at, path), set(str(flags).split("|")))

    def _open_at_path(self, call: Call) -> bool:
        flags = set(str(call.arguments[1]).split("|"))
        return self._opened(call, self._plain(call, 0), flags)

    def _openat2(self, call: Call) -> bool:
        at, path, how = call.arguments[:3]
        flags = str(how).partition("flags=")[2].partition(",")[0].rstrip("}")
        return self._opened(call, self._path(at, path), set(flags.split("|")))

    def _opened(self, call: Call, path: bytes, flags: set[str]) -> bool:
        node, changed = None, False
        if self._is_inside(path):
            if "O_TMPFILE" in flags:
                node = FileNode(call.mode())
            else:
                node, changed = self._named(call, path, flags)
        appends = "O_APPEND" in flags
        self._open[call.result] = OpenFile(path, node, appends=appends)
        return changed

    def _named(self, call: Call, path: bytes, flags: set[str]) -> tuple[Node, bool]:
        node = self._find(path)
        if node is None:
            if "O_CREAT" not in flags:
                message = f"{path!r} was opened, but nothing made it"
                raise UnmodelledError(message)
            node = FileNode(call.mode())
            self._set(path, node)
            return node, True
        if "O_TRUNC" in flags and isinstance(node, FileNode) and node.sizes[-1]:
            node.resize(0)
            return node, True
        return node, False

    def _close(self, call: Call) -> bool:
        self._open.pop(call.number(0), None)
        return False

    def _dup(self, call: Call) -> bool:
        found = self._open.get(call.number(0))
        if found is not None:
            self._open[call.result] = found
        else:
            self._open.pop(call.result, None)
        return False

    def _fcntl(self, call: Call) -> bool:
        return self._dup(call) if str(call.arguments[1]).startswith("F_DUPFD") else False

    def _lseek(self, call: Call) -> bool:
        found = self._open.get(call.number(0))
        if found is not None:
            found.offset_bytes = call.result
        return False

    def _ioctl(self, call: Call) -> bool:
        if str(call.arguments[1]) != "FICLONE":
            return False
        source, target = self._open.get(call.number(2)), self._open.get(call.number(0))
        if source is None or target is None or not isinstance(target.node, FileNode):
            return False
        content = source.content()
        target.node.write(content, 0)
        target.node.resize(len(content))
        return True

    # -- bytes -----------------------------------------------------------------------------

    def _write(self, call: Call) -> bool:
        found = self._open.get(call.number(0))
        if found is None:
            return False
        offset_bytes = found.offset_bytes
        if found.appends and isinstance(found.node, FileNode):
            offset_bytes = found.node.sizes[-1]
        found.offset_bytes = offset_bytes + call.result
        return self._written(found, call, offset_bytes)

    def _pwrite(self, call: Call) -> bool:
        found = self._open.get(call.number(0))
        return found is not None and self._written(found, call, call.number(3))

    def _written(self, found: OpenFile, call: Call, offset_bytes: int) -> bool:
        data = call.arguments[1]
        assert isinstance(data, bytes)
        if found.path == self._journal:
            self.records.append(Record.parse(data))
            return True
        if isinstance(found.node, FileNode) and call.result:
            found.node.write(data[: call.result], offset_bytes)
            return True
        return False

    def _refused_here(self, call: Call) -> bool:
        found = self._open.get(call.number(0))
        if found is not None and (found.node is not None or found.path == self._journal):
            message = f"a {call.name} into the store"
            raise UnmodelledError(message)
        return False

    def _copy_range(self, call: Call) -> bool:
        source, target = self._open.get(call.number(0)), self._open.get(call.number(2))
        if source is None or target is None:
            return False
        start = source.take_offset(call.arguments[1], call.result)
        offset_bytes = target.take_offset(call.arguments[3], call.result)
        if not isinstance(target.node, FileNode):
            return False
        target.node.write(source.content()[start : start + call.result], offset_bytes)
        return True

    def _ftruncate(self, call: Call) -> bool:
        found = self._open.get(call.number(0))
        return self._resized(found.node if found else None, call.number(1))

    def _truncate(self, call: Call) -> bool:
        return self._resized(self._find(self._plain(call, 0)), call.number(1))

    def _resized(self, node: Node | None, size_bytes: int) -> bool:
        if not isinstance(node, FileNode) or node.sizes[-1] == size_bytes:
            return False
        node.resize(size_bytes)
        return True

    def _fallocate(self, call: Call) -> bool:
        found = self._open.get(call.number(0))
        if found is None or not isinstance(found.node, FileNode):
            return False
        mode, start, length = str(call.arguments[1]), call.number(2), call.number(3)
        if "PUNCH_HOLE" in mode or "ZERO_RANGE" in mode:
            inside = length if "KEEP_SIZE" not in mode else found.node.sizes[-1] - start
            found.node.write(bytes(max(0, min(length, inside))), start)
            return True
        if mode != "0":
            message = f"fallocate {mode}"
            raise UnmodelledError(message)
        return self._resized(found.node, max(found.node.sizes[-1], start + length))

    def _mmap(self, call: Call) -> bool:
        if "MAP_SHARED" not in str(call.arguments[3]) or "WRITE" not in str(call.arguments[2]):
            return False
        found = self._open.get(call.number(4))
        # SQLite's index of its WAL is made again from the WAL after a crash.
        if found is not None and found.node is not None and not found.path.endswith(b"-shm"):
            message = f"{found.path!r} is written through a mapping"
            raise UnmodelledError(message)
        return False

    # -- durability ------------------------------------------------------------------------

    def _fsync(self, call: Call) -> bool:
        found = self._open.get(call.number(0))
        if found is None or found.node is None:
            return False
        if call.starts:
            found.syncing.append(found.node.extent())
            return False
        before = found.node.extent()
        found.node.sync(found.syncing.pop(0) if found.syncing else None)
        after = found.node.extent()
        for other in self._open.values():  # what another sync had seen counts from here now
            if other.node is found.node:
                other.syncing = [
                    {key: max(1, it - before[key] + after.get(key, 1)) for key, it in seen.items()}
                    for seen in other.syncing
                ]
        return True

    def _sync_everything(self, call: Call) -> bool:
        if call.starts:
            message = "a sync of everything beside other calls"
            raise UnmodelledError(message)
        for node in all_nodes(self.model):
            node.sync()
        return True

    # -- names -----------------------------------------------------------------------------

    def _mkdirat(self, call: Call) -> bool:
        return self._made(self._path(*call.arguments[:2]), call)

    def _mkdir(self, call: Call) -> bool:
        return self._made(self._plain(call, 0), call)

    def _made(self, path: bytes, call: Call) -> bool:
        return self._set(path, DirectoryNode(call.mode())) is not None

    def _unlinkat(self, call: Call) -> bool:
        return self._set(self._path(*call.arguments[:2]), None) is not None

    def _unlink(self, call: Call) -> bool:
        return self._set(self._plain(call, 0), None) is not None

    def _linkat(self, call: Call) -> bool:
        source = self._path(*call.arguments[:2])
        if source.startswith(b"/proc/self/fd/"):
            node = self._open[int(source.rpartition(b"/")[2])].node
        elif not call.arguments[1]:  # AT_EMPTY_PATH
            node = self._open[call.number(0)].node
        else:
            node = self._find(source)
        return self._set(self._path(*call.arguments[2:4]), node) is not None

    def _link(self, call: Call) -> bool:
        return self._set(self._plain(call, 1), self._find(self._plain(call, 0))) is not None

    def _renameat(self, call: Call) -> bool:
        source, target = self._path(*call.arguments[:2]), self._path(*call.arguments[2:4])
        return self._renamed(source, target, exchange="EXCHANGE" in str(call.arguments[4:]))

    def _rename(self, call: Call) -> bool:
        return self._renamed(self._plain(call, 0), self._plain(call, 1))

    def _renamed(self, source: bytes, target: bytes, *, exchange: bool = False) -> bool:
        node, other = self._find(source), self._find(target)
        gone = self._set(source, other if exchange else None)
        come = self._set(target, node)
        if gone is not None and come is not None:
            self.renames.append((gone, come))
        return gone is not None or come is not None

    def _symlink(self, call: Call) -> bool:
        if any(isinstance(it, bytes) and self._is_inside(it) for it in call.arguments):
            message = f"a symbolic link in the store: {call.arguments}"
            raise UnmodelledError(message)
        return False

    def _chmod(self, _: Call) -> bool:
        return False  # modes survive or do not; nothing here depends on it

    def _clone(self, call: Call) -> bool:
        if "CLONE_THREAD" not in str(call.arguments):
            message = "the workload started a process, whose descriptors would be its own"
            raise UnmodelledError(message)
        return False

    # -- paths -----------------------------------------------------------------------------

    def _chdir(self, call: Call) -> bool:
        self._current = self._plain(call, 0)
        return False

    def _plain(self, call: Call, position: int) -> bytes:
        return self._path("AT_FDCWD", call.arguments[position])

    def _path(self, at: bytes | str, path: bytes | str) -> bytes:
        assert isinstance(path, bytes)
        above = self._current
        if not path.startswith(b"/") and at != "AT_FDCWD":
            found = self._open.get(int(str(at)))
            above = found.path if found else b"/unknown"
        return os.path.normpath(os.path.join(above, path))

    def _is_inside(self, path: bytes) -> bool:
        return path == self._root or path.startswith(self._root + b"/")

    def _find(self, path: bytes) -> Node | None:
        if not self._is_inside(path):
            return None
        node: Node | None = self.model.root
        for part in path[len(self._root) :].split(b"/"):
            if part:
                node = node.get(os.fsdecode(part)) if isinstance(node, DirectoryNode) else None
        return node

    def _set(self, path: bytes, node: Node | None) -> Name | None:
        """Change what a name stands for; None outside of the model."""
        if not self._is_inside(path):
            return None
        parent = self._find(os.path.dirname(path))
        if not isinstance(parent, DirectoryNode):
            message = f"the directory of {path!r} is not known"
            raise UnmodelledError(message)
        name = os.fsdecode(os.path.basename(path))
        parent.set(name, node)
        return Name(parent, name, parent.dropped.get(name, 0) + len(parent.names[name]) - 1)


_HANDLERS: dict[str, Callable[[Replay, Call], bool]] = {
    name: handler
    for names, handler in {
        "open": Replay._open_at_path,
        "openat": Replay._openat,
        "openat2": Replay._openat2,
        "close": Replay._close,
        "dup dup2 dup3": Replay._dup,
        "fcntl": Replay._fcntl,
        "lseek": Replay._lseek,
        "ioctl": Replay._ioctl,
        "write": Replay._write,
        "pwrite64": Replay._pwrite,
        "writev pwritev pwritev2 sendfile splice": Replay._refused_here,
        "copy_file_range": Replay._copy_range,
        "ftruncate": Replay._ftruncate,
        "truncate": Replay._truncate,
        "fallocate": Replay._fallocate,
        "mmap": Replay._mmap,
        "fsync fdatasync": Replay._fsync,
        "syncfs sync": Replay._sync_everything,
        "chdir": Replay._chdir,
        "mkdir": Replay._mkdir,
        "mkdirat": Replay._mkdirat,
        "unlink rmdir": Replay._unlink,
        "unlinkat": Replay._unlinkat,
        "link": Replay._link,
        "linkat": Replay._linkat,
        "rename": Replay._rename,
        "renameat renameat2": Replay._renameat,
        "symlink symlinkat": Replay._symlink,
        "chmod fchmod fchmodat": Replay._chmod,
        "clone clone3": Replay._clone,
    }.items()
    for name in names.split()
}
