"""Where the time of a call goes: its steps one by one, each against the floor of that call.

No targets: these rows explain the others. Steps overlap in the call itself (bytes are examined
while they are synced), so they may add up to more than the whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Generator
from pathlib import Path

from blake3 import blake3

from attachstore import AdmissionPolicy, Store
from attachstore.admission import admit
from attachstore.attachment import BytesContent
from benchmarks.append import EVENT_BYTES
from benchmarks.commit import write_durably
from benchmarks.measure import NOISE_FRONT, Plan, Question, Row, Side, Supply, spent, text
from benchmarks.read import read_and_hash

SIZE_BYTES = 16 << 10
RECORD_BYTES_MAX = 8 << 20


async def measure(plan: Plan) -> list[Row]:
    async with Store.open(plan.directory / "store", policy=AdmissionPolicy.any()) as store:
        attach = await _attach_steps(store, plan)
        read = await _read_steps(store, plan)
        append = await _append_steps(store, plan)
    return [*attach, *read, *append]


async def _attach_steps(store: Store, plan: Plan) -> list[Row]:
    folder = plan.directory / "files"
    folder.mkdir()
    policy = AdmissionPolicy.any()
    new = Supply(SIZE_BYTES, 8)

    async def floor() -> None:
        write_durably(folder, new())

    async def whole() -> None:
        await store.attach(new())

    async def of_no_type() -> None:
        await store.attach(NOISE_FRONT + new()[len(NOISE_FRONT) :])

    def commit() -> None:
        store.objects.commit(admit(BytesContent(new()), policy))

    def sniff() -> None:
        admit(BytesContent(new()), policy).content.close()

    with _preallocated(plan.directory / "record", new) as record:
        return await steps(
            "attach 16 KiB",
            "write, fsync, link, fsync directory",
            {
                "attach, text": whole,
                "attach, bytes that only libmagic names": of_no_type,
                "admit and commit, without a thread": at_once(commit),
                "sniff and probe the text": at_once(sniff),
                "BLAKE3": at_once(lambda: blake3(new()).digest()),
                "to a thread and back": _hop,
                "write and fsync, no name": at_once(lambda: _write_unnamed(folder, new())),
                "write into a zero-filled file, fdatasync": at_once(record),
            },
            floor,
            plan,
            new.refill,
        )


async def _read_steps(store: Store, plan: Plan) -> list[Row]:
    data = text(SIZE_BYTES)
    path = plan.directory / "read"
    path.write_bytes(data)
    reference = await store.attach(data)
    loop = asyncio.get_running_loop()

    async def floor() -> None:
        await loop.run_in_executor(None, read_and_hash, path)

    async def whole() -> None:
        await store.read(reference)

    return await steps(
        "read 16 KiB",
        "open, read, BLAKE3 in one run_in_executor call",
        {
            "verified read": whole,
            "verified read, without a thread": at_once(lambda: store.objects.read(reference)),
            "to a thread and back": _hop,
            "open, read, BLAKE3": at_once(lambda: read_and_hash(path)),
            "open, read": at_once(path.read_bytes),
        },
        floor,
        plan,
    )


async def _append_steps(store: Store, plan: Plan) -> list[Row]:
    session = await store.sessions.create("s-1")
    line = b"y" * (EVENT_BYTES - 1) + b"\n"
    descriptor = os.open(plan.directory / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    content = "x" * (EVENT_BYTES - 28)

    async def floor() -> None:
        os.write(descriptor, line)
        os.fdatasync(descriptor)

    async def whole() -> None:
        await session.append("message", {"role": "user", "content": content})

    try:
        with _preallocated(plan.directory / "zeros", lambda: line) as record:
            return await steps(
                "append 500 B",
                "write at the end, fdatasync",
                {
                    "append": whole,
                    "write into a zero-filled file, fdatasync": at_once(record),
                    "to a thread and back": _hop,
                },
                floor,
                plan,
            )
    finally:
        os.close(descriptor)


async def steps(
    of: str,
    floor_text: str,
    each_step: dict[str, Side],
    floor: Side,
    plan: Plan,
    prepare: Callable[[], None] = lambda: None,
) -> list[Row]:
    each = await spent([floor, *each_step.values()], rounds=plan.rounds(100), prepare=prepare)
    return [
        Row(
            question=Question(
                text=f"{of}: {name}",
                floor=floor_text,
                target=None,
                ours_durable="a step",
                floor_durable="the floor: its whole call",
                group="steps",
            ),
            size=of.partition(" ")[2],
            ratios=tuple(round_ns[number] / round_ns[0] for round_ns in each),
        )
        for number, name in enumerate(each_step, 1)
    ]


def at_once(call: Callable[[], object]) -> Side:
    async def side() -> None:
        call()

    return side


async def _hop() -> None:
    await asyncio.get_running_loop().run_in_executor(None, int)


def _write_unnamed(folder: Path, data: bytes) -> None:
    descriptor = os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o444)
    try:
        os.write(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _preallocated(path: Path, made: Callable[[], bytes]) -> Generator[Callable[[], None]]:
    """A call that writes the next record over zeros and syncs: less than any new file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, bytes(RECORD_BYTES_MAX))
        os.fsync(descriptor)
        place = 0

        def write() -> None:
            nonlocal place
            data = made()
            os.pwrite(descriptor, data, place)
            os.fdatasync(descriptor)
            place = (place + len(data)) % (RECORD_BYTES_MAX - len(data))

        yield write
    finally:
        os.close(descriptor)
