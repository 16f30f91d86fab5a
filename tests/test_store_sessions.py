"""Where a store keeps its session logs: chosen once, recorded, and never mixed up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attachstore import Store
from attachstore.disk import Disk
from attachstore.errors import (
    InvalidConfigurationError,
    StoreForeignError,
    StoreLayoutError,
    StoreMissingError,
)
from attachstore.sessions.sqlite import SqliteMedium
from tests.faults import SYNCS, RecordingDisk
from tests.objects.samples import ALWAYS


async def test_the_medium_is_chosen_when_the_store_is_made(tmp_path: Path) -> None:
    for kind in ("jsonl", "sqlite"):
        root = tmp_path / kind
        async with Store.open(root, sessions=kind) as store:
            session = await store.sessions.create("s-1")
            reference = await store.attach(b"bytes", declared="text/plain")
            await session.append("message", {"file": reference})
        assert json.loads((root / "attachstore.json").read_bytes())["sessions"] == kind
        assert (root / "sessions.db").exists() == (kind == "sqlite")
        assert (root / "sessions").exists() == (kind == "jsonl")


async def test_an_event_with_fresh_attachments_costs_two_syncs(tmp_path: Path) -> None:
    """One for the attachments, however many, and one for the event."""
    disk = RecordingDisk(tmp_path / "store", methods=SYNCS)
    async with Store.open(tmp_path / "store", intake=ALWAYS, disk=disk) as store:
        session = await store.sessions.create("s-1")
        await session.append("message", await store.attach_many([b"makes", b"files"]))
        disk.trace.clear()

        references = await store.attach_many([b"one", b"two", b"three"])
        await session.append("message", {"files": references})

        assert [call for call, _ in disk.trace] == ["sync_data", "sync_data"]


async def test_a_store_is_opened_with_the_medium_it_has(tmp_path: Path) -> None:
    for kind, other in (("jsonl", "sqlite"), ("sqlite", "jsonl")):
        async with Store.open(tmp_path / kind, sessions=kind) as store:
            await (await store.sessions.create("s-1")).append("message", 1)

        for asked in (None, kind):
            for read_only in (False, True):
                async with Store.open(
                    tmp_path / kind, sessions=asked, read_only=read_only
                ) as store:
                    assert [event.data async for event in store.sessions.read("s-1")] == [1]
                    assert (await store.scan()).clean
        with pytest.raises(StoreLayoutError, match=kind):
            await Store.open(tmp_path / kind, sessions=other)


async def test_an_unknown_medium_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigurationError, match="sqlite"):
        await Store.open(tmp_path / "store", sessions="paper")
    with pytest.raises(StoreMissingError):
        await Store.open(tmp_path / "store", sessions="sqlite", create=False)
    assert not (tmp_path / "store").exists()


async def test_a_killed_creation_is_finished_and_a_strangers_database_is_not_touched(
    tmp_path: Path,
) -> None:
    """The name is common; the application id says whose it is."""
    SqliteMedium.create(tmp_path, Disk()).close()
    async with Store.open(tmp_path, sessions="sqlite") as store:
        assert await store.sessions.list() == []

    foreign = tmp_path / "foreign"
    foreign.mkdir()
    content = bytearray((tmp_path / "sessions.db").read_bytes())
    content[68] ^= 1
    (foreign / "sessions.db").write_bytes(content)
    with pytest.raises(StoreForeignError):
        await Store.open(foreign, sessions="sqlite")
    assert [path.name for path in foreign.iterdir()] == ["sessions.db"]


async def test_turns_are_closed_and_ids_are_free_again_in_both(tmp_path: Path) -> None:
    for kind in ("jsonl", "sqlite"):
        async with Store.open(tmp_path / kind, sessions=kind) as store:
            await (await store.sessions.create("s-1")).append("turn/start", None)
        async with Store.open(tmp_path / kind) as store:
            session = await store.sessions.load("s-1")
            assert session.head == 2
            steps = [step.event.type async for step in store.replay("s-1")]
            assert steps == ["turn/start", "turn/end"]
            await store.sessions.delete("s-1")
            await store.sessions.create("s-1")
