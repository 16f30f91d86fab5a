"""Replay of real stores: forks, deletes, damage, and media that may not be written to."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from attachstore import Reference, Store
from attachstore.errors import LogDamagedError, ObjectCorruptError, ObjectMissingError
from attachstore.replay import Outcome, Step
from tests.replay.pictures import encoded, photo


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with Store.open(tmp_path / "store") as store:
        yield store


def object_path(store: Store, reference: Reference) -> Path:
    digits = reference.digest.hex
    return store.root / "objects" / "blake3" / digits[:2] / digits


def log_path(store: Store, session_id: str) -> Path:
    return store.root / "sessions" / session_id / "log.jsonl"


async def steps(store: Store, session_id: str, **options: Any) -> list[Step]:
    return [step async for step in store.replay(session_id, **options)]


async def names(store: Store, session_id: str) -> list[str | None]:
    """Of the attachments of a session; all of them have to be `ok`."""
    found = [it for step in await steps(store, session_id) for it in step.attachments]
    assert {it.outcome for it in found} <= {Outcome.OK}
    return [it.reference.name for it in found]


def flip(path: Path, offset_bytes: int) -> None:
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[offset_bytes] ^= 1
    path.write_bytes(data)


async def test_a_fork_replays_after_its_parent_is_deleted(store: Store) -> None:
    """Case 142: the log goes, no object does, and an unrelated session keeps its own too."""
    picture = await store.attach(encoded(photo(64, 48), "png"), name="good.png")
    parent = await store.sessions.create("a")
    await parent.append("message", {"file": picture})
    await parent.append("message", {"again": [picture]})
    await store.sessions.fork("a", at=1, id="b")
    await (await store.sessions.create("c")).append("message", picture)

    await store.sessions.delete("a")

    assert await names(store, "b") == ["good.png"]
    assert await names(store, "c") == ["good.png"]


async def test_forks_of_forks_are_whole_and_independent(store: Store) -> None:
    """Cases 144 and 145: each reads all that it took over and its own; no object is copied."""
    parent = await store.sessions.create("a")
    for number in range(5):
        await parent.attach(f"text {number}".encode(), name=f"{number}.txt")
    objects = len([digest async for digest in store.list()])
    first = await store.sessions.fork("a", id="b")
    second = await store.sessions.fork("a", at=2, id="c")
    third = await store.sessions.fork("b", at=4, id="d")
    for session in (first, second, third):
        await session.attach(b"text 0", name=f"{session.id}.txt")

    assert await names(store, "a") == ["0.txt", "1.txt", "2.txt", "3.txt", "4.txt"]
    assert await names(store, "b") == ["0.txt", "1.txt", "2.txt", "3.txt", "4.txt", "b.txt"]
    assert await names(store, "c") == ["0.txt", "1.txt", "c.txt"]
    assert await names(store, "d") == ["0.txt", "1.txt", "2.txt", "3.txt", "d.txt"]
    assert len([digest async for digest in store.list()]) == objects


async def test_a_rewound_session_has_the_attachment_of_then(store: Store, tmp_path: Path) -> None:
    """Case 146: two versions under one name; `at` and a fork both lead to the first."""
    session = await store.sessions.create("a")
    await session.attach(encoded(photo(64, 48, 1), "png"), name="plot.png")
    await session.attach(encoded(photo(64, 48, 2), "png"), name="plot.png")
    await store.sessions.fork("a", at=1, id="b")

    await store.export("a", tmp_path / "all")
    await store.export("a", tmp_path / "then", at=1)
    await store.export("b", tmp_path / "fork")

    first = (tmp_path / "all" / "plot.png").read_bytes()
    assert (tmp_path / "all" / "plot (2).png").read_bytes() != first
    assert (tmp_path / "then" / "plot.png").read_bytes() == first
    assert (tmp_path / "fork" / "plot.png").read_bytes() == first


async def test_a_session_of_one_attachment_has_a_page(store: Store, tmp_path: Path) -> None:
    """Case 148: the first message is only a file."""
    session = await store.sessions.create("a")
    await session.attach(b"a long prompt, pasted", name="pasted.txt")

    report = await store.write_page("a", tmp_path / "page.html")

    assert (report.events, report.attachments, report.broken) == (1, 1, 0)
    assert "a long prompt, pasted" in (tmp_path / "page.html").read_text("utf-8")


async def test_a_missing_object_is_named_with_all_the_log_knows(store: Store) -> None:
    """Case 123: digest, size, type and name; lenient goes on, strict stops behind the step."""
    session = await store.sessions.create("a")
    lost = await store.attach(encoded(photo(64, 48), "png"), name="good.png")
    await session.append("message", {"file": lost})
    await session.append("message", {"role": "user", "content": "and?"})
    object_path(store, lost).unlink()

    found = await steps(store, "a", lenient=True)
    with pytest.raises(ObjectMissingError) as caught:
        await steps(store, "a")

    assert [step.event.seq for step in found] == [1, 2]
    assert found[0].attachments[0].outcome is Outcome.MISSING
    error = caught.value
    assert (error.digest, error.size, error.media_type) == (
        str(lost.digest),
        lost.size,
        "image/png",
    )
    assert "good.png" in str(error)


async def test_a_flipped_bit_is_corrupt_and_put_heals_it(store: Store) -> None:
    data = encoded(photo(64, 48), "png")
    session = await store.sessions.create("a")
    reference = await store.attach(data, name="good.png")
    await session.append("message", {"file": reference})
    flip(object_path(store, reference), len(data) // 2)
    with pytest.raises(ObjectCorruptError):
        await steps(store, "a")

    await store.attach(data, name="good.png")

    assert await names(store, "a") == ["good.png"]


async def test_nothing_in_the_store_changes(tmp_path: Path) -> None:
    """A copy on a read-only medium is enough: no lock, no repair, no time stamp of a name."""
    async with Store.open(tmp_path / "store") as store:
        session = await store.sessions.create("a")
        await session.append("turn/start", {})
        await session.attach(encoded(photo(64, 48), "png"), name="good.png")
    log = tmp_path / "store" / "sessions" / "a" / "log.jsonl"
    log.write_bytes(log.read_bytes() + b'{"seq":3,"time":"20')
    before = tree(tmp_path / "store")

    async with Store.open(tmp_path / "store", read_only=True, create=False) as store:
        assert await names(store, "a") == ["good.png"]
        await store.export("a", tmp_path / "out")
        await store.write_page("a", tmp_path / "page.html")

    assert tree(tmp_path / "store") == before
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "The last turn is open" in page
    assert "19 bytes at the end of the log were never acknowledged" in page


def tree(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        status = path.stat()
        data = path.read_bytes() if path.is_file() else None
        found[str(path)] = status.st_mode, status.st_mtime_ns, status.st_ctime_ns, data
    return found


async def test_damage_is_shown_and_passed_over_when_lenient(store: Store, tmp_path: Path) -> None:
    """A changed byte in the middle: the prefix is proven, what follows is shown as unproven."""
    session = await store.sessions.create("a")
    for number in range(4):
        await session.append("message", {"content": f"number {number}"})
    await store.sessions.close("a")
    log = log_path(store, "a")
    flip(log, log.read_bytes().index(b"number 1"))

    found = await steps(store, "a", lenient=True)
    with pytest.raises(LogDamagedError):
        await store.export("a", tmp_path / "out")

    assert found[0].event.verified
    assert False in [step.event.verified for step in found]
    assert found[-1].event.seq == 4
    assert json.loads((tmp_path / "out" / "manifest.json").read_text("utf-8"))["attachments"] == []
