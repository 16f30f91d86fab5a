"""What a test may ask of the machine, and what happens where it is not there."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

from attachstore import unnamed

# A slow machine is no failure, and examples found elsewhere are no secret state of this one.
hypothesis.settings.register_profile("attachstore", deadline=None)
hypothesis.settings.load_profile("attachstore")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a program or root that this machine does not have."""
    for marker in item.iter_markers("program"):
        if shutil.which(marker.args[0]) is None:
            pytest.skip(f"{marker.args[0]} is not installed: apt-get install -y {marker.args[0]}")
    if item.get_closest_marker("browser") and shutil.which("chromium") is None:
        pytest.skip("chromium is not installed: apt-get install -y chromium")
    if item.get_closest_marker("root") and os.geteuid() != 0:
        pytest.skip("needs root")


def pytest_collection_finish() -> None:
    """What has been imported and collected stays: no garbage collection need look at it again.

    Tests that count descriptors ask for a collection, which took a tenth of a second.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def reachable_path() -> Iterator[Path]:
    """As `tmp_path`, but other users get there: each pytest that starts closes its own folder."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


NOBODY = 65_534


@pytest.fixture
def another_user() -> Iterator[Callable[[], None]]:
    """Call it to go on as somebody who owns nothing here. Use `reachable_path`."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    yield lambda: os.seteuid(NOBODY)
    os.seteuid(0)


def _remembers_counts(_directory: Path) -> bool:
    return False


@pytest.fixture(autouse=True)
def journaled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine's disk is, we use it as if it had a journal, as most have."""
    monkeypatch.setattr(unnamed, "forgets_counts", _remembers_counts)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a skipped test is a failed one: there everything it needs must be there."""
    report = yield
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, and CI is set: {report.longrepr}"
    return report


_MEMORY = Path("/dev/shm")
_MEMORY_BYTES_MIN = 256 << 20


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    """For tests that make many small files and do not care which file system they are on.

    A directory in memory where there is one with room, else an ordinary one.
    """
    if not _MEMORY.is_dir() or shutil.disk_usage(_MEMORY).free < _MEMORY_BYTES_MIN:
        yield tmp_path
        return
    directory = Path(tempfile.mkdtemp(prefix="attachstore-", dir=_MEMORY))
    yield directory
    shutil.rmtree(directory)
