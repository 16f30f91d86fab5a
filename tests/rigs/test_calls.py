"""Rig 1 at the scale of CI, and what its shim does not see."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.rigs import rig_calls
from tests.rigs.figures import Scale
from tests.rigs.rig_calls import FAULTS, Job, Shimmed
from tests.rigs.shim import preload
from tests.rigs.workloads import ALL_WORKLOADS

PARTS = 4

pytestmark = pytest.mark.skipif(
    bool(rig_calls.reason_not_to_run()), reason=rig_calls.reason_not_to_run()
)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_failing_call_breaks_a_promise(part: int) -> None:
    """In parts, so that two processors share them."""
    names = tuple(ALL_WORKLOADS)[part::PARTS]
    figures = rig_calls.run(Scale(ci=True), names)

    assert figures.violations == []
    wanted = rig_calls.CI_RUNS * len(names) // len(ALL_WORKLOADS)
    assert figures.counted >= wanted * 0.98, "faults that did not land are not counted"
    assert {fault.name for fault in FAULTS} == figures.details.keys()


def test_the_jobs_of_a_workload_are_all_its_calls_with_all_that_can_happen_to_them() -> None:
    jobs = list(rig_calls.all_jobs({"w": ["stat a", "write b", "read c"]}))

    per_call = Counter((job.at, job.fault.name) for job in jobs)
    assert {at for at, _ in per_call} == {1, 2, 3}
    assert len({name for at, name in per_call if at == 2}) == len(FAULTS) - 1  # no short read
    assert len({name for at, name in per_call if at == 1}) == len(FAULTS) - 4


def test_a_fault_that_does_not_land_is_not_counted() -> None:
    """The instrument must not pass because it did nothing."""
    kill = next(fault for fault in FAULTS if fault.kills)
    with closing(Shimmed()) as shimmed:
        last = len(shimmed.calls("put-small"))
        job = Job("put-small", last + 1, "none at all", kill, keep_going=False)

        assert shimmed.run(job) is None


SEEN = """
import sys
from pathlib import Path
from tests.rigs.journal import Journal
from tests.rigs.shim.preload import Shim
from tests.rigs.workloads import WORKLOADS

place, name, listed = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
WORKLOADS[name].prepare(place / "store")
shim = Shim()
Path("/marks/begin").exists()
shim.record(place)
WORKLOADS[name].run(place / "store", Journal())
shim.disarm()
Path("/marks/end").exists()
listed.write_text("\\n".join(shim.calls()))
"""

# What the kernel calls it and what the shim does.
KERNEL_NAMES = {
    "openat": "open",
    "openat2": "open",
    "newfstatat": "stat",
    "preadv2": "read",
    "pread64": "read",
    "pwrite64": "write",
    "linkat": "link",
    "unlinkat": "unlink",
    "mkdirat": "mkdir",
    "renameat": "rename",
    "renameat2": "rename",
    "fadvise64": "posix_fadvise64",
    "statfs": "statvfs",
    "fstatfs": "statvfs",
    "opendir": "open",
}
# Not counted by the shim, or not one to one: where a file is read on, what is unmapped, what a
# descriptor's flags are; and a listing, which is one call for the shim for each of its names.
DIFFERENT = {"lseek", "munmap", "fcntl", "getdents64", "readdir"}


@pytest.mark.program("strace")
@pytest.mark.parametrize("workload", ["put-and-log", "heal", "append-one-sqlite", "append-sealed"])
def test_the_shim_sees_what_the_kernel_sees(tmp_path: Path, workload: str) -> None:
    """Counted beside strace. What is left out on purpose is named here, nothing else is."""
    trace, listed, place = tmp_path / "trace", tmp_path / "calls", tmp_path / "place"
    place.mkdir()
    program = [sys.executable, "-c", SEEN, str(place), workload, str(listed)]
    command = ["strace", "-f", "-y", "-E", f"LD_PRELOAD={preload.build()}", "-o", str(trace)]
    subprocess.run([*command, *program], check=True, stderr=subprocess.DEVNULL)

    inside = trace.read_text().split("/marks/begin")[1].split("/marks/end")[0]
    kernel: Counter[str] = Counter()
    for line in inside.splitlines():
        found = re.match(r"\d+ +(\w+)\((.*)", line)
        if found and str(place) in found[2]:
            kernel[KERNEL_NAMES.get(found[1], found[1])] += 1
    names = [call.partition(" ")[0] for call in listed.read_text().splitlines()]
    shim = Counter(KERNEL_NAMES.get(name, name) for name in names)

    differences = {
        name: kernel[name] - shim[name]
        for name in kernel.keys() | shim.keys() - DIFFERENT
        if kernel[name] != shim[name] and name not in DIFFERENT
    }
    # Listing a directory looks at it first and closes it in the end, inside of libc.
    listings = kernel["getdents64"] // 2
    assert 0 <= differences.pop("stat", 0) <= listings
    assert 0 <= differences.pop("close", 0) <= listings
    assert differences == {}
