"""Large objects go in and out in memory that does not depend on their size."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from attachstore.errors import ObjectCorruptError
from attachstore.objects.store import ObjectStore
from attachstore.reference import Reference
from tests.objects.samples import attachment, make_store

BLOCK = bytes(range(256)) * 4096  # 1 MiB
SIZE_BLOCKS = 40
HELD_BYTES_MAX = 5 << 20  # a few blocks under way, against 40 MiB


@pytest.fixture
def store(memory_path: Path) -> ObjectStore:
    return make_store(memory_path / "store")


def put(store: ObjectStore) -> Reference:
    spool = store.spool()
    for _ in range(SIZE_BLOCKS):
        spool.write(BLOCK)
    content = spool.finish()
    try:
        return store.commit(attachment(content=content)).reference
    finally:
        content.close()


def peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def drain(store: ObjectStore, wanted: Reference) -> None:
    found = store.stream(wanted)
    while found.read_block():
        pass
    found.close()


def test_ways_in_and_out_hold_a_few_blocks_only(store: ObjectStore, tmp_path: Path) -> None:
    wanted = put(store)

    for work in (
        lambda: put(store),  # a duplicate
        lambda: store.confirm(wanted),
        lambda: store.verify(wanted.digest),
        lambda: drain(store, wanted),
        lambda: store.copy_out(wanted, tmp_path / "copy"),
    ):
        assert peak(work) < HELD_BYTES_MAX
    assert peak(lambda: store.read(wanted)) > SIZE_BLOCKS << 20, "the measure measures nothing"


def test_a_small_reference_to_something_enormous_holds_nothing(
    store: ObjectStore, tmp_path: Path
) -> None:
    """A wrong file under an object's name may be of any size."""
    wanted = store.commit(attachment(b"small")).reference
    with store.backend.open(wanted.digest) as stored:
        path = Path(stored.location)
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.truncate(SIZE_BLOCKS << 20)

    def read() -> None:
        with pytest.raises(ObjectCorruptError):
            store.read(wanted)

    assert peak(read) < HELD_BYTES_MAX
