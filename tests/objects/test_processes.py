"""Several processes on one store, some of them killed: real ones, since locks are the kernel's."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from attachstore.digest import Digest
from attachstore.disk import Disk
from attachstore.errors import ObjectMissingError, StorageFullError
from attachstore.objects.backend import EntryKind
from attachstore.objects.store import CommitOutcome
from tests.objects.samples import (
    DATA,
    DIGEST,
    PlainDisk,
    attachment,
    damage,
    make_store,
    names_in,
    object_path,
    open_store,
    reference,
)

# From Python 3.12 on forking beside threads warns; ours do nothing while we fork.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

DISKS: dict[str, type[Disk]] = {"linux": Disk, "plain": PlainDisk}
FORK = multiprocessing.get_context("fork")


def together(count: int, work: Callable[[int], None]) -> None:
    """Run `work` in so many processes, which begin at the same moment; all must succeed."""
    barrier = FORK.Barrier(count)

    def start(number: int) -> None:
        barrier.wait()
        work(number)

    processes = [FORK.Process(target=start, args=(number,)) for number in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=100)
    assert [process.exitcode for process in processes] == [0] * count


@pytest.mark.parametrize("disk", DISKS)
def test_eight_writers_of_the_same_bytes_make_one_object(memory_path: Path, disk: str) -> None:
    """138: and two readers see nothing but "missing" before the first, and whole bytes after."""
    rounds = 50
    roots = [memory_path / str(number) for number in range(rounds)]
    for root in roots:
        make_store(root)

    def work(number: int) -> None:
        for root in roots:
            store = open_store(root, DISKS[disk]())
            if number < 8:
                assert store.commit(attachment()).reference == reference()
                assert store.read(reference()) == DATA
                continue
            for _ in range(10):
                try:
                    assert store.read(reference()) == DATA
                except ObjectMissingError:
                    continue

    together(10, work)

    for root in roots:
        assert [entry.kind for entry in open_store(root).entries()] == [EntryKind.OBJECT]
        assert open_store(root).verify(DIGEST).error is None


@pytest.mark.parametrize("disk", DISKS)
def test_healers_quarantiners_and_writers_at_once_lose_nothing(
    memory_path: Path, disk: str
) -> None:
    """Two healers at once, a scan that moves bad bytes aside, and somebody who damages."""
    root = memory_path / "store"
    make_store(root).commit(attachment())

    def work(number: int) -> None:
        store = open_store(root, DISKS[disk]())
        chance = random.Random(number)
        for turn in range(40):
            if number == 0:
                replace_by_hand(object_path(root), str(turn).encode())
                time.sleep(0.001)
            elif number == 1:
                store.quarantine(DIGEST, "scan")
                store.sweep()
            else:
                assert store.commit(attachment()).reference == reference()
                time.sleep(chance.random() / 1000)

    together(5, work)

    store = open_store(root)
    assert store.read(store.commit(attachment()).reference) == DATA
    assert names_in(root / "staging") == []
    for digest in store.digests():
        assert digest == DIGEST
    bad = [path for path in (root / "quarantine").iterdir() if path.suffix != ".json"]
    assert bad
    assert all(path.read_bytes() != DATA for path in bad), "good bytes were taken away"
    assert all(path.with_suffix(".json").exists() for path in bad)


def replace_by_hand(path: Path, data: bytes) -> None:
    """Bad bytes appear under the name at once, as a restore of a wrong file would do it."""
    beside = path.parents[3] / f"by-hand-{os.getpid()}"
    beside.write_bytes(data)
    beside.chmod(0o444)
    if path.exists():
        beside.rename(path)


def test_two_healers_end_with_one_healed_and_one_duplicate(memory_path: Path) -> None:
    rounds = 30
    for number in range(rounds):
        make_store(memory_path / str(number)).commit(attachment())
        damage(object_path(memory_path / str(number)))
    outcomes = FORK.Queue()

    def work(number: int) -> None:
        del number
        for it in range(rounds):
            outcomes.put((it, open_store(memory_path / str(it)).commit(attachment()).outcome.value))

    together(2, work)

    found = sorted(outcomes.get(timeout=10) for _ in range(2 * rounds))
    for number in range(rounds):
        assert found[2 * number :][:2] == [(number, "duplicate"), (number, "healed")]
        assert len(names_in(memory_path / str(number) / "quarantine")) == 2


WRITER = textwrap.dedent("""
    import os, sys
    from pathlib import Path
    from attachstore.disk import Disk
    from tests.objects.samples import *
    root, kind = Path(sys.argv[1]), sys.argv[2]
    store = open_store(root, PlainDisk() if kind == "plain" else Disk())
    print("ready", flush=True)
    number = 0
    while True:
        content = spooled(store.backend, os.urandom(1 << 20) * 4)
        committed = store.commit(attachment(content=content))
        content.close()
        print(committed.reference.digest.hex, flush=True)
""")


@pytest.mark.parametrize("disk", DISKS)
def test_killed_writers_leave_strays_that_only_sweeping_removes(
    memory_path: Path, disk: str
) -> None:
    """125: killed 20 times with a new admission running beside; a stray is never an object."""
    root = memory_path / "store"
    make_store(root)
    chance = random.Random(125)
    acknowledged: set[str] = set()
    strays = 0
    for _ in range(20):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(root), disk], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(chance.random() / 20)
        process.send_signal(signal.SIGKILL)
        lines = process.stdout.read().splitlines()
        acknowledged |= {line for line in lines if len(line) == 64}
        process.wait()
        process.stdout.close()

        store = open_store(root)
        for digest in store.digests():
            assert store.verify(digest).error is None
        staging = [entry for entry in store.entries() if entry.kind is EntryKind.STAGING]
        assert all(entry.stale for entry in staging)
        strays += len(staging)
        live = open_store(root, PlainDisk()).spool()
        assert store.sweep() == len(staging)
        assert len(names_in(root / "staging")) == 1, "a live writer's file was swept"
        live.discard()
        _thin_out(root, acknowledged, store.digests())
    assert names_in(root / "staging") == []
    assert (strays > 0) == (disk == "plain"), "unnamed files leave no strays"


def _thin_out(root: Path, acknowledged: set[str], there: Iterable[Digest]) -> None:
    """Every acknowledged object is there; then they go, so that memory does not fill up."""
    found = {digest.hex for digest in there}
    assert acknowledged <= found
    for name in found:
        (root / "objects" / "blake3" / name[:2] / name).unlink()
    acknowledged.clear()


@pytest.mark.root
def test_a_full_disk_is_said_so_and_works_again_once_there_is_space(tmp_path: Path) -> None:
    """131: a file system of 2 MiB, 100 files of 50 KB."""
    program = textwrap.dedent("""
        import os, sys
        from pathlib import Path
        from attachstore.errors import StorageFullError
        from tests.objects.samples import *
        root = Path(sys.argv[1]) / "store"
        store = make_store(root)
        good, failed = {}, []
        for number in range(100):
            data = bytes([number]) * 50_000
            try:
                good[store.commit(attachment(data)).reference] = data
            except StorageFullError:
                failed.append(data)
        assert len(good) > 10 and len(failed) > 10, (len(good), len(failed))
        assert names_in(root / "staging") == []
        for digest in store.digests():
            assert store.verify(digest).error is None
        assert all(store.read(it) == data for it, data in good.items())
        for digest in list(store.digests())[:5]:
            store.backend.path(digest).unlink()
        assert store.commit(attachment(failed[0])).outcome.value == "stored"
        print("done")
    """)
    mount = 'mount -t tmpfs -o size=2m none "$0" && exec "$1" -c "$2" "$0"'

    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", mount, str(tmp_path), sys.executable, program],
        capture_output=True,
        text=True,
        check=False,
    )

    if "unshare failed" in done.stderr or "permission denied" in done.stderr.lower():
        pytest.skip(f"no mount namespace here: {done.stderr.strip()}")
    assert done.stdout == "done\n", done.stderr
    assert StorageFullError.code == "storage-full"


@pytest.mark.root
def test_a_mounted_shard_gets_no_half_copied_object(tmp_path: Path) -> None:
    """135: really another file system, in the place of one shard."""
    program = textwrap.dedent("""
        import sys
        from pathlib import Path
        from attachstore.errors import StorageUnsupportedError
        from tests.objects.samples import *
        for disk in (Disk(), PlainDisk()):
            try:
                open_store(Path(sys.argv[1]), disk).commit(attachment())
            except StorageUnsupportedError as error:
                print(error.where)
        assert names_in(Path(sys.argv[1]) / "staging") == []
        assert names_in(object_path(Path(sys.argv[1])).parent) == []
    """)
    make_store(tmp_path / "store")
    shard = object_path(tmp_path / "store").parent
    mount = f'mount -t tmpfs none "{shard}" && exec "$1" -c "$2" "$0"'

    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", mount, str(tmp_path / "store"), sys.executable, program],
        capture_output=True,
        text=True,
        check=False,
    )

    if "unshare failed" in done.stderr or "permission denied" in done.stderr.lower():
        pytest.skip(f"no mount namespace here: {done.stderr.strip()}")
    assert done.stdout == f"{shard}\n{shard}\n", done.stderr


def test_a_forked_child_may_use_and_close_its_copy(memory_path: Path) -> None:
    store = make_store(memory_path / "store")
    spool = store.spool()
    spool.write(DATA)

    def work(number: int) -> None:
        del number
        assert store.commit(attachment(b"child")).outcome is CommitOutcome.STORED
        store.close()

    together(1, work)

    content = spool.finish()
    assert store.commit(attachment(content=content)).outcome is CommitOutcome.STORED
    content.close()
    assert sorted(store.digests()) == sorted([DIGEST, Digest.of(b"child")])
