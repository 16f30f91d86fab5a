"""Durability, from public bug reports: cases 129 to 141, each as a user of `Store` meets it.

The report is in the docstring. Most have siblings in other tests: each call failing in turn
(tests/objects, tests/sessions), every power cut (tests/rigs), many processes (138:
tests/objects/test_processes.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from attachstore import Digest, Reference, Store
from attachstore.disk import Disk
from attachstore.errors import (
    AttachstoreError,
    LogPoisonedError,
    SessionBusyError,
    StorageFullError,
    StorageIOError,
    StorageReadOnlyError,
    StorageUnsupportedError,
    StorePoisonedError,
)
from tests.descriptors import open_descriptors
from tests.faults import FailingDisk, InterceptedDisk, PowerLossDisk, failing_disks
from tests.objects.samples import PlainDisk

TEXT = b"an attachment\n"
LARGE = random.Random(135).randbytes(3 << 20)
"""More than is kept in memory."""
NOBODY = 65_534


@pytest.fixture
async def root(tmp_path: Path) -> Path:
    """A store on a disk of its own; only the shards that the tests use, so that calls are few."""
    root = tmp_path / "disk" / "store"
    root.parent.mkdir()
    async with Store.open(root, decode_in_process=True) as store:
        session = await store.sessions.create("s-1")
        await session.append("message", {"n": 0})
    used = {Digest.of(content).hex[:2] for content in (TEXT, LARGE)}
    for shard in (root / "objects" / "blake3").iterdir():
        if shard.name not in used:
            shard.rmdir()
    return root


def opened(root: Path, disk: Disk | None = None, **options: Any) -> Any:
    return Store.open(root, disk=disk, decode_in_process=True, **options)


async def attach(store: Store, content: bytes = TEXT) -> Reference:
    return await store.attach(content, name="x.bin", declared="text/plain")


async def attach_and_log(root: Path, disk: Disk | None = None) -> Reference:
    async with opened(root, disk) as store:
        reference = await attach(store)
        session = await store.sessions.load("s-1")
        await session.append("attachment", {"file": reference})
        return reference


async def is_whole(root: Path, *references: Reference) -> int:
    """Assert that a scan is clean and the references can be read; return the events there are."""
    async with opened(root) as store:
        report = await store.scan()
        assert report.clean, report.findings
        for reference in references:
            await store.read(reference)
        return report.events


def staged(root: Path) -> list[str]:
    return [path.name for path in (root / "staging").iterdir()]


# -- 129, and what a power cut leaves ------------------------------------------------------------


@pytest.mark.parametrize("kind", ["unnamed temporary files", "named ones"])
async def test_no_power_cut_leaves_a_log_with_a_reference_to_nothing(
    root: Path, tmp_path: Path, kind: str
) -> None:
    """129: power is lost right after attach returned and the line was written."""
    inner = PlainDisk() if kind == "named ones" else Disk()
    disk = PowerLossDisk(root.parent, disk=inner)
    reference = await attach_and_log(root, disk)
    disk.acknowledge(reference)

    states = 0
    for state, acknowledged in disk.crash_moments(into=tmp_path, limit=8, step=2):
        states += 1
        events = await is_whole(state / "store", *acknowledged)
        assert events >= (2 if acknowledged else 1)
    assert states >= 6


# -- 131, 132 and other refusals of the medium ----------------------------------------------------


@pytest.mark.parametrize(
    "methods",
    [
        {"write"},
        {"sync_file"},
        {"sync_data"},
        {"close"},
        {"link_open_file", "link"},
        {"open_temporary", "create"},
        {"sync_directory"},
        {"truncate"},
    ],
    ids=lambda it: "+".join(sorted(it)),
)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
async def test_a_full_disk_is_told_and_costs_nothing_once_there_is_space_again(
    root: Path, methods: set[str], number: int
) -> None:
    """131: at write, at sync, at close, at link, at the append; once and from then on."""
    events = 1
    for sticky in (False, True):
        for disk in failing_disks(methods=methods, error=number, sticky=sticky):
            try:
                await attach_and_log(root, disk)
                events += 1
            except StorageFullError:
                pass
            except (StorePoisonedError, LogPoisonedError):
                assert sticky  # the second thing that failed, and refused to go on
            if not disk.landed:
                break
            disk.heal()
            assert staged(root) == []
            assert await is_whole(root) in {events, events + 1}

            reference = await attach_and_log(root)

            events = await is_whole(root, reference)
            if disk.calls == 0:
                break


@pytest.mark.parametrize("method", ["sync_file", "sync_directory"])
async def test_after_a_failed_sync_the_same_bytes_are_written_to_a_new_file(
    root: Path, method: str
) -> None:
    """132: fsync fails once with EIO and says OK when it is asked again."""

    made: list[str] = []

    class Noting(InterceptedDisk):
        def intercept(self, method: str, call: Callable[[], Any], arguments: Any) -> Any:
            del arguments
            made.append(method)
            return call()

    disk = Noting(FailingDisk(1, methods={method}))
    async with opened(root, disk, intake=False) as store:
        with pytest.raises(StorageIOError):
            await attach(store)
        assert made[made.index(method) + 1 :].count(method) == 0, "it is not asked again"
        made.clear()

        if method == "sync_directory":
            with pytest.raises(AttachstoreError, match="unusable"):
                await attach(store)
        else:
            reference = await attach(store)
            before = made[: made.index("sync_file")]
            assert {"open_temporary", "write"} <= set(before), "nor is the same file used"
            await is_whole(root, reference)
    async with opened(root) as store:
        await is_whole(root, await attach(store))


async def test_a_store_on_another_file_system_than_tmpdir_is_no_matter(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """135: temporary files lie in the store."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "absent"))
    monkeypatch.setattr("tempfile.tempdir", None)

    async def stream() -> Any:
        yield LARGE

    async with opened(root) as store:
        reference = await store.attach(stream(), name="x.bin", declared="text/plain")

    await is_whole(root, reference)


@pytest.mark.parametrize("disk_kind", ["unnamed", "named"])
async def test_a_shard_on_another_file_system_is_refused_and_nothing_is_left_there(
    root: Path, disk_kind: str
) -> None:
    """135: a shard directory that is a mount. Linking into it is EXDEV."""
    inner = PlainDisk() if disk_kind == "named" else Disk()
    disk = FailingDisk(
        1, methods={"link", "link_open_file"}, error=errno.EXDEV, sticky=True, disk=inner
    )
    async with opened(root, disk) as store:
        with pytest.raises(StorageUnsupportedError, match="another file system"):
            await attach(store)

    assert staged(root) == []
    assert [path for path in (root / "objects").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("methods", [{"open_read"}, {"read_into"}, {"status"}], ids=str)
async def test_a_stale_handle_is_opened_anew_once(root: Path, methods: set[str]) -> None:
    """136: another client has renamed over the file."""
    reference = await attach_and_log(root)
    disk = FailingDisk(0, methods=methods, error=errno.ESTALE)
    async with opened(root, disk) as store:
        disk.calls, disk.fail_at = 0, 1
        assert await store.read(reference) == TEXT

        disk.calls, disk.fail_at, disk.sticky = 0, 1, True
        if methods != {"status"}:
            with pytest.raises(StorageIOError):
                await store.read(reference)


async def test_a_good_object_is_never_replaced(root: Path) -> None:
    """136: so that readers, here and on other clients, keep valid handles."""
    reference = await attach_and_log(root)
    (path,) = (it for it in (root / "objects").rglob("*") if it.is_file())
    before = path.stat().st_ino

    async with opened(root) as store:
        for _ in range(3):
            assert await attach(store) == reference

    assert path.stat().st_ino == before


# -- 134, read-only in all its ways ---------------------------------------------------------------


@pytest.fixture
def as_somebody_else(root: Path) -> Iterator[Callable[[], None]]:
    """Call it to go on as a user whom the store does not let write."""
    is_root = os.geteuid() == 0
    for path in root.parents:
        if path == Path("/tmp"):
            break
        if is_root and path.stat().st_uid == 0:
            path.chmod(path.stat().st_mode | 0o055)
    before = {path: path.stat().st_mode for path in (root, *root.rglob("*"))}
    for path, mode in before.items():
        path.chmod(mode & ~0o222)

    def become() -> None:
        if is_root:
            os.seteuid(NOBODY)

    yield become
    if is_root:
        os.seteuid(0)
    for path, mode in before.items():
        if path.exists():
            path.chmod(mode)


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_store_that_may_not_be_written_is_read_and_nothing_is_created(
    root: Path, as_somebody_else: Callable[[], None], read_only: bool
) -> None:
    """134: read, replay and scan work; what would write says so at once, duplicates too."""
    await asyncio.sleep(0)
    before = sorted(root.rglob("*"))
    as_somebody_else()

    async with opened(root, read_only=read_only) as store:
        assert [event.seq async for event in store.sessions.read("s-1")] == [1]
        assert [step.event.seq async for step in store.replay("s-1")] == [1]
        assert (await store.scan()).clean
        assert len(await store.sessions.list()) == 1
        with pytest.raises(StorageReadOnlyError):
            await attach(store)
        with pytest.raises(StorageReadOnlyError):
            await store.sessions.load("s-1")

    assert sorted(root.rglob("*")) == before


async def test_a_duplicate_on_a_medium_that_became_read_only_is_refused(root: Path) -> None:
    """134: a sync says OK on a read-only mount, and a reference promises that one can write."""

    class Remounted(Disk):
        is_read_only = False

        def may_write(self, directory: Path) -> bool:
            return not self.is_read_only and super().may_write(directory)

    disk = Remounted()
    async with opened(root, disk) as store:
        reference = await attach(store)
        disk.is_read_only = True

        with pytest.raises(StorageReadOnlyError):
            await attach(store)

        assert await store.read(reference) == TEXT


# -- 139, 141: others, and callers that go away ---------------------------------------------------

WRITER = """
import asyncio, sys
from attachstore import Store

async def main():
    async with Store.open(sys.argv[1]) as store:
        session = await store.sessions.load("s-1")
        number = 0
        while True:
            number += 1
            event = await session.append("message", {"n": number, "text": "x" * 20_000})
            print(event.seq, flush=True)

asyncio.run(main())
"""


async def test_the_second_writer_is_told_who_writes_and_follows_the_dead(root: Path) -> None:
    """139: a session resumed in two terminals; one of them is killed."""
    command = [sys.executable, "-c", WRITER, str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        acknowledged = [int(first.stdout.readline()) for _ in range(20)]
        async with opened(root) as store:
            with pytest.raises(SessionBusyError, match=f"process {first.pid} "):
                await store.sessions.load("s-1")
            first.send_signal(signal.SIGKILL)
            acknowledged += [int(line) for line in first.stdout]
            first.wait()

            session = await store.sessions.load("s-1")
            event = await session.append("message", {"n": 0})
            seqs = [each.seq async for each in store.sessions.read("s-1")]

    assert event.seq > max(acknowledged)
    assert seqs == list(range(1, event.seq + 1)), "all are there, none is spliced"


async def test_a_cancelled_attach_leaves_all_or_nothing(root: Path) -> None:
    """141: the task goes away while it writes; no thread goes on behind its back."""
    chance = random.Random(141)
    before = open_descriptors()
    async with opened(root) as store:
        for number in range(40):
            content = number.to_bytes(8, "big") * (1 << 18)
            task = asyncio.create_task(attach(store, content))
            await asyncio.sleep(chance.random() * 0.01)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            assert staged(root) == []
            digest = Digest.of(content)
            if digest in [it async for it in store.list(digest.hex[:6])]:
                assert await store.read(digest) == content
    assert open_descriptors() <= before
    assert await is_whole(root) == 1
