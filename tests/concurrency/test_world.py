"""The model's file system says what the real one says, call by call."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from attachstore.disk import Disk
from tests.concurrency.world import World

NAMES = ("a/one", "a/two", "b/one")
PATHS = st.sampled_from([*NAMES, "a", "b", "c/one"])
FILES = st.sampled_from(NAMES)
DESCRIPTORS = st.integers(0, 3)  # the n-th of those that are open

CALLS = st.one_of(
    st.tuples(st.just("open_temporary"), st.sampled_from(["a", "b"])),
    st.tuples(st.sampled_from(["create", "open_lock", "unlink"]), FILES),
    st.tuples(st.sampled_from(["open_read", "status"]), FILES),
    st.tuples(st.sampled_from(["open_directory", "list_names", "sync_directory"]), PATHS),
    st.tuples(st.sampled_from(["link", "rename", "exchange"]), FILES, FILES),
    st.tuples(st.sampled_from(["close", "sync_file", "status_open", "lock"]), DESCRIPTORS),
    st.tuples(st.just("read_into"), DESCRIPTORS, st.integers(0, 6), st.integers(0, 6)),
    st.tuples(st.just("write"), DESCRIPTORS, st.binary(max_size=5), st.integers(0, 6)),
    st.tuples(st.just("truncate"), DESCRIPTORS, st.integers(0, 6)),
    st.tuples(st.just("link_open_file"), DESCRIPTORS, FILES),
)


class Pair:
    """The same calls on a directory and on a World; answers are compared."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.disk = Disk()
        self.world = World(frozenset({"a", "b"}))
        self.open: list[tuple[int, int, str]] = []  # real, model, and how it was opened
        for name in ("a", "b"):
            (root / name).mkdir()

    def make(self, method: str, *arguments: Any) -> None:
        opened = ""
        if isinstance(arguments[0], int):
            if arguments[0] >= len(self.open):
                return
            real, model, opened = self.open[arguments[0]]
            if opened == "open_directory" and method not in {"close", "lock"}:
                return
            if opened == "open_read" and method in {"write", "truncate"}:
                return
            found = self._answers(method, (real, *arguments[1:]), (model, *arguments[1:]))
            if method == "close":
                self.open.pop(arguments[0])
        else:
            found = self._answers(method, arguments, arguments)
        if method.startswith("open_") or method == "create":
            if found is not None:
                self.open.append((*found, method))
        elif found is not None:
            assert found[0] == found[1], (method, arguments)

    def _answers(
        self, method: str, real: tuple[Any, ...], model: tuple[Any, ...]
    ) -> tuple[Any, Any] | None:
        numbers: list[int | None] = []
        answers: list[Any] = []
        for call, values in ((self._on_disk, real), (self._on_model, model)):
            try:
                answers.append(call(method, values))
                numbers.append(None)
            except OSError as error:
                numbers.append(error.errno)
        assert numbers[0] == numbers[1], (method, real, numbers)
        return (answers[0], answers[1]) if len(answers) == 2 else None

    def _on_disk(self, method: str, values: tuple[Any, ...]) -> Any:
        if method == "read_into":
            buffer = bytearray(values[1])
            return bytes(buffer[: self.disk.read_into(values[0], buffer, values[2])])
        if method == "lock":
            return self.disk.lock(values[0], exclusive=True, wait=False)
        if method == "list_names":
            return tuple(self.disk.names(self.root / values[0]))
        paths = [self.root / each if isinstance(each, str) else each for each in values]
        if method in {"open_temporary", "create"}:
            paths.append(0o644)
        return self._plain(method, getattr(self.disk, method)(*paths))

    def _on_model(self, method: str, values: tuple[Any, ...]) -> Any:
        if method == "lock":
            return self.world.lock(1, values[0], True, False)
        if method in {"open_temporary", "create"}:
            values = (*values, 0o644)
        return self._plain(method, self.world.apply(1, method, values))

    def _plain(self, method: str, answer: Any) -> Any:
        return answer.st_size if method.startswith("status") else answer

    def close(self) -> None:
        for real, _, _ in self.open:
            with contextlib.suppress(OSError):
                os.close(real)

    def is_same(self) -> bool:
        """Whether names lead to the same bytes, and to the same file as other names do."""
        real = {name: self.root / name for name in NAMES if (self.root / name).exists()}
        inodes = {name: path.stat().st_ino for name, path in real.items()}
        same_file = {(one, two) for one in real for two in real if inodes[one] == inodes[two]}
        names = self.world.names
        return {name: path.read_bytes() for name, path in real.items()} == {
            name: self.world.files[inode].content for name, inode in names.items()
        } and same_file == {
            (one, two) for one in names for two in names if names[one] == names[two]
        }


@given(st.lists(CALLS, max_size=40))
@settings(max_examples=150)
def test_every_call_is_answered_as_the_kernel_answers_it(calls: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        pair = Pair(Path(directory))
        try:
            for call in calls:
                pair.make(*call)
                assert pair.is_same(), call
        finally:
            pair.close()


def test_a_power_cut_leaves_any_value_since_the_last_sync() -> None:
    world = World(frozenset({"d"}))
    descriptor = world.create(1, "d/x", 0o644)
    assert world.may_be_left("d/x") == {None, world.names["d/x"]}

    world.sync_directory(1, "d")
    assert world.may_be_left("d/x") == {world.names["d/x"]}

    inode = world.names["d/x"]
    world.rename(1, "d/x", "d/y")
    world.close(1, descriptor)
    assert world.may_be_left("d/x") == {inode, None}
    assert world.may_be_left("d/y") == {inode, None}


def test_a_lock_goes_with_its_process() -> None:
    world = World(frozenset({"d"}))
    first, second = world.open_directory(1, "d"), world.open_directory(2, "d")
    world.lock(1, first, True, False)
    assert world.blocks("lock", (second, True, True), 2)

    world.end(1)

    assert not world.blocks("lock", (second, True, True), 2)
