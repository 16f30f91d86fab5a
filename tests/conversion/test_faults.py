"""A conversion that fails, is killed, or loses power: the old store or the new one, whole."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attachstore.conversion import convert
from attachstore.disk import Disk
from attachstore.errors import AttachstoreError, StorageFullError
from tests.conversion.scene import OTHER, Content, contents, make_small, medium_in
from tests.crash_model import FileNode
from tests.faults import CHANGES, SYNCS, Effect, InterceptedDisk, PowerLossDisk, failing_disks

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture(params=["jsonl", "sqlite"])
def source(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def scene(memory_path: Path, source: str) -> Path:
    return make_small(memory_path / "scene", source)


def check(root: Path, before: dict[str, Content], target: str) -> None:
    """Nothing is lost, and a conversion goes through now."""
    assert contents(root) == before
    convert(Disk(), root, target)
    assert medium_in(root) == target
    assert contents(root) == before
    assert not (root / "converting").exists()


@pytest.mark.parametrize("effect", ["none", "done"])
@pytest.mark.parametrize("sticky", [False, True], ids=["once", "for ever"])
def test_any_call_that_fails_leaves_one_store_or_the_other(
    memory_path: Path, scene: Path, source: str, effect: Effect, sticky: bool
) -> None:
    before = contents(scene)
    methods = CHANGES | SYNCS if sticky else None
    options: dict[str, Any] = {"effect": effect, "sticky": sticky}
    if methods is not None:
        options["methods"] = methods
    failed = 0
    for number, disk in enumerate(failing_disks(**options)):
        root = shutil.copytree(scene, memory_path / str(number))
        try:
            convert(disk, root, OTHER[source])
        except AttachstoreError:
            failed += 1
        check(root, before, OTHER[source])
        shutil.rmtree(root)
    assert failed > 30


def test_a_full_disk_leaves_the_old_store(memory_path: Path, scene: Path, source: str) -> None:
    before = contents(scene)
    full = 0
    for number, disk in enumerate(failing_disks(methods={"write"}, error=errno.ENOSPC)):
        root = shutil.copytree(scene, memory_path / str(number))
        try:
            convert(disk, root, OTHER[source])
        except StorageFullError:
            full += 1
            assert medium_in(root) == source
        check(root, before, OTHER[source])
    assert full > 2, "only the text in a lock is a write that may fail"


class KillingDisk(InterceptedDisk):
    """Kills its process at the n-th call: before it, or right after."""

    def __init__(self, at: int, *, after: bool) -> None:
        super().__init__()
        self.at = at
        self.after = after
        self.calls = 0

    def intercept(self, method: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        if method not in CHANGES | SYNCS:
            return call()
        self.calls += 1
        if self.calls == self.at and not self.after:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return call()
        finally:
            if self.calls == self.at:
                os.kill(os.getpid(), signal.SIGKILL)


def killed_at(at: int, root: Path, target: str, *, after: bool) -> bool:
    """Convert in a child that is killed; False if it came to its end."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            convert(KillingDisk(at, after=after), root, target)
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_at_any_call_it_is_one_store_or_the_other(
    memory_path: Path, scene: Path, source: str, after: bool
) -> None:
    """Each call that changes something or syncs; what a kill leaves of SQLite's own, too."""
    before = contents(scene)
    media: list[str] = []
    for at in itertools.count(1):
        root = shutil.copytree(scene, memory_path / str(at))
        if not killed_at(at, root, OTHER[source], after=after):
            break
        media.append(medium_in(root))
        check(root, before, OTHER[source])
        shutil.rmtree(root)
    assert set(media) == {source, OTHER[source]}
    assert media == sorted(media, key=[source, OTHER[source]].index), "there and never back"


class DatabaseDisk(PowerLossDisk):
    """Knows that a sync saves what SQLite has written to a file, past the disk seam."""

    def intercept(self, method: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        if method == "sync_file":
            node: Any = self._nodes.get(arguments[0])
            content = os.pread(arguments[0], 1 << 24, 0)
            if content.startswith(b"SQLite format 3\0"):
                node.resize(len(content))
                node.write(content, 0)
        return super().intercept(method, call, arguments)

    def _opened(self, path: Path, descriptor: int) -> None:
        if not path.name.endswith("-wal"):
            super()._opened(path, descriptor)
            return
        self._nodes[descriptor] = FileNode(0o644)  # SQLite's own: gone when it closes


def test_a_power_cut_leaves_one_store_or_the_other(
    memory_path: Path, scene: Path, source: str
) -> None:
    """At any call; and once it has returned, the new one."""
    before = contents(scene)
    disk = DatabaseDisk(scene)
    convert(disk, scene, OTHER[source])
    disk.acknowledge("converted")
    media: set[str] = set()
    for state, promises in disk.crash_moments(into=memory_path, limit=4):
        medium = medium_in(state)
        media.add(medium)
        assert contents(state) == before, medium
        if promises:
            assert medium == OTHER[source]
    assert media == {source, OTHER[source]}
