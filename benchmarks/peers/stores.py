"""Stores that other projects offer for the same use: disk-objectstore, DiskMediaStore, ADK."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.peer import AbsentError, Peer, load


class Container:
    """disk-objectstore: loose files, or appended to a pack."""

    def __init__(self, folder: Path, *, packed: bool) -> None:
        self._container: Any = load("disk_objectstore").Container(str(folder / "container"))
        self._container.init_container()
        self._packed = packed

    async def put(self, data: bytes) -> str:
        if self._packed:
            (key,) = self._container.add_objects_to_pack([data])
            return key
        return self._container.add_object(data)

    async def read(self, key: str) -> bytes:
        return self._container.get_object_content(key)

    async def scan(self) -> None:
        issues = self._container.validate()
        if issues.invalid_hashes_loose or issues.invalid_hashes_packed:
            raise ValueError(issues)

    def files(self, key: str) -> Sequence[Path]:  # noqa: ARG002 - it syncs by itself
        raise AbsentError("needs no barrier")

    def close(self) -> None:
        self._container.close()


class MediaStore:
    """pydantic-ai-harness."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._media: Any = load("pydantic_ai_harness.media")
        self._store: Any = self._media.DiskMediaStore(folder)

    async def put(self, data: bytes) -> Any:
        return await self._store.put(data)

    async def read(self, key: Any) -> bytes:
        return await self._store.get(key)

    async def scan(self) -> None:
        raise AbsentError("it has no scan")

    def files(self, key: Any) -> Sequence[Path]:
        return [self._store._path_for(key, self._media.MediaContext())]  # noqa: SLF001 - no other way


class Artifacts:
    """ADK: a name and a version for each artifact; here a name for each content."""

    SCOPE = {"app_name": "app", "user_id": "user", "session_id": "s-1"}  # noqa: RUF012

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._types: Any = load("google.genai.types")
        self._service: Any = load("google.adk.artifacts").FileArtifactService(folder)
        self._numbers = itertools.count()

    async def put(self, data: bytes) -> str:
        name = f"a-{next(self._numbers)}"
        part = self._types.Part.from_bytes(data=data, mime_type="text/plain")
        await self._service.save_artifact(filename=name, artifact=part, **self.SCOPE)
        return name

    async def read(self, key: str) -> bytes:
        part = await self._service.load_artifact(filename=key, **self.SCOPE)
        return part.inline_data.data

    async def scan(self) -> None:
        raise AbsentError("it has no scan")

    def files(self, key: str) -> Sequence[Path]:
        (folder,) = self._folder.glob(f"apps/*/users/*/sessions/*/artifacts/{key}")
        return [path for path in folder.rglob("*") if path.is_file()]


@contextlib.asynccontextmanager
async def _loose(folder: Path) -> AsyncGenerator[Container]:
    with contextlib.closing(Container(folder, packed=False)) as opened:
        yield opened


@contextlib.asynccontextmanager
async def _packed(folder: Path) -> AsyncGenerator[Container]:
    with contextlib.closing(Container(folder, packed=True)) as opened:
        yield opened


@contextlib.asynccontextmanager
async def _media(folder: Path) -> AsyncGenerator[MediaStore]:
    yield MediaStore(folder)


@contextlib.asynccontextmanager
async def _artifacts(folder: Path) -> AsyncGenerator[Artifacts]:
    yield Artifacts(folder)


STORES = (
    Peer(
        name="disk-objectstore, loose",
        durable="file synced; of the folders, not the one with the name",
        syncs=True,
        verifies=False,
        open=_loose,
    ),
    Peer(
        name="disk-objectstore, packed",
        durable="pack synced, index in SQLite as that has it",
        syncs=True,
        verifies=False,
        open=_packed,
    ),
    Peer(
        name="DiskMediaStore",
        durable="nothing synced",
        blocks=False,
        syncs=False,
        verifies=False,
        open=_media,
    ),
    Peer(
        name="FileArtifactService",
        durable="nothing synced",
        blocks=False,
        syncs=False,
        verifies=False,
        open=_artifacts,
    ),
)
