"""Readback: several forms of one session, each attachment verified once for all of them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from attachstore import Reference, Store
from attachstore.errors import ObjectMissingError, SequenceConflictError
from attachstore.replay import Outcome, Resolver
from tests.descriptors import open_descriptors
from tests.waiting import wait_until


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """A session of three events; the first two refer to an object each."""
    async with Store.open(tmp_path / "store", decode_in_process=True) as store:
        session = await store.sessions.create("s-1")
        for number in range(2):
            file = await store.attach(b"text %d\n" % number, declared="text/plain")
            await session.append("message", {"file": file})
        await session.append("message", {"n": 3})
        yield store


async def test_steps_export_and_page_verify_each_attachment_once(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`attachstore replay --export DIR --html FILE` did it three times."""
    verified: list[Reference] = []
    verify = Resolver._verify  # pyright: ignore[reportPrivateUsage]

    def counting(resolver: Resolver, reference: Reference, cancel: Any) -> Any:
        verified.append(reference)
        return verify(resolver, reference, cancel)

    monkeypatch.setattr(Resolver, "_verify", counting)
    readback = store.readback("s-1")

    steps = [step async for step in readback.steps()]
    await readback.write_page(tmp_path / "page.html")
    report = await readback.export(tmp_path / "files")

    assert report.files == 2
    assert len(verified) == 2
    assert [len(step.attachments) for step in steps] == [1, 1, 0]


async def test_each_readback_verifies_anew(store: Store) -> None:
    """What was whole a moment ago may not be any more."""
    assert [step.error async for step in store.replay("s-1")] == [None] * 3
    await store.drain()
    for path in (store.root / "objects").rglob("*"):
        if path.is_file():
            path.chmod(0o644)
            path.write_bytes(b"bad")

    outcomes = [
        each.outcome
        async for step in store.readback("s-1").steps(lenient=True)
        for each in step.attachments
    ]

    assert outcomes == [Outcome.CORRUPT] * 2


async def test_an_at_beyond_the_head_writes_nothing(store: Store, tmp_path: Path) -> None:
    readback = store.readback("s-1", at=4)

    with pytest.raises(SequenceConflictError):
        await readback.export(tmp_path / "files")
    with pytest.raises(SequenceConflictError):
        await readback.write_page(tmp_path / "page.html")
    with pytest.raises(SequenceConflictError):
        async for _ in readback.steps(lenient=True):
            pass

    assert [path.name for path in tmp_path.iterdir()] == ["store"]


async def test_a_replay_that_fails_leaves_nothing_open(store: Store, collector_off: None) -> None:
    """Its error leads back to the step, and that to the log: no circle may keep that open."""
    objects = (store.root / "objects" / "blake3").rglob("*")
    next(path for path in objects if path.is_file()).unlink()
    before = open_descriptors()

    for _ in range(10):
        with pytest.raises(ObjectMissingError):
            _ = [step async for step in store.replay("s-1")]

    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) <= before


@pytest.fixture
def collector_off() -> Iterator[None]:
    """What only the garbage collector would free stays."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def test_what_a_failed_replay_has_made_is_freed(store: Store) -> None:
    objects = (store.root / "objects" / "blake3").rglob("*")
    next(path for path in objects if path.is_file()).unlink()
    with pytest.raises(ObjectMissingError) as caught:
        _ = [step async for step in store.replay("s-1")]
    error = weakref.ref(caught.value)
    del caught

    def is_freed() -> bool:
        gc.collect()
        return error() is None

    wait_until(is_freed)  # the thread that told of it may not have left that call yet
