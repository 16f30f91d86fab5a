"""Rigs that mount: what they leave behind, and what they say where they cannot run."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rigs import alone, block_daemon, rig_block_writes, rig_device_errors, rig_power_cuts
from tests.rigs.alone import reason_not_to_run, reason_without_root, run_alone
from tests.rigs.block_daemon import DEVICES, PROGRAM, BlockDaemon
from tests.rigs.figures import Figures, Scale
from tests.rigs.images import EXT4, make_image, mount

pytestmark = pytest.mark.xdist_group("rigs-with-disks")


def die_at_work(workspace: Path, told: Path) -> None:
    """In a process of its own: mount a disk that a daemon serves, and clean nothing up."""
    image, mounted = workspace / "image", workspace / "mounted"
    mounted.mkdir()
    make_image(EXT4, image)
    daemon = BlockDaemon(workspace, image)
    mount(EXT4, daemon.served, mounted)
    mounts = Path("/proc/mounts").read_text().splitlines()
    device = next(line.split()[0] for line in mounts if str(mounted) in line)
    told.write_text(f"{device}\n{workspace}")
    os._exit(9)


def serve_twice(workspace: Path) -> bytes:
    """In a process of its own: the first daemon is stopped, and so does not end when it is told."""
    block_daemon._END_TIMEOUT_S = 0.5  # pyright: ignore[reportPrivateUsage] - not to wait for it
    image = workspace / "image"
    image.write_bytes(bytes(1 << 20))
    with BlockDaemon(workspace, image) as daemon:
        with daemon.served.open("r+b") as served:
            served.write(b"written")
        os.kill(daemon.pid, signal.SIGSTOP)
    with BlockDaemon(workspace, image) as daemon:
        return daemon.served.read_bytes()[:7]


def sleep(workspace: Path) -> None:
    time.sleep(600)


def fail(workspace: Path) -> None:
    (workspace / "something").write_text("on the tmpfs")
    raise ValueError("told you so")


def test_a_rig_that_dies_leaves_no_mount_no_loop_device_and_no_daemon(tmp_path: Path) -> None:
    reason = reason_not_to_run(PROGRAM, EXT4.make[0], devices=DEVICES)
    if reason:
        pytest.skip(reason)
    told = tmp_path / "told"

    with pytest.raises(RuntimeError, match="die_at_work"):
        run_alone(f"{__name__}:die_at_work", told, timeout_s=120)

    device, workspace = told.read_text().split("\n")
    until_s = time.monotonic() + 60
    while is_in_use(device, workspace) and time.monotonic() < until_s:
        time.sleep(0.05)
    assert not is_in_use(device, workspace)
    assert workspace not in Path("/proc/mounts").read_text()
    assert not Path(workspace).exists()


def is_in_use(device: str, workspace: str) -> bool:
    """Whether the loop device still has the file, or a process still has it on its command."""
    backing = Path("/sys/block", Path(device).name, "loop", "backing_file")
    with contextlib.suppress(FileNotFoundError):
        if backing.read_text().startswith("/served"):
            return True
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if workspace.encode() in (process / "cmdline").read_bytes():
                return True
    return False


def test_a_daemon_that_does_not_end_is_killed_and_has_lost_nothing() -> None:
    reason = reason_not_to_run(PROGRAM, devices=DEVICES)
    if reason:
        pytest.skip(reason)

    assert run_alone(f"{__name__}:serve_twice", timeout_s=120) == b"written"


def test_a_rig_that_hangs_is_ended() -> None:
    if reason_without_root():
        pytest.skip(reason_without_root())

    with pytest.raises(TimeoutError, match="sleep did not end within 1 s"):
        run_alone(f"{__name__}:sleep", timeout_s=1)


def test_a_rig_that_fails_says_why(tmp_path: Path) -> None:
    if reason_without_root():
        pytest.skip(reason_without_root())

    with pytest.raises(RuntimeError, match="ValueError: told you so"):
        run_alone(f"{__name__}:fail", timeout_s=60)


@pytest.mark.parametrize("run", [rig_power_cuts.run, rig_block_writes.run, rig_device_errors.run])
def test_an_ordinary_user_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, run: Callable[[Scale], Figures]
) -> None:
    monkeypatch.delenv(alone.REQUIRED, raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    figures = run(Scale(ci=True))

    assert (figures.counted, figures.violations) == (0, [])
    assert figures.not_run == "needs root"


def test_where_the_rigs_are_required_they_fail_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(alone.REQUIRED, "1")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(RuntimeError, match="does not run: needs root"):
        rig_power_cuts.run(Scale(ci=True))


@pytest.mark.root
@pytest.mark.parametrize(
    ("programs", "devices", "reason"),
    [
        (("mkfs.nothing",), (), "needs mkfs.nothing: make programs"),
        ((), ("/dev/no-loop",), "needs /dev/no-loop"),
    ],
)
def test_what_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch,
    programs: tuple[str, ...],
    devices: tuple[str, ...],
    reason: str,
) -> None:
    monkeypatch.delenv(alone.REQUIRED, raising=False)

    assert reason_not_to_run(*programs, devices=devices) == reason
