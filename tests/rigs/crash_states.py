"""Which directory trees a power cut may leave, given what is durable and what is not.

Every block, size and name with several versions is a choice of its own. A block of 4096 bytes may
also be torn: a disk writes sectors of 512. Up to `cap` combinations are all tried; of more, in
this order and `cap` in all: everything lost, everything kept, one choice against all others, two
against all others, and random ones. With `atomic_renames` only the states are left in which both
ends of each rename happened or neither.

The blocks of one file are decided in at most eight runs, so a large file is not torn at each of
its blocks. Directories of objects that are empty and durable are left out: a store has 256, a
state differs in one or two, and a store without the empty ones is as good (tools that copy leave
them out too).
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tests.crash_model import BLOCK_BYTES, DirectoryNode, FileNode, Model, Node
from tests.rigs.adopting import all_nodes
from tests.rigs.replaying import Name

Tree: TypeAlias = dict[str, tuple[int, bytes | None]]
"""Path → mode, and the bytes of a file or None for a directory."""

_SIZE = -1
_SECTOR_BYTES = 512
_RUNS_MAX = 8
_PAIRS_MAX = 2_000
_SHARD = re.compile(r".*/objects/blake3/[0-9a-f]{2}")

Blocks: TypeAlias = dict[int, bytes]


@dataclass(frozen=True, slots=True)
class Choice:
    """Something with several versions: a name, a file's size, or some of its blocks."""

    node: Node
    key: str | int
    """A name, the first block of a run, or -1 for the size."""
    versions: int
    blocks: tuple[Blocks, ...] = ()
    """Of a run: what its blocks hold in each version."""


@dataclass(frozen=True, slots=True)
class Selection:
    """How many states of one moment, and which."""

    cap: int
    atomic_renames: bool = False
    seed: int = 0


def crash_trees(
    model: Model, selection: Selection, renames: Sequence[tuple[Name, Name]] = ()
) -> Iterator[Tree]:
    """The trees that may be found after a power cut now; some of them more than once."""
    choices = _choices(model)
    ties = _ties(renames, choices) if selection.atomic_renames else []
    builder = _Builder(model, choices)
    for combination in _combinations([it.versions for it in choices], selection):
        if all(
            _is_after(first, combination) == _is_after(second, combination)
            for first, second in ties
        ):
            yield builder.tree(combination)


def visible_tree(model: Model) -> Tree:
    """What running processes see."""
    return _Builder(model, []).tree(())


def _choices(model: Model) -> list[Choice]:
    choices: list[Choice] = []
    for node in all_nodes(model):
        if isinstance(node, FileNode):
            choices += _runs(node)
            choices.append(Choice(node, _SIZE, len(node.sizes)))
        else:
            choices += [Choice(node, name, len(it)) for name, it in node.names.items()]
    return [it for it in choices if it.versions > 1]


def _runs(node: FileNode) -> Iterator[Choice]:
    pending = sorted(number for number, versions in node.blocks.items() if len(versions) > 1)
    length = -(-len(pending) // _RUNS_MAX) or 1
    for start in range(0, len(pending), length):
        run = {number: node.blocks[number] for number in pending[start : start + length]}
        many = max(map(len, run.values()))
        versions = [
            {it: run[it][min(version, len(run[it]) - 1)] for it in run} for version in range(many)
        ]
        if length == 1:
            torn = [{pending[start]: block} for block in _torn(node.blocks[pending[start]])]
            versions[1:1] = torn  # the first stays the durable one, the last what processes see
        yield Choice(node, pending[start], len(versions), tuple(versions))


def _torn(versions: Sequence[bytes]) -> Iterator[bytes]:
    """Blocks of which only the first or only the last changed sectors were written."""
    starts = range(0, BLOCK_BYTES, _SECTOR_BYTES)
    for old, new in itertools.pairwise(versions):
        changed = [
            it for it in starts if old[it : it + _SECTOR_BYTES] != new[it : it + _SECTOR_BYTES]
        ]
        for cut in changed[1:]:
            yield new[:cut] + old[cut:]
            yield old[:cut] + new[cut:]


def _combinations(versions: Sequence[int], selection: Selection) -> Iterator[tuple[int, ...]]:
    total = 1
    for many in versions:
        total *= many
        if total > selection.cap:
            return _selected(versions, selection)
    return itertools.product(*(range(many) for many in versions))


def _selected(versions: Sequence[int], selection: Selection) -> Iterator[tuple[int, ...]]:
    """All lost, all kept; then those with one choice that differs, with two, and any."""
    chance = random.Random(selection.seed)
    lost = [0] * len(versions)
    kept = [many - 1 for many in versions]
    given = 0
    for differing in (_none_differs, _one_differs, _two_differ):
        if given == selection.cap:
            return
        order = [
            (ground, changes)
            for ground, other in ((lost, kept), (kept, lost))
            for changes in differing(versions, ground, other, chance)
        ]
        if given + len(order) > selection.cap:
            chance.shuffle(order)
        for ground, changes in itertools.islice(order, selection.cap - given):
            given += 1
            combination = list(ground)
            for position, value in changes:
                combination[position] = value
            yield tuple(combination)
    for _ in range(selection.cap - given):
        yield tuple(chance.randrange(many) for many in versions)


_Changes: TypeAlias = "Iterable[tuple[tuple[int, int], ...]]"
"""Positions and their values, in place of those of the ground."""


def _none_differs(
    versions: Sequence[int], ground: Sequence[int], other: Sequence[int], chance: random.Random
) -> _Changes:
    del versions, ground, other, chance
    return [()]


def _one_differs(
    versions: Sequence[int], ground: Sequence[int], other: Sequence[int], chance: random.Random
) -> _Changes:
    del other, chance
    for position, many in enumerate(versions):
        for value in range(many):
            if ground[position] != value:
                yield ((position, value),)


def _two_differ(
    versions: Sequence[int], ground: Sequence[int], other: Sequence[int], chance: random.Random
) -> _Changes:
    del ground
    positions = range(len(versions))
    pairs = len(positions) * (len(positions) - 1) // 2
    if pairs <= _PAIRS_MAX:
        chosen = [*itertools.combinations(positions, 2)]
    else:
        chosen = [(*sorted(chance.sample(positions, 2)),) for _ in range(_PAIRS_MAX)]
    for first, second in chosen:
        yield (first, other[first]), (second, other[second])


# A tie's end: the position of its choice and the version from which on it has happened; True if
# it can't be undone any more.
_End: TypeAlias = "tuple[int, int] | None"


def _ties(
    renames: Sequence[tuple[Name, Name]], choices: Sequence[Choice]
) -> list[tuple[_End, _End]]:
    positions = {(id(it.node), it.key): number for number, it in enumerate(choices)}

    def end(name: Name) -> _End:
        position = positions.get((id(name.directory), name.name))
        version = name.version - name.directory.dropped.get(name.name, 0)
        return None if position is None or version <= 0 else (position, version)

    ties = [(end(first), end(second)) for first, second in renames]
    return [tie for tie in ties if tie != (None, None)]


def _is_after(end: _End, combination: Sequence[int]) -> bool:
    return end is None or combination[end[0]] >= end[1]


class _Builder:
    """Makes trees of one model; contents are put together once for each combination of a file."""

    def __init__(self, model: Model, choices: Sequence[Choice]) -> None:
        self._root = model.root
        self._choices = choices
        self._of_node: dict[int, list[int]] = {}
        for position, choice in enumerate(choices):
            self._of_node.setdefault(id(choice.node), []).append(position)
        self._contents: dict[tuple[int, ...], bytes] = {}
        self._plain: dict[int, list[tuple[str, Node | None]]] = {}

    def tree(self, combination: Sequence[int]) -> Tree:
        tree: Tree = {}
        waiting: list[tuple[str, DirectoryNode]] = [("", self._root)]
        while waiting:
            path, directory = waiting.pop()
            for name, node in self._entries(directory, combination):
                if isinstance(node, FileNode):
                    tree[path + name] = (node.mode, self._content(node, combination))
                elif node is not None and not self._is_dull(directory, name, node, path):
                    tree[path + name] = (node.mode, None)
                    waiting.append((f"{path}{name}/", node))
        return tree

    def _is_dull(self, parent: DirectoryNode, name: str, node: DirectoryNode, path: str) -> bool:
        if node.names or len(parent.names[name]) > 1:
            return False
        return _SHARD.fullmatch(path + name) is not None

    def _entries(
        self, directory: DirectoryNode, combination: Sequence[int]
    ) -> list[tuple[str, Node | None]]:
        plain = self._plain.get(id(directory))
        if plain is None:
            plain = [(name, it[-1]) for name, it in directory.names.items()]
            self._plain[id(directory)] = plain
        chosen = self._of_node.get(id(directory))
        if chosen is None:
            return plain
        entries = dict(plain)
        for position in chosen:
            name = str(self._choices[position].key)
            entries[name] = directory.names[name][combination[position]]
        return list(entries.items())

    def _content(self, node: FileNode, combination: Sequence[int]) -> bytes:
        chosen = {position: combination[position] for position in self._of_node.get(id(node), [])}
        key = (id(node), *chosen.values())
        content = self._contents.get(key)
        if content is None:
            content = self._contents[key] = self._put_together(node, chosen)
        return content

    def _put_together(self, node: FileNode, chosen: dict[int, int]) -> bytes:
        size_bytes = node.sizes[-1]
        blocks = {number: versions[-1] for number, versions in node.blocks.items()}
        for position, version in chosen.items():
            choice = self._choices[position]
            if choice.key == _SIZE:
                size_bytes = node.sizes[version]
            else:
                blocks |= choice.blocks[version]
        content = bytearray(size_bytes)
        for number, block in blocks.items():
            start = number * BLOCK_BYTES
            if start < size_bytes:
                content[start : start + BLOCK_BYTES] = block[: size_bytes - start]
        return bytes(content)
