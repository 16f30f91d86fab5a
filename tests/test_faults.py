"""The instruments are tested first: a power cut that loses nothing would make every test green."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

import pytest

from attachstore.disk import Disk, write_all
from tests.faults import (
    CHANGES,
    METHODS,
    OPENS,
    FailingDisk,
    InterceptedDisk,
    PowerLossDisk,
    RecordingDisk,
    failing_disks,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "disk"
    root.mkdir()
    return root


def write_file(disk: Disk, path: Path, data: bytes, *, sync: bool = False) -> None:
    descriptor = disk.create(path, 0o644)
    write_all(disk, descriptor, data, 0)
    if sync:
        disk.sync_file(descriptor)
    disk.close(descriptor)


def states(disk: PowerLossDisk, tmp_path: Path) -> list[dict[str, bytes]]:
    """All states after a cut now, each as path → bytes."""
    return [contents(state) for state in disk.crash_states(tmp_path, limit=10_000)]


def contents(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


class TestPowerLossDisk:
    def test_a_new_file_may_be_gone_empty_zeroed_or_whole(self, root: Path, tmp_path: Path) -> None:
        disk = PowerLossDisk(root)

        write_file(disk, root / "a", b"data")

        found = states(disk, tmp_path)
        assert sorted(found, key=repr) == sorted(
            [{}, {"a": b""}, {"a": b"\0\0\0\0"}, {"a": b"data"}], key=repr
        )

    def test_synced_bytes_under_an_unsynced_name_are_there_or_not(
        self, root: Path, tmp_path: Path
    ) -> None:
        disk = PowerLossDisk(root)

        write_file(disk, root / "a", b"data", sync=True)

        assert sorted(states(disk, tmp_path), key=repr) == [{"a": b"data"}, {}]

    def test_a_synced_name_does_not_sync_the_bytes(self, root: Path, tmp_path: Path) -> None:
        disk = PowerLossDisk(root)

        write_file(disk, root / "a", b"data")
        disk.sync_directory(root)

        found = states(disk, tmp_path)
        assert {} not in found
        assert {"a": b"\0\0\0\0"} in found

    def test_bytes_and_name_synced_survive(self, root: Path, tmp_path: Path) -> None:
        disk = PowerLossDisk(root)

        write_file(disk, root / "a", b"data", sync=True)
        disk.sync_directory(root)

        assert states(disk, tmp_path) == [{"a": b"data"}]

    def test_a_file_in_a_directory_whose_own_name_was_not_synced_goes_with_it(
        self, root: Path, tmp_path: Path
    ) -> None:
        disk = PowerLossDisk(root)

        disk.make_directory(root / "d")
        write_file(disk, root / "d" / "a", b"data", sync=True)
        disk.sync_directory(root / "d")

        assert {} in states(disk, tmp_path)

    def test_blocks_are_lost_one_by_one(self, root: Path, tmp_path: Path) -> None:
        disk = PowerLossDisk(root)
        write_file(disk, root / "a", b"x" * 8192, sync=True)
        disk.sync_directory(root)

        descriptor = disk.open_write(root / "a")
        disk.write(descriptor, b"y" * 8192, 0)
        disk.close(descriptor)

        first, second = b"x" * 4096, b"y" * 4096
        assert {state["a"] for state in states(disk, tmp_path)} == {
            first + first,
            first + second,
            second + first,
            second + second,
        }

    def test_an_append_may_leave_zeros_after_the_old_bytes(
        self, root: Path, tmp_path: Path
    ) -> None:
        disk = PowerLossDisk(root)
        write_file(disk, root / "log", b"old\n", sync=True)
        disk.sync_directory(root)

        descriptor = disk.open_write(root / "log")
        disk.write(descriptor, b"new\n", 4)

        assert {state["log"] for state in states(disk, tmp_path)} == {
            b"old\n",
            b"old\n\0\0\0\0",
            b"old\nnew\n",
        }

    def test_what_a_truncation_cut_off_may_come_back(self, root: Path, tmp_path: Path) -> None:
        disk = PowerLossDisk(root)
        write_file(disk, root / "log", b"good bad", sync=True)
        disk.sync_directory(root)

        descriptor = disk.open_write(root / "log")
        disk.truncate(descriptor, 5)

        assert {state["log"] for state in states(disk, tmp_path)} == {b"good ", b"good bad"}
        disk.sync_file(descriptor)
        assert {state["log"] for state in states(disk, tmp_path)} == {b"good "}

    def test_a_rename_may_have_happened_at_one_end_only(self, root: Path, tmp_path: Path) -> None:
        disk = PowerLossDisk(root)
        write_file(disk, root / "a", b"1", sync=True)
        disk.sync_directory(root)

        disk.rename(root / "a", root / "b")

        found = states(disk, tmp_path)
        assert len(found) == 4
        assert {} in found
        assert {"a": b"1", "b": b"1"} in found

    def test_exchanged_names_change_one_by_one(self, root: Path, tmp_path: Path) -> None:
        disk = PowerLossDisk(root)
        write_file(disk, root / "a", b"1", sync=True)
        write_file(disk, root / "b", b"2", sync=True)
        disk.sync_directory(root)

        disk.exchange(root / "a", root / "b")

        found = states(disk, tmp_path)
        assert len(found) == 4
        assert {"a": b"2", "b": b"1"} in found
        assert {"a": b"1", "b": b"1"} in found

    def test_an_unnamed_file_is_gone_until_it_is_linked(self, root: Path, tmp_path: Path) -> None:
        disk = PowerLossDisk(root)
        descriptor = disk.open_temporary(root, 0o444)
        disk.write(descriptor, b"1", 0)
        disk.sync_file(descriptor)
        assert states(disk, tmp_path) == [{}]

        disk.link_open_file(descriptor, root / "a")
        disk.sync_directory(root)

        assert states(disk, tmp_path) == [{"a": b"1"}]

    def test_after_a_failed_sync_later_ones_say_ok_and_save_nothing(
        self, root: Path, tmp_path: Path
    ) -> None:
        """As measured on ext4, XFS and btrfs: the error is reported once."""
        disk = PowerLossDisk(root, fail_sync_at=1)
        descriptor = disk.create(root / "a", 0o644)
        disk.write(descriptor, b"data", 0)

        with pytest.raises(OSError, match="injected"):
            disk.sync_file(descriptor)
        disk.sync_file(descriptor)
        disk.sync_directory(root)

        assert {"a": b"\0\0\0\0"} in states(disk, tmp_path)
        disk.write(descriptor, b"data", 0)
        disk.truncate(descriptor, 4)
        disk.sync_file(descriptor)
        assert states(disk, tmp_path) == [{"a": b"data"}]

    def test_after_a_failed_sync_the_truth_shows_once_the_cache_is_dropped(
        self, root: Path, tmp_path: Path
    ) -> None:
        disk = PowerLossDisk(root, fail_sync_at=1)
        descriptor = disk.create(root / "a", 0o444)
        disk.write(descriptor, b"data", 0)
        with pytest.raises(OSError, match="injected"):
            disk.sync_file(descriptor)
        assert (root / "a").read_bytes() == b"data"

        disk.drop_cache(descriptor)

        assert (root / "a").read_bytes() == b""
        disk.sync_directory(root)
        assert states(disk, tmp_path) == [{"a": b""}]

    def test_a_failed_directory_sync_loses_the_names_for_good(
        self, root: Path, tmp_path: Path
    ) -> None:
        disk = PowerLossDisk(root, fail_sync_at=2)
        write_file(disk, root / "a", b"data", sync=True)

        with pytest.raises(OSError, match="injected"):
            disk.sync_directory(root)
        disk.sync_directory(root)

        assert {} in states(disk, tmp_path)

    def test_every_moment_comes_with_what_had_been_promised_by_then(
        self, root: Path, tmp_path: Path
    ) -> None:
        disk = PowerLossDisk(root)
        write_file(disk, root / "a", b"1", sync=True)
        disk.sync_directory(root)
        disk.acknowledge("a")
        write_file(disk, root / "b", b"2")
        disk.acknowledge("b")  # a lie

        moments = [
            (contents(state), list(promised)) for state, promised in disk.crash_moments(tmp_path)
        ]

        assert all("a" in found for found, promised in moments if "a" in promised)
        assert ({}, []) in moments
        assert ({"a": b"1"}, ["a", "b"]) in moments

    def test_big_files_are_sampled_within_the_limit_and_the_same_each_time(
        self, root: Path, tmp_path: Path
    ) -> None:
        disk = PowerLossDisk(root)
        for name in "abcdefgh":
            write_file(disk, root / name, b"x" * 100_000)

        first = [contents(state) for state in disk.crash_states(tmp_path, limit=50, seed=1)]
        again = [contents(state) for state in disk.crash_states(tmp_path, limit=50, seed=1)]

        assert first == again
        assert 25 < len(first) <= 50
        assert {} in first
        assert dict.fromkeys("abcdefgh", b"x" * 100_000) in first

    def test_modes_survive_with_the_names(self, root: Path, tmp_path: Path) -> None:
        disk = PowerLossDisk(root)
        disk.close(disk.create(root / "a", 0o400))
        disk.sync_directory(root)

        for state in disk.crash_states(tmp_path):
            assert (state / "a").stat().st_mode & 0o777 == 0o400

    def test_what_was_there_before_is_durable(self, root: Path, tmp_path: Path) -> None:
        (root / "d").mkdir()
        (root / "d" / "a").write_bytes(b"1")

        disk = PowerLossDisk(root)
        (root / "d" / "a").write_bytes(b"2")

        assert states(disk, tmp_path) == [{"d/a": b"1"}]
        disk.settle()
        assert states(disk, tmp_path) == [{"d/a": b"2"}]


class TestFailingDisk:
    def test_it_fails_the_nth_call_once(self, root: Path) -> None:
        disk = FailingDisk(2, error=errno.ENOSPC)

        disk.names(root)
        with pytest.raises(OSError, match="injected") as caught:
            disk.names(root)
        disk.names(root)

        assert caught.value.errno == errno.ENOSPC
        assert disk.landed == ["names"]

    def test_it_may_fail_for_ever(self, root: Path) -> None:
        disk = FailingDisk(1, sticky=True)

        for _ in range(3):
            with pytest.raises(OSError, match="injected"):
                disk.names(root)
        disk.heal()

        assert disk.names(root) == []

    def test_it_may_fail_after_the_call_took_effect(self, root: Path) -> None:
        disk = FailingDisk(1, effect="done")

        with pytest.raises(OSError, match="injected"):
            disk.create(root / "a", 0o644)

        assert (root / "a").exists()

    def test_half_a_write_may_go_in_before_it_fails(self, root: Path) -> None:
        disk = FailingDisk(1, effect="half", methods={"write"})

        with pytest.raises(OSError, match="injected"):
            write_file(disk, root / "a", b"1234")

        assert (root / "a").read_bytes() == b"12"

    def test_a_short_write_is_no_error(self, root: Path) -> None:
        disk = FailingDisk(1, effect="short", methods={"write"})

        write_file(disk, root / "a", b"1234")

        assert disk.landed == ["write"]
        assert (root / "a").read_bytes() == b"1234"

    def test_a_failing_close_closes(self, root: Path) -> None:
        disk = FailingDisk(1, methods={"close"})
        descriptor = disk.create(root / "a", 0o644)

        with pytest.raises(OSError, match="injected"):
            disk.close(descriptor)

        with pytest.raises(OSError, match="Bad file descriptor"):
            Disk().status_open(descriptor)

    def test_a_loop_over_failing_disks_ends_with_one_that_did_not_fail(self, root: Path) -> None:
        landed: list[list[str]] = []
        for number, disk in enumerate(failing_disks(methods={"create", "write"})):
            with contextlib.suppress(OSError):
                write_file(disk, root / str(number), b"data")
            landed.append(disk.landed)

        assert landed == [["create"], ["write"], []]


class TestRecordingDisk:
    def test_it_names_the_files_of_open_descriptors(self, root: Path) -> None:
        disk = RecordingDisk(root)

        descriptor = disk.open_temporary(root, 0o444)
        disk.write(descriptor, b"1", 0)
        disk.sync_file(descriptor)
        disk.link_open_file(descriptor, root / ("ab" * 32))
        disk.sync_directory(root)

        assert disk.trace == [
            ("open_temporary", "."),
            ("write", "./<unnamed>"),
            ("sync_file", "./<unnamed>"),
            ("link_open_file", "./<unnamed> <digest>"),
            ("sync_directory", "."),
        ]


class TestInterceptedDisk:
    def test_every_call_of_a_disk_passes_through_it(self) -> None:
        """A new call that tests cannot intercept would make itself untestable."""
        assert all(method in vars(InterceptedDisk) for method in METHODS)
        assert CHANGES | OPENS <= METHODS
