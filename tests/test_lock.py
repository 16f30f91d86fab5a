"""FileLock: one holder, decided by the kernel; gone with its process, and dead in a child."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from attachstore import lock as lock_module
from attachstore.disk import Disk
from attachstore.errors import StoreLayoutError
from attachstore.lock import FileLock, acquire, holder
from tests.descriptors import open_descriptors
from tests.faults import FailingDisk, failing_disks

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s-1"


def take(path: Path) -> FileLock:
    lock = acquire(Disk(), path)
    assert lock is not None
    return lock


def test_the_second_is_refused_at_once_until_the_first_releases(path: Path) -> None:
    first = take(path)

    assert acquire(Disk(), path) is None
    first.release()
    first.release()

    take(path).release()


def test_what_is_no_file_is_no_lock(path: Path) -> None:
    """A FIFO can be opened and locked, and does not keep who holds it."""
    os.mkfifo(path)

    with pytest.raises(StoreLayoutError):
        acquire(Disk(), path)


def test_the_holder_is_named_for_messages(path: Path) -> None:
    lock = take(path)

    assert f"process {os.getpid()} on " in holder(Disk(), path)
    lock.release()


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"pid": 1}', b"\xff", b"[" * 500])
def test_a_lock_file_that_says_nothing_sensible_is_another_process(path: Path, text: bytes) -> None:
    path.write_bytes(text)

    assert holder(Disk(), path) == "another process"


def test_an_absent_lock_file_is_another_process(path: Path) -> None:
    assert holder(Disk(), path) == "another process"


def test_the_text_decides_nothing(path: Path) -> None:
    """A crashed holder's text stays; its lock does not."""
    path.write_text('{"pid": 1, "host": "here", "since": "now"}')

    lock = take(path)

    assert f"process {os.getpid()} on " in holder(Disk(), path)
    lock.release()


def test_a_killed_holder_leaves_no_lock(path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path\n"
        "from attachstore.disk import Disk; from attachstore.lock import acquire\n"
        "lock = acquire(Disk(), Path(sys.argv[1])); print('held', flush=True); time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    assert acquire(Disk(), path) is None
    assert f"process {process.pid} on " in holder(Disk(), path)

    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()

    take(path).release()


def test_a_lock_on_a_removed_file_is_not_believed(path: Path) -> None:
    """Whoever deletes a session removes its lock file; the next holder needs the new one."""

    class Removing(Disk):
        removed = 0

        def lock(self, descriptor: int, *, exclusive: bool, wait: bool) -> None:
            if self.removed < 2:
                self.removed += 1
                path.unlink()
            super().lock(descriptor, exclusive=exclusive, wait=wait)

    lock = acquire(Removing(), path)

    assert lock is not None
    assert acquire(Disk(), path) is None, "the lock is on a file that nobody else finds"
    lock.release()


def test_a_forked_child_neither_holds_nor_frees_the_lock(path: Path) -> None:
    """Both share one open file: an unlock in the child would free the parent's lock."""
    lock = take(path)
    context = multiprocessing.get_context("fork")
    results = context.Queue()

    def child() -> None:
        lock.release()
        results.put(acquire(Disk(), path) is None)

    process = context.Process(target=child)
    process.start()
    process.join(timeout=30)

    assert results.get(timeout=10), "the child could take the parent's lock"
    assert acquire(Disk(), path) is None, "the child has freed the parent's lock"
    lock.release()
    take(path).release()


def test_a_fork_while_another_thread_takes_a_lock_leaves_the_child_able_to_take_one(
    path: Path,
) -> None:
    """Whatever that thread held in memory is held for ever in the child."""
    context = multiprocessing.get_context("fork")

    def child() -> None:
        take(path).release()

    process = context.Process(target=child)
    with lock_module._held_guard:
        process.start()
    process.join(timeout=10)
    process.kill()

    assert process.exitcode == 0


def test_a_child_that_lives_on_does_not_keep_the_lock(path: Path) -> None:
    lock = take(path)
    context = multiprocessing.get_context("fork")
    stop = context.Event()
    ready = context.Event()

    def child() -> None:
        ready.set()
        stop.wait(timeout=30)

    process = context.Process(target=child)
    process.start()
    assert ready.wait(timeout=30)
    lock.release()

    try:
        take(path).release()
    finally:
        stop.set()
        process.join(timeout=30)


def test_a_full_disk_does_not_keep_anyone_from_the_lock(path: Path) -> None:
    lock = acquire(FailingDisk(1, methods={"write"}), path)

    assert lock is not None
    assert holder(Disk(), path) == "another process"
    lock.release()


def test_no_failure_leaves_a_descriptor_or_a_lock(path: Path) -> None:
    before = open_descriptors()
    for disk in failing_disks():
        try:
            lock = acquire(disk, path)
        except OSError:
            pass
        else:
            assert lock is not None
            try:
                lock.release()
            except OSError:
                assert disk.landed == ["close"]
        assert open_descriptors() <= before
        take(path).release()
