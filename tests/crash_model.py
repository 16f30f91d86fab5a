"""What may be left of files and directories after a power cut, as POSIX promises it: little.

Definitions. A *version* of a block, a size or a name is a value it has had since it was last
synced; the first version is the durable one, the last is what running processes see. After a
power cut each block, each size and each name has *any* of its versions, independently of all
others. So unsynced data may be lost, kept, or kept in parts and in any order; a file may have its
new size and zeros where its data were not written; a rename may have happened at one end only.
Syncing a file makes the last version of its blocks and size the only one, syncing a directory
that of the names in it, and neither does the other's work.

A sync that fails leaves the versions and makes the kernel forget that anything is unsynced:
later syncs succeed and change nothing for what was pending (`forsake`).
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

BLOCK_BYTES = 4096
_TRIES_PER_STATE = 4  # many choices lead to the same state: bytes of a file that has no name
_BLOCK_CHOICES_MAX = 8  # of one file; more blocks are decided in runs


@dataclass(eq=False)
class FileNode:
    """An inode's bytes."""

    mode: int
    blocks: dict[int, list[bytes]] = field(default_factory=dict[int, list[bytes]])
    sizes: list[int] = field(default_factory=lambda: [0])
    forsaken: set[int] = field(default_factory=set[int])
    forsaken_size: bool = False

    def write(self, data: bytes, offset_bytes: int) -> None:
        end = offset_bytes + len(data)
        for number in range(offset_bytes // BLOCK_BYTES, (end - 1) // BLOCK_BYTES + 1):
            start = number * BLOCK_BYTES
            block = bytearray(self._seen(number))
            inner = max(offset_bytes, start)
            piece = data[inner - offset_bytes : start + BLOCK_BYTES - offset_bytes]
            block[inner - start : inner - start + len(piece)] = piece
            self.blocks.setdefault(number, [bytes(BLOCK_BYTES)]).append(bytes(block))
            self.forsaken.discard(number)
        if end > self.sizes[-1]:
            self._set_size(end)

    def resize(self, size_bytes: int) -> None:
        if size_bytes > self.sizes[-1]:  # what was cut off before comes back as zeros
            for number, versions in self.blocks.items():
                seen = self._seen(number)
                if seen != versions[-1]:
                    versions.append(seen)
        self._set_size(size_bytes)

    def _set_size(self, size_bytes: int) -> None:
        self.sizes.append(size_bytes)
        self.forsaken_size = False

    def sync(self, until: dict[int, int] | None = None) -> None:
        """`until` is what `extent` said when the sync began: what came later is not covered."""
        until = self.extent() if until is None else until
        for number, versions in self.blocks.items():
            if number not in self.forsaken:
                del versions[: until.get(number, 1) - 1]
        if not self.forsaken_size:
            del self.sizes[: until[-1] - 1]
            self._forget_what_was_cut_off()

    def _forget_what_was_cut_off(self) -> None:
        """A cut that is durable has left zeros behind the end, as every file system does it."""
        end = self.sizes[0]
        for number, versions in self.blocks.items():
            within = max(0, end - number * BLOCK_BYTES)
            if within < BLOCK_BYTES:
                versions[0] = versions[0][:within].ljust(BLOCK_BYTES, b"\0")

    def extent(self) -> dict[int, int]:
        """How many versions each block has; -1 stands for the size."""
        return {number: len(it) for number, it in self.blocks.items()} | {-1: len(self.sizes)}

    def has_pending(self) -> bool:
        return len(self.sizes) > 1 or any(len(it) > 1 for it in self.blocks.values())

    def forsake(self) -> None:
        """A sync failed: what is pending now can no longer be made durable by syncing."""
        self.forsaken |= {number for number, versions in self.blocks.items() if len(versions) > 1}
        self.forsaken_size = self.forsaken_size or len(self.sizes) > 1

    def forget(self) -> bool:
        """Drop what a failed sync left behind in the cache; says whether there was any."""
        if not self.forsaken and not self.forsaken_size:
            return False
        for number in self.forsaken:
            del self.blocks[number][1:]
        del self.sizes[1:]
        self.forsaken.clear()
        self.forsaken_size = False
        return True

    def _seen(self, number: int) -> bytes:
        """A block as processes see it: what was cut off and not written again reads as zeros."""
        if number not in self.blocks:
            return bytes(BLOCK_BYTES)
        within = max(0, min(BLOCK_BYTES, self.sizes[-1] - number * BLOCK_BYTES))
        return self.blocks[number][-1][:within].ljust(BLOCK_BYTES, b"\0")

    def content(self, choice: dict[int, int], size_bytes: int) -> bytes:
        """The bytes with these versions of blocks (-1: the last) and this size."""
        content = bytearray(size_bytes)
        for number, versions in self.blocks.items():
            start = number * BLOCK_BYTES
            if start < size_bytes:
                block = versions[choice.get(number, -1)]
                content[start : start + BLOCK_BYTES] = block[: size_bytes - start]
        return bytes(content)


@dataclass(eq=False)
class DirectoryNode:
    """An inode's names; None among the versions: the name is not there."""

    mode: int
    names: dict[str, list[Node | None]] = field(default_factory=dict[str, "list[Node | None]"])
    forsaken: set[str] = field(default_factory=set[str])
    dropped: dict[str, int] = field(default_factory=dict[str, int])
    """How many versions of a name syncs have made history."""

    def get(self, name: str) -> Node | None:
        return self.names.get(name, [None])[-1]

    def set(self, name: str, node: Node | None) -> None:
        self.names.setdefault(name, [None]).append(node)
        self.forsaken.discard(name)

    def sync(self, until: dict[str, int] | None = None) -> None:
        """As for a file."""
        until = self.extent() if until is None else until
        for name, versions in list(self.names.items()):
            if name not in self.forsaken:
                history = until.get(name, 1) - 1
                del versions[:history]
                self.dropped[name] = self.dropped.get(name, 0) + history
                if versions == [None]:
                    del self.names[name]
                    self.dropped[name] += 1

    def extent(self) -> dict[str, int]:
        """How many versions each name has."""
        return {name: len(it) for name, it in self.names.items()}

    def has_pending(self) -> bool:
        return any(len(it) > 1 for it in self.names.values())

    def forsake(self) -> None:
        """As for a file."""
        self.forsaken |= {name for name, versions in self.names.items() if len(versions) > 1}


Node: TypeAlias = FileNode | DirectoryNode

Tree: TypeAlias = dict[str, tuple[int, bytes | None]]
"""A state: path → mode, and the bytes of a file or None for a directory."""

Key: TypeAlias = tuple[int, str | int]
"""Something that has several versions: (id of the inode, name | first block | -1 for the size)."""


class Model:
    """A directory tree with all its versions."""

    def __init__(self) -> None:
        self.root = DirectoryNode(0o755)

    def copy(self) -> Model:
        """A model that later changes to this one do not reach."""
        copied = Model()
        copied.root = _copy_directory(self.root, {})
        return copied

    def states(self, limit: int, seed: int) -> Iterator[Tree]:
        """States after a power cut now: all if there are at most `limit`, else the extremes,
        single deviations from them and random ones, at most `limit` in all. Each one once."""
        combinations = _combinations(self._choices(), limit, seed)
        seen: set[bytes] = set()
        for choice in itertools.islice(combinations, _TRIES_PER_STATE * limit):
            if len(seen) == limit:
                return
            tree = self._tree(choice)
            key = tree_key(tree)
            if key not in seen:
                seen.add(key)
                yield tree

    def _choices(self) -> dict[Key, int]:
        """Everything that has several versions, and how many."""
        choices: dict[Key, int] = {}
        waiting: list[Node] = [self.root]
        seen: set[int] = set()
        while waiting:
            node = waiting.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node, FileNode):
                choices |= {(id(node), number): many for number, many in _runs(node).items()}
                choices[id(node), -1] = len(node.sizes)
            else:
                choices |= {(id(node), name): len(it) for name, it in node.names.items()}
                waiting += [it for its in node.names.values() for it in its if it is not None]
        return {key: many for key, many in choices.items() if many > 1}

    def _tree(self, choice: dict[Key, int]) -> Tree:
        tree: Tree = {}
        waiting: list[tuple[str, DirectoryNode]] = [("", self.root)]
        while waiting:
            path, directory = waiting.pop()
            for name, versions in directory.names.items():
                node = versions[choice.get((id(directory), name), -1)]
                if isinstance(node, FileNode):
                    tree[path + name] = (node.mode, _content(node, choice))
                elif node is not None:
                    tree[path + name] = (node.mode, None)
                    waiting.append((f"{path}{name}/", node))
        return tree


def _copy_directory(directory: DirectoryNode, done: dict[int, Node]) -> DirectoryNode:
    copied = DirectoryNode(
        directory.mode, forsaken=set(directory.forsaken), dropped=dict(directory.dropped)
    )
    done[id(directory)] = copied
    for name, versions in directory.names.items():
        copied.names[name] = [None if node is None else _copy(node, done) for node in versions]
    return copied


def _copy(node: Node, done: dict[int, Node]) -> Node:
    if id(node) in done:
        return done[id(node)]
    if isinstance(node, DirectoryNode):
        return _copy_directory(node, done)
    blocks = {number: list(versions) for number, versions in node.blocks.items()}
    copied = FileNode(
        node.mode, blocks, list(node.sizes), set(node.forsaken), forsaken_size=node.forsaken_size
    )
    done[id(node)] = copied
    return copied


def tree_key(tree: Tree) -> bytes:
    """Equal for equal trees."""
    return hashlib.blake2b(repr(sorted(tree.items())).encode()).digest()


def _runs(node: FileNode) -> dict[int, int]:
    """Blocks that are decided together, by the first of each run, with the number of versions."""
    pending = sorted(number for number, versions in node.blocks.items() if len(versions) > 1)
    length = -(-len(pending) // _BLOCK_CHOICES_MAX) or 1
    return {
        pending[start]: max(len(node.blocks[it]) for it in pending[start : start + length])
        for start in range(0, len(pending), length)
    }


def _content(node: FileNode, choice: dict[Key, int]) -> bytes:
    versions: dict[int, int] = {}
    starts = sorted(_runs(node))
    for number in node.blocks:
        start = max((it for it in starts if it <= number), default=None)
        if start is not None and (id(node), start) in choice:
            versions[number] = min(choice[id(node), start], len(node.blocks[number]) - 1)
    return node.content(versions, node.sizes[choice.get((id(node), -1), -1)])


def _combinations(choices: dict[Key, int], limit: int, seed: int) -> Iterator[dict[Key, int]]:
    keys = list(choices)
    total = 1
    for many in choices.values():
        total *= many
    if total <= limit:
        for values in itertools.product(*(range(many) for many in choices.values())):
            yield dict(zip(keys, values, strict=True))
        return
    oldest = dict.fromkeys(keys, 0)
    newest = {key: many - 1 for key, many in choices.items()}
    yield oldest
    yield newest
    chance = random.Random(seed)
    singles = [(key, value) for key, many in choices.items() for value in range(many)]
    chance.shuffle(singles)
    while True:
        if singles:
            key, value = singles.pop()
            yield {**newest, key: value}
            yield {**oldest, key: value}
        yield {key: chance.randrange(many) for key, many in choices.items()}
