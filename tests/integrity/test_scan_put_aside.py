"""A scan of more than it holds in memory reports what a scan of the same in memory does."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attachstore import Store
from attachstore.disk import Disk
from attachstore.errors import StorageIOError
from attachstore.integrity import Phase, Progress, ScanReport, claims, scratch
from attachstore.integrity.checkpoint import Checkpoint, Subject
from attachstore.reference import Reference
from tests.descriptors import open_descriptors
from tests.faults import InterceptedDisk
from tests.integrity.workshop import Workshop, bare, png

OBJECTS = 60


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    """Whole, corrupt, missing, unreferenced and mentioned objects, and claims that do not hold."""
    shop = bare(tmp_path / "store")
    references = [shop.put(png(3 + number)) for number in range(OBJECTS)]
    shop.log("s-1", *references[: OBJECTS - 10])
    shop.log("s-2", references[::3], references[1])
    for number, reference in enumerate(references[:20]):
        if number % 3 == 0:
            wrong = Reference(digest=reference.digest, size=number + 1, media_type="text/plain")
            shop.log("s-3", wrong)
    for number in (5, 17, OBJECTS - 5):
        path = file_of(tmp_path, references[number])
        path.chmod(0o644)
        path.write_bytes(b"bad")
    for number in (6, 18, OBJECTS - 4):
        file_of(tmp_path, references[number]).unlink()
    # A line that nobody vouches for keeps its object from being called unreferenced.
    (log,) = (tmp_path / "store" / "sessions" / "s-1").glob("log.jsonl")
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:30], *lines[31:]]))
    return shop


@pytest.fixture
def _nothing_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "LINES_MAX", 7)
    monkeypatch.setattr(scratch, "MEMORY_BYTES", 1)


def file_of(place: Path, reference: Reference) -> Path:
    return place / "store/objects/blake3" / reference.digest.hex[:2] / reference.digest.hex


def facts(report: ScanReport) -> dict[str, Any]:
    facts = report.to_json()
    del facts["elapsed_s"], facts["bytes_read"]
    return facts


@pytest.mark.parametrize("options", [{}, {"subset": (2, 3)}], ids=["whole", "subset"])
def test_the_report_does_not_depend_on_where_things_are_kept(
    shop: Workshop, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = facts(shop.scan(**options))
    assert expected["findings"]
    assert expected["unreferenced"]["objects"]
    monkeypatch.setattr(claims, "LINES_MAX", 7)
    monkeypatch.setattr(scratch, "MEMORY_BYTES", 1)

    assert facts(shop.scan(**options)) == expected


def test_a_scan_that_goes_on_reports_the_same(shop: Workshop, tmp_path: Path) -> None:
    expected = facts(shop.scan())
    subject = Subject(store="id-1", root="/store")

    def stop(now: Progress) -> None:
        if now.phase is Phase.OBJECTS and now.objects_done:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(claims, "LINES_MAX", 7)
        patched.setattr(scratch, "MEMORY_BYTES", 1)
        patched.setattr("attachstore.integrity.progress.INTERVAL_S", 0.0)
        patched.setattr("attachstore.integrity.checking.BATCH_OBJECTS_MAX", 9)
        with pytest.raises(KeyboardInterrupt):
            shop.scan(checkpoint=Checkpoint(tmp_path / "c", Disk(), subject), progress=stop)
        report = facts(shop.scan(checkpoint=Checkpoint(tmp_path / "c", Disk(), subject)))

    assert report["resumed"] is not None
    assert {**report, "resumed": None} == expected


@pytest.mark.usefixtures("_nothing_in_memory")
def test_a_scan_that_is_given_up_leaves_no_descriptor(shop: Workshop) -> None:
    """The error's traceback still holds all that the scan had."""
    before = open_descriptors()

    def stop(now: Progress) -> None:
        if now.phase is Phase.USES:  # by then everything has been put aside
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as held:
        shop.scan(progress=stop)

    assert held.value.__traceback__ is not None
    assert open_descriptors() <= before


@pytest.mark.usefixtures("_nothing_in_memory")
async def test_what_nothing_refers_to_can_be_read_when_the_store_is_closed(tmp_path: Path) -> None:
    async with Store.open(tmp_path / "store") as store:
        references = [await store.attach(b"object %d" % number) for number in range(10)]
        await store.drain()
    async with Store.open(tmp_path / "store", read_only=True) as store:
        report = await store.scan()

    assert list(report.unreferenced) == sorted((it.digest, it.size) for it in references)
    assert len(json.loads(json.dumps(report.to_json()))["unreferenced"]["list"]) == 10


class Unreadable(InterceptedDisk):
    """Nothing that was written through it can be read from it."""

    def intercept(self, method: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        if method == "read_into":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return call()


@pytest.mark.usefixtures("_nothing_in_memory")
def test_a_temporary_file_that_cannot_be_read_back_ends_the_scan(shop: Workshop) -> None:
    """What was forgotten would be taken for what is not there."""
    before = open_descriptors()

    with pytest.raises(StorageIOError, match="EIO"):
        shop.scan(disk=Unreadable())

    assert open_descriptors() <= before
