"""git and dulwich: loose objects, compressed, named by SHA-1."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from benchmarks.peers.peer import AbsentError, Opened, Peer, load


class Git:
    """A process for each call, as a runtime without a library would do it."""

    def __init__(self, folder: Path, *settings: str) -> None:
        git = shutil.which("git")
        if git is None:
            raise AbsentError("there is no git on the PATH")
        self._folder = folder
        self._git = [git, *settings, "-C", str(folder)]
        self._run("init", "--quiet", "--bare")

    async def put(self, data: bytes) -> str:
        return self._run("hash-object", "-w", "--stdin", given=data).decode().strip()

    async def read(self, key: str) -> bytes:
        return self._run("cat-file", "blob", key)

    async def scan(self) -> None:
        self._run("fsck", "--full", "--no-dangling", "--no-progress")

    def files(self, key: str) -> Sequence[Path]:
        return [_loose(self._folder, key)]

    def _run(self, *command: str, given: bytes = b"") -> bytes:
        done = subprocess.run(
            [*self._git, *command], input=given, check=True, capture_output=True, timeout=600
        )
        return done.stdout


class Dulwich:
    """The same objects, made in this process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._objects: Any = load("dulwich.objects")
        self._repository: Any = load("dulwich.repo").Repo.init_bare(str(folder))

    async def put(self, data: bytes) -> bytes:
        blob = self._objects.Blob.from_string(data)
        self._repository.object_store.add_object(blob)
        return blob.id

    async def read(self, key: bytes) -> bytes:
        return self._repository.object_store[key].data

    async def scan(self) -> None:
        for key in self._repository.object_store:
            found = self._repository.object_store[key]
            if self._objects.Blob.from_string(found.data).id != key:
                raise ValueError(key)

    def files(self, key: bytes) -> Sequence[Path]:
        return [_loose(self._folder, key.decode())]

    def close(self) -> None:
        self._repository.close()


def _loose(folder: Path, key: str) -> Path:
    return folder / "objects" / key[:2] / key[2:]


def _with(*settings: str) -> Callable[[Path], AbstractAsyncContextManager[Opened]]:
    @contextlib.asynccontextmanager
    async def opened(folder: Path) -> AsyncGenerator[Opened]:
        yield Git(folder, *settings)

    return opened


@contextlib.asynccontextmanager
async def _dulwich(folder: Path) -> AsyncGenerator[Dulwich]:
    with contextlib.closing(Dulwich(folder)) as opened:
        yield opened


GIT = (
    Peer(
        name="git hash-object -w",
        durable="nothing synced (core.fsync=none)",
        syncs=False,
        verifies=False,
        open=_with("-c", "core.fsync=none"),
    ),
    Peer(
        name="git hash-object -w, core.fsync",
        durable="file synced, its folder not (core.fsync=all)",
        syncs=True,
        verifies=False,
        open=_with("-c", "core.fsync=all", "-c", "core.fsyncMethod=fsync"),
    ),
    Peer(
        name="dulwich",
        durable="nothing synced",
        syncs=False,
        verifies=False,
        open=_dulwich,
    ),
)
