"""PowerLossDisk: real files, and every state that a power cut may leave of them.

The calls go through to real files under `root`; beside them a model (crash_model.py) keeps what
is durable and what is not. What lies outside `root` is not modelled.

    disk = PowerLossDisk(tmp_path / "disk")
    ... work with `disk` on files under tmp_path / "disk" ...
    for state in disk.crash_states(into=tmp_path):          # power is cut now
        ... `state` is what is found after the reboot, in place of tmp_path / "disk" ...

    for state, acknowledged in disk.crash_moments(into=tmp_path):   # power is cut at any call
        ... everything in `acknowledged` had been given to `disk.acknowledge` before the cut ...
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attachstore.disk import Disk
from tests.crash_model import DirectoryNode, FileNode, Model, Node, Tree, tree_key
from tests.intercepted_disk import CHANGES, OPENS, SYNCS, InterceptedDisk


class PowerLossDisk(InterceptedDisk):
    """`root` must exist; what is in it now is durable.

    With `fail_sync_at` the n-th sync fails with EIO and, as Linux does it, later syncs say OK
    while what was pending at that moment never becomes durable. A file shows the unsynced bytes
    until its cached pages are dropped; then it shows what is on the medium.
    """

    def __init__(self, root: Path, *, fail_sync_at: int = 0, disk: Disk | None = None) -> None:
        super().__init__(disk)
        self.root = root
        self.fail_sync_at = fail_sync_at
        self.syncs = 0
        self.acknowledged: list[Any] = []
        self._nodes: dict[int, Node] = {}
        self._model = Model()
        self._moments: list[tuple[Model, int]] = []
        self.settle()

    def settle(self) -> None:
        """Take everything that is on the disk now as durable, also what was put there by hand."""
        assert not self._nodes, "files are open"
        self._model = Model()
        _adopt(self.root, self._model.root)
        self._moments = []
        self._remember()

    def acknowledge(self, promise: Any) -> None:
        """From now on no power cut may cost `promise`."""
        self.acknowledged.append(promise)
        self._remember()

    def crash_states(self, into: Path, *, limit: int = 200, seed: int = 0) -> Iterator[Path]:
        """Each state that a cut at this moment may leave, built afresh in a folder of `into`.

        All of them if there are at most `limit`, else a selection (crash_model.py). The folder
        is built again for the next state, so the caller may change it.
        """
        for tree in self._model.states(limit, seed):
            yield _build(tree, into)

    def crash_moments(
        self, into: Path, *, limit: int = 50, seed: int = 0, step: int = 1
    ) -> Iterator[tuple[Path, list[Any]]]:
        """As `crash_states`, for a cut after each single call since the start or `settle`.

        `limit` is for each moment; with `step` only every so many moments are looked at. The
        same state at several moments comes once, with all that had been acknowledged by the
        last of them.
        """
        seen: set[bytes] = set()
        for model, acknowledged in self._moments[::-step]:
            for tree in model.states(limit, seed):
                key = tree_key(tree)
                if key not in seen:
                    seen.add(key)
                    yield _build(tree, into), self.acknowledged[:acknowledged]

    def has_pending(self, target: int | Path) -> bool:
        """Whether syncing this descriptor or directory would save anything."""
        return self._synced(target).has_pending()

    # -- recording -------------------------------------------------------------------------

    def intercept(self, method: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        if method in SYNCS:
            self.syncs += 1
            if self.syncs == self.fail_sync_at:
                self._synced(arguments[0]).forsake()
                raise OSError(errno.EIO, os.strerror(errno.EIO), "injected")
        existed = method == "open_lock" and self._find(arguments[0]) is not None
        result = call()
        if method == "close":
            self._nodes.pop(arguments[0], None)
        elif method == "open_temporary" or (method in {"create", "open_lock"} and not existed):
            self._opened_new(method, arguments[0], result)
        elif method in OPENS:
            self._opened(arguments[0], result)
        elif method in SYNCS:
            self._synced(arguments[0]).sync()
        else:
            record = getattr(self, f"_{method}", None)
            if record is not None:
                record(result, *arguments)
        if method in CHANGES | SYNCS:
            self._remember()
        return result

    def _remember(self) -> None:
        self._moments.append((self._model.copy(), len(self.acknowledged)))

    def _opened_new(self, method: str, path: Path, descriptor: int) -> None:
        node = FileNode(stat.S_IMODE(os.fstat(descriptor).st_mode))
        if not path.is_relative_to(self.root):
            return
        self._nodes[descriptor] = node
        if method != "open_temporary":
            self._set(path, node)

    def _opened(self, path: Path, descriptor: int) -> None:
        if path.is_relative_to(self.root):
            node = self._find(path)
            assert node is not None, f"{path} was made behind the disk's back: call settle()"
            self._nodes[descriptor] = node

    def _synced(self, target: int | Path) -> Node:
        found = self._nodes.get(target) if isinstance(target, int) else self._find(target)
        return found or FileNode(0)  # outside of the root: nothing to lose

    def _write(self, written: int, descriptor: int, data: bytes, offset_bytes: int) -> None:
        node = self._nodes.get(descriptor)
        if isinstance(node, FileNode):
            node.write(bytes(memoryview(data)[:written]), offset_bytes)

    def _truncate(self, _: None, descriptor: int, size_bytes: int) -> None:
        node = self._nodes.get(descriptor)
        if isinstance(node, FileNode):
            node.resize(size_bytes)

    def _drop_cache(self, _: None, descriptor: int) -> None:
        node = self._nodes.get(descriptor)
        if isinstance(node, FileNode) and node.forget():
            path = f"/proc/self/fd/{descriptor}"
            os.chmod(path, node.mode | stat.S_IWUSR)  # noqa: PTH101 - an open file has no path
            with open(path, "r+b") as file:  # noqa: PTH123
                file.truncate(0)
                file.write(node.content({}, node.sizes[-1]))
            os.chmod(path, node.mode)  # noqa: PTH101

    def _link_open_file(self, _: None, descriptor: int, path: Path) -> None:
        self._set(path, self._nodes[descriptor])

    def _link(self, _: None, path: Path, new_path: Path) -> None:
        self._set(new_path, self._find(path))

    def _rename(self, _: None, path: Path, new_path: Path) -> None:
        self._set(new_path, self._find(path))
        self._set(path, None)

    def _exchange(self, _: None, path: Path, other_path: Path) -> None:
        node, other = self._find(path), self._find(other_path)
        self._set(path, other)
        self._set(other_path, node)

    def _unlink(self, _: None, path: Path) -> None:
        self._set(path, None)

    def _make_directory(self, _: None, path: Path) -> None:
        if path.is_relative_to(self.root):
            self._set(path, DirectoryNode(stat.S_IMODE(path.stat().st_mode)))

    def _remove_directory(self, _: None, path: Path) -> None:
        self._set(path, None)

    def _set(self, path: Path, node: Node | None) -> None:
        if path.is_relative_to(self.root):
            parent = self._find(path.parent)
            assert isinstance(parent, DirectoryNode), f"{path.parent} is not known: call settle()"
            parent.set(path.name, node)

    def _find(self, path: Path) -> Node | None:
        if not path.is_relative_to(self.root):
            return None
        node: Node | None = self._model.root
        for part in path.relative_to(self.root).parts:
            node = node.get(part) if isinstance(node, DirectoryNode) else None
        return node


def _adopt(path: Path, into: DirectoryNode) -> None:
    for child in path.iterdir():
        status = child.lstat()
        if stat.S_ISDIR(status.st_mode):
            node: Node = DirectoryNode(stat.S_IMODE(status.st_mode))
            _adopt(child, node)
        elif stat.S_ISREG(status.st_mode):
            node = FileNode(stat.S_IMODE(status.st_mode))
            node.write(child.read_bytes(), 0)
            node.sync()
        else:
            continue
        into.names[child.name] = [node]


def _build(tree: Tree, into: Path) -> Path:
    """Make the files and directories of a state."""
    root = into / "after-power-loss"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for path in sorted(tree):
        mode, content = tree[path]
        if content is None:
            (root / path).mkdir(mode | stat.S_IRWXU)
        else:
            descriptor = os.open(root / path, os.O_CREAT | os.O_WRONLY, mode)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
    return root
