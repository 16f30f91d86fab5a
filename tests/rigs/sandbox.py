"""Sandbox: a directory that takes the shape of one tree after the other, at the price of what
differs.

A store has 256 directories, and most states differ in one file. So everything built here gets
the same impossible time of change; where that time is still there nothing was touched since, by
us or by the recovery that was tried on it, and it can stay for the next tree.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from tests.rigs.crash_states import Tree

_UNTOUCHED_NS = 86_400_000_000_000
"""The second of January 1970."""


class Sandbox:
    """`root` is made, and is to be used for nothing else. Fast on tmpfs only."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        self._built: Tree = {}
        self._inodes: dict[str, int] = {}
        self._text = os.fspath(root)

    def become(self, tree: Tree) -> Path:
        """Make the directory hold exactly `tree`; returns it."""
        touched = self._clear(tree)
        for path in sorted(tree):  # a directory comes before what is in it
            if path not in self._built:
                self._make(path, *tree[path])
                touched.add(os.path.dirname(path))
        for path in touched:
            if path == "" or tree.get(path, (0, b""))[1] is None:
                os.utime(f"{self._text}/{path}", ns=(_UNTOUCHED_NS, _UNTOUCHED_NS))
        return self.root

    def _clear(self, tree: Tree) -> set[str]:
        """Remove what is not in `tree` as we built it; returns directories that have changed."""
        touched = {"", *self._changed_directories(tree)}
        for path, (_, content) in list(self._built.items()):
            wanted = tree.get(path)
            if content is not None and (wanted != self._built[path] or not self._is_intact(path)):
                self._remove(path)
                touched.add(os.path.dirname(path))
        for path in [it for it in self._built if it not in tree]:
            self._remove(path)
            touched.add(os.path.dirname(path))
        for directory in touched:
            self._remove_strangers(directory)
        return touched

    def _changed_directories(self, tree: Tree) -> list[str]:
        changed: list[str] = []
        for path, (mode, content) in list(self._built.items()):
            if content is not None:
                continue
            status = self._status(path)
            if status is None or not stat.S_ISDIR(status.st_mode) or tree.get(path) != (mode, None):
                self._remove(path)
                changed.append(os.path.dirname(path))
            elif status.st_mtime_ns != _UNTOUCHED_NS:
                changed.append(path)
        return changed

    def _is_intact(self, path: str) -> bool:
        status = self._status(path)
        return (
            status is not None
            and status.st_mtime_ns == _UNTOUCHED_NS
            and status.st_ino == self._inodes.get(path)
            and stat.S_IMODE(status.st_mode) == self._built[path][0]
        )

    def _remove_strangers(self, directory: str) -> None:
        if directory and directory not in self._built:
            return
        prefix = f"{directory}/" if directory else ""
        for name in os.listdir(f"{self._text}/{directory}"):
            if prefix + name not in self._built:
                self._remove(prefix + name)

    def _remove(self, path: str) -> None:
        full = f"{self._text}/{path}"
        status = self._status(path)
        if status is not None and stat.S_ISDIR(status.st_mode):
            shutil.rmtree(full)
        elif status is not None:
            os.unlink(full)
        if self._built.pop(path, (0, b""))[1] is None:
            for below in [it for it in self._built if it.startswith(path + "/")]:
                del self._built[below]

    def _make(self, path: str, mode: int, content: bytes | None) -> None:
        full = f"{self._text}/{path}"
        if content is None:
            os.mkdir(full, mode | stat.S_IRWXU)
        else:
            descriptor = os.open(full, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
            try:
                view = memoryview(content)
                while view:
                    view = view[os.write(descriptor, view) :]
                os.fchmod(descriptor, mode)
                self._inodes[path] = os.fstat(descriptor).st_ino
            finally:
                os.close(descriptor)
        os.utime(full, ns=(_UNTOUCHED_NS, _UNTOUCHED_NS))
        self._built[path] = (mode, content)

    def _status(self, path: str) -> os.stat_result | None:
        try:
            return os.lstat(f"{self._text}/{path}")
        except (FileNotFoundError, NotADirectoryError):
            return None
