"""Workloads on objects: attach in every way, find a duplicate, heal, read, move aside."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from attachstore import Digest, IntakePolicy
from tests.rigs.workloads.contents import LARGE, SMALL
from tests.rigs.workloads.scene import BURST, Scene, object_facts
from tests.rigs.workloads.workload import Workload


async def empty(scene: Scene) -> None:
    async with scene.store():
        pass


async def one_object(scene: Scene) -> None:
    """A store with one small and one large object, and a session that refers to both."""
    async with scene.store() as store:
        small = await scene.put(store, SMALL[0])
        large = await scene.put(store, LARGE[0])
        handle = await scene.create(store, "s-1")
        assert handle is not None
        await handle.append("kept/1", file=small)
        await handle.append("kept/2", file=large)


async def corrupt_object(scene: Scene) -> None:
    """As `one_object`, then the medium changes a byte of the small one."""
    await one_object(scene)
    digest = Digest.of(SMALL[0])
    path = object_path(scene.root, digest)
    path.chmod(0o644)
    path.write_bytes(SMALL[0].upper())
    path.chmod(0o444)
    scene.journal.given("corrupt", digest=digest.hex)


def object_path(root: Path, digest: Digest) -> Path:
    return root / "objects" / "blake3" / digest.hex[:2] / digest.hex


async def put_small_as_files(scene: Scene) -> None:
    await _put(scene, SMALL[:2], intake=False)


async def put_large(scene: Scene) -> None:
    await _put(scene, LARGE)


async def put_duplicate(scene: Scene) -> None:
    await _put(scene, [SMALL[0], LARGE[0]])


async def heal(scene: Scene) -> None:
    await _put(scene, [SMALL[0], SMALL[1]])


async def put_file(scene: Scene) -> None:
    async with scene.store() as store:
        for content in (SMALL[0], LARGE[0]):
            await scene.put(store, content, source_file(scene, content))


async def put_stream(scene: Scene) -> None:
    async with scene.store() as store:
        for content in (SMALL[0], LARGE[0]):
            await scene.put(store, content, _stream(content))


async def take_in_batch(scene: Scene) -> None:
    await _put_batch(scene, intake=BURST)


async def put_batch_as_files(scene: Scene) -> None:
    await _put_batch(scene, intake=False)


async def _put_batch(scene: Scene, *, intake: bool | IntakePolicy) -> None:
    async with scene.store(intake=intake) as store:
        await scene.put_many(store, [SMALL[0], LARGE[0], SMALL[1]])
        await scene.put_many(store, [SMALL[2], SMALL[0]])


async def take_in_and_log(scene: Scene) -> None:
    await _put_and_log(scene, intake=BURST)


async def put_and_log_as_files(scene: Scene) -> None:
    """The line that everything is for: an object, then an event that refers to it."""
    await _put_and_log(scene, intake=False)


async def _put_and_log(scene: Scene, *, intake: bool | IntakePolicy) -> None:
    async with scene.store(intake=intake) as store:
        handle = await scene.create(store, "s-1")
        for number, content in enumerate(SMALL[:2], start=1):
            reference = await scene.put(store, content)
            if handle is not None and reference is not None:
                await handle.append(f"logged/{number}", file=reference)


async def take_in_and_drain(scene: Scene) -> None:
    """A burst of small objects, which are durable before they have files; then their files."""
    async with scene.store() as store:
        handle = await scene.create(store, "s-1")
        for number, content in enumerate(SMALL, start=1):
            reference = await scene.put(store, content)
            if handle is not None and reference is not None:
                await handle.append(f"taken-in/{number}", file=reference)
        await scene.drain(store)
        await scene.put(store, SMALL[1])


async def read(scene: Scene) -> None:
    async with scene.store() as store:
        for content in (SMALL[0], LARGE[0]):
            await scene.read(store, Digest.of(content))
        await scene.read_session(store, "s-1")


async def quarantine(scene: Scene) -> None:
    async with scene.store() as store:
        await scene.quarantine(store, Digest.of(SMALL[0]))
        await scene.put(store, SMALL[0])


def source_file(scene: Scene, content: bytes) -> Path:
    """A user's file with that content; the start makes it."""
    return scene.beside / f"{object_facts(content)['digest'][:8]}.txt"


async def empty_with_sources(scene: Scene) -> None:
    await empty(scene)
    for content in (SMALL[0], LARGE[0]):
        source_file(scene, content).write_bytes(content)


async def _put(
    scene: Scene, contents: Sequence[bytes], *, intake: bool | IntakePolicy = BURST
) -> None:
    async with scene.store(intake=intake) as store:
        for content in contents:
            await scene.put(store, content)


async def _stream(content: bytes) -> AsyncGenerator[bytes]:
    half = len(content) // 2
    yield content[:half]
    yield content[half:]


OBJECT_WORKLOADS = (
    Workload("put-small", empty, put_small_as_files),
    Workload("put-large", empty, put_large),
    Workload("put-file", empty_with_sources, put_file),
    Workload("put-stream", empty, put_stream),
    Workload("put-batch", empty, put_batch_as_files),
    Workload("take-in-batch", empty, take_in_batch),
    Workload("put-duplicate", one_object, put_duplicate),
    Workload("heal", corrupt_object, heal),
    Workload("quarantine", corrupt_object, quarantine),
    Workload("put-and-log", empty, put_and_log_as_files),
    Workload("take-in-and-log", empty, take_in_and_log),
    Workload("take-in-and-drain", empty, take_in_and_drain),
    Workload("read", one_object, read),
)
