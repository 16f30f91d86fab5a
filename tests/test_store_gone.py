"""A store that is unmounted or moved away under an open handle: nothing is made in its place."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from attachstore import Store
from attachstore.errors import StoreMissingError


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """With one session of one event that refers to an object, and nothing held open."""
    async with Store.open(tmp_path / "store", decode_in_process=True) as store:
        async with await store.sessions.create("s-1") as session:
            await session.append("message", await store.attach(b"precious\n"))
        yield store


async def all_of(found: Any) -> list[Any]:
    return [each async for each in found]


CALLS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "attach": lambda store: store.attach(b"acknowledged\n"),
    "attach many": lambda store: store.attach_many([b"one\n", b"two\n"]),
    "a new session": lambda store: first_append_of(store, "s-1"),
    "list objects": lambda store: all_of(store.list()),
    "list sessions": lambda store: store.sessions.list(),
    "tree": lambda store: store.sessions.tree(),
}


async def first_append_of(store: Store, session_id: str) -> None:
    async with await store.sessions.create(session_id) as session:
        await session.append("message", await store.attach(b"three\n"))


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("in_its_place", ["nothing", "an empty folder"])
async def test_nothing_is_made_or_believed_where_a_store_was(
    store: Store, call: str, in_its_place: str
) -> None:
    store.root.rename(store.root.with_name("elsewhere"))
    if in_its_place == "an empty folder":
        store.root.mkdir()

    with pytest.raises(StoreMissingError) as caught:
        await CALLS[call](store)

    assert str(store.root) in str(caught.value)
    assert "mount it again" in str(caught.value)
    assert not store.root.is_dir() or os.listdir(store.root) == []  # noqa: PTH208


async def test_a_scan_of_what_is_gone_is_not_clean(store: Store) -> None:
    store.root.rename(store.root.with_name("elsewhere"))
    store.root.mkdir()

    report = await store.scan()

    assert not report.clean
    assert any("there is no store" in found.what for found in report.findings)


async def test_a_store_that_is_back_goes_on(store: Store) -> None:
    elsewhere = store.root.with_name("elsewhere")
    store.root.rename(elsewhere)
    with pytest.raises(StoreMissingError):
        await store.attach(b"two\n")
    elsewhere.rename(store.root)

    reference = await store.attach(b"two\n")

    assert await store.read(reference) == b"two\n"
    assert (await store.scan()).clean


async def test_directories_that_a_copy_left_out_are_still_made_again(store: Store) -> None:
    """As long as it is a store: some tools do not restore empty directories."""
    for name in ("staging", "locks", "quarantine"):
        subprocess.run(["rm", "-rf", str(store.root / name)], check=True)

    await first_append_of(store, "s-2")

    assert [it.id for it in await store.sessions.list()] == ["s-1", "s-2"]


@pytest.mark.root
async def test_an_unmounted_store_is_not_grown_into_its_mount_point(tmp_path: Path) -> None:
    mount_point = tmp_path / "mount"
    mount_point.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(mount_point)], check=True)
    mounted = True
    try:
        async with Store.open(mount_point, decode_in_process=True) as store:
            await first_append_of(store, "s-1")
            subprocess.run(["umount", str(mount_point)], check=True)
            mounted = False
            with pytest.raises(StoreMissingError):
                await store.attach(b"acknowledged\n")
            with pytest.raises(StoreMissingError):
                await first_append_of(store, "s-1")
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(mount_point)], check=True)

    assert list(mount_point.iterdir()) == []
