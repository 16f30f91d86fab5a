"""No copy, export, page or checkpoint is written into a store, this one or another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from attachstore import Reference, Store
from attachstore.errors import DestinationError

WRITERS: dict[str, Callable[[Store, Reference, Path], Awaitable[object]]] = {
    "copy": lambda store, reference, path: store.copy_to(reference, path),
    "export": lambda store, _, path: store.export("s-1", path),
    "page": lambda store, _, path: store.write_page("s-1", path),
    "checkpoint": lambda store, _, path: store.scan(resume=path),
}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with Store.open(tmp_path / "store", decode_in_process=True) as store:
        yield store


@pytest.fixture
async def reference(store: Store) -> Reference:
    reference = await store.attach(b"text\n")
    async with await store.sessions.create("s-1") as session:
        await session.append("message", reference)
    return reference


def contents(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file() and "locks" not in path.parts)
    return {str(path): path.read_bytes() for path in files}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize(
    "inside",
    [
        "attachstore.json",
        "new",
        "quarantine/new",
        "sessions/s-1/log.jsonl",
        "sessions/s-1/new",
        "objects/blake3/00/new",
    ],
)
async def test_nothing_is_written_into_a_store(
    store: Store, reference: Reference, writer: str, inside: str
) -> None:
    """A page over a log, a picture over attachstore.json: one slip, and the store is lost."""
    before = contents(store.root)

    with pytest.raises(DestinationError, match="it lies in the store at"):
        await WRITERS[writer](store, reference, store.root / inside)

    assert contents(store.root) == before


@pytest.mark.parametrize("writer", WRITERS)
async def test_nor_by_way_of_a_link_or_into_another_one(
    store: Store, reference: Reference, writer: str, tmp_path: Path
) -> None:
    async with Store.open(tmp_path / "other", decode_in_process=True):
        pass
    (tmp_path / "link").symlink_to(tmp_path / "other" / "quarantine")

    for path in (tmp_path / "link" / "new", tmp_path / "store" / ".." / "other" / "new"):
        with pytest.raises(DestinationError, match="it lies in the store at"):
            await WRITERS[writer](store, reference, path)


@pytest.mark.parametrize(
    ("text", "is_store"),
    [
        ('{"application":"another"}', False),
        ('{"application":"attachstore","format":2}', True),
        ("not JSON", True),
    ],
)
async def test_a_file_of_that_name_makes_a_store_only_if_it_may_be_ours(
    store: Store, reference: Reference, tmp_path: Path, text: str, is_store: bool
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "attachstore.json").write_text(text)

    if is_store:
        with pytest.raises(DestinationError, match="it lies in the store at"):
            await store.copy_to(reference, folder / "copy")
    else:
        await store.copy_to(reference, folder / "copy")

    assert (folder / "copy").exists() != is_store


async def test_beside_a_store_is_a_place_like_any_other(
    store: Store, reference: Reference, tmp_path: Path
) -> None:
    for name, write in WRITERS.items():
        await write(store, reference, tmp_path / name)

    assert (tmp_path / "copy").read_bytes() == b"text\n"
    assert {path.name for path in tmp_path.iterdir()} == {"store", "copy", "export", "page"}
