"""No copy, export, page, checkpoint or store is written into a store, this one or another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from attachstore import Reference, Store
from attachstore.errors import DestinationError, StoreMissingError

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


@pytest.mark.parametrize(
    "inside",
    ["new", "new/er", "staging", "quarantine/new", "objects/blake3/00/new", "sessions/s-1/torn"],
)
async def test_no_store_is_made_in_a_store(
    store: Store, reference: Reference, tmp_path: Path, inside: str
) -> None:
    """Its 256 folders would lie among the objects, or be deleted with a session."""
    (tmp_path / "link").symlink_to(store.root)
    names = sorted(store.root.rglob("*"))

    for root in (store.root, tmp_path / "link", tmp_path / "new" / ".." / "store"):
        with pytest.raises(DestinationError, match="it lies in the store at"):
            await Store.open(root / inside)
        with pytest.raises(StoreMissingError):
            await Store.open(root / inside, create=False)

    assert sorted(store.root.rglob("*")) == names
    assert await store.read(reference) == b"text\n"


async def test_a_store_that_came_to_lie_in_another_one_is_opened(tmp_path: Path) -> None:
    """Somebody moved it there, or restored the outer one: what it holds is as good as before."""
    async with Store.open(tmp_path / "inner", decode_in_process=True) as inner:
        reference = await inner.attach(b"text\n")
    async with Store.open(tmp_path / "outer", decode_in_process=True) as outer:
        (tmp_path / "inner").rename(outer.root / "inner")

    async with Store.open(outer.root / "inner", decode_in_process=True) as inner:
        assert await inner.read(reference) == b"text\n"


async def test_beside_a_store_is_a_place_like_any_other(
    store: Store, reference: Reference, tmp_path: Path
) -> None:
    for name, write in WRITERS.items():
        await write(store, reference, tmp_path / name)

    assert (tmp_path / "copy").read_bytes() == b"text\n"
    assert {path.name for path in tmp_path.iterdir()} == {"store", "copy", "export", "page"}
