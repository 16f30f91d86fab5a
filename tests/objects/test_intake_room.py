"""How far an intake's file is written ahead of its records, and how long records stay in it."""

from __future__ import annotations

import errno
import time
from pathlib import Path

from attachstore.objects.intake import IntakePolicy
from attachstore.objects.store import CommitOutcome
from tests.faults import FailingDisk, RecordingDisk
from tests.objects.intakes import NEVER_S, intake_files, opened
from tests.objects.samples import attachment, object_path

OTHER = b"other bytes" * 100


def test_a_file_is_written_ahead_as_far_as_it_is_used(root: Path) -> None:
    """A few objects must not pay for room that many would need."""
    policy = IntakePolicy(burst_s=NEVER_S, idle_s=NEVER_S, file_bytes=1 << 20)
    disk = RecordingDisk(root)
    with opened(root, disk, intake=policy) as store:
        store.commit(attachment(OTHER))
        (path,) = intake_files(root)
        lengths = [path.stat().st_size]
        for number in range(400):
            disk.trace.clear()
            store.commit(attachment(OTHER + b"%d" % number))
            if "write" in [call for call, _ in disk.trace[1:]]:
                lengths.append(path.stat().st_size)

    assert lengths == [32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10]


def test_where_a_file_cannot_be_written_ahead_objects_get_files_at_once(root: Path) -> None:
    disk = FailingDisk(methods={"write"}, error=errno.ENOSPC)
    with opened(root, disk) as store:
        store.commit(attachment(OTHER))
        disk.fail_at = disk.calls + 1
        large = OTHER * 9

        assert store.commit(attachment(large)).outcome is CommitOutcome.STORED

        assert object_path(root, large).exists()


def test_objects_get_their_files_though_more_come_without_a_pause(root: Path) -> None:
    """Else a trickle would keep them in the intake until half a file is full."""
    policy = IntakePolicy(burst_s=NEVER_S, idle_s=0.05)
    with opened(root, intake=policy) as store:
        store.commit(attachment(OTHER))
        for number in range(2_000):
            if object_path(root, OTHER).exists():
                break
            store.commit(attachment(b"%d" % number))
            time.sleep(0.01)

        assert object_path(root, OTHER).exists()
