"""Several sources admitted together: nobody is left at work, and nothing is left open."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from attachstore import Store, admitting
from attachstore.admission.source import MEMORY_BYTES_MAX
from tests.descriptors import open_descriptors


async def test_a_cancelled_batch_ends_after_all_its_threads_and_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One lane is done at once when it is cancelled; another one is in the middle of a file."""
    monkeypatch.setattr(admitting, "PIECE_OFFERS_MAX", 1)
    path = tmp_path / "large.txt"
    path.write_bytes(b"x" * (MEMORY_BYTES_MAX + 1))  # kept in staging, in an open file
    reached, go_on = threading.Event(), threading.Event()
    admit = admitting._admit

    def gated(cancel: Any, attacher: Any, source: Any, claim: Any) -> Any:
        if source == b"slow":
            reached.set()
            assert go_on.wait(30)
            return admit(cancel, attacher, path, claim)
        return admit(cancel, attacher, source, claim)

    async with Store.open(tmp_path / "store") as store:
        await store.attach(b"starts what stays open")
        monkeypatch.setattr(admitting, "_admit", gated)
        before = open_descriptors()

        async def endless() -> AsyncIterator[bytes]:
            yield b"x"
            await asyncio.sleep(1000)

        task = asyncio.create_task(store.attach_many([b"slow", endless(), b"third"]))
        while not reached.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.sleep(0.05)
        assert not task.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert open_descriptors() <= before


async def test_a_stream_that_cancels_itself_costs_the_batch(tmp_path: Path) -> None:
    async def cancelled() -> AsyncIterator[bytes]:
        yield b"x"
        raise asyncio.CancelledError

    async with Store.open(tmp_path / "store") as store:
        with pytest.raises(asyncio.CancelledError):
            await store.attach_many([b"one", cancelled(), b"three"])

        assert [digest async for digest in store.list()] == []
