"""From a directory to a model of it, all of it durable."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tests.crash_model import DirectoryNode, FileNode, Model, Node


class UnmodelledError(Exception):
    """Something is there, or was done, that the model knows nothing about."""


def adopt(path: Path) -> Model:
    """A model of the directory at `path`, all of it durable."""
    model = Model()
    _adopt(path, model.root, {})
    return model


def _adopt(path: Path, into: DirectoryNode, seen: dict[int, FileNode]) -> None:
    with os.scandir(path) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            mode = stat.S_IMODE(status.st_mode)
            if stat.S_ISDIR(status.st_mode):
                directory = DirectoryNode(mode)
                into.names[entry.name] = [directory]
                _adopt(Path(entry.path), directory, seen)
                continue
            if not stat.S_ISREG(status.st_mode):
                message = f"{entry.path} is neither a file nor a directory"
                raise UnmodelledError(message)
            file = seen.get(status.st_ino)
            if file is None:
                file = seen[status.st_ino] = FileNode(mode)
                file.write(Path(entry.path).read_bytes(), 0)
                file.sync()
            into.names[entry.name] = [file]


def all_nodes(model: Model) -> list[Node]:
    """Everything that a name leads to or may lead to after a power cut, each once."""
    found: dict[int, Node] = {}
    waiting: list[Node] = [model.root]
    while waiting:
        node = waiting.pop()
        if id(node) not in found:
            found[id(node)] = node
            if isinstance(node, DirectoryNode):
                waiting += [it for its in node.names.values() for it in its if it is not None]
    return list(found.values())
