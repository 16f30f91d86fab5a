"""Rigs 5, 6 and 7 at the scale of CI. Each calibrates itself before it is believed."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.rigs import rig_block_writes, rig_device_errors, rig_power_cuts
from tests.rigs.figures import Figures, Scale
from tests.rigs.images import BTRFS, EXT4, JOURNALED, FileSystem
from tests.rigs.rig_device_errors import is_only_a_lost_mapping, is_only_misnamed

pytestmark = pytest.mark.xdist_group("rigs-with-disks")


def figures_of(rig: ModuleType) -> Figures:
    figures = rig.run(Scale(ci=True))
    if figures.not_run:
        pytest.skip(f"rig {figures.rig} does not run: {figures.not_run}")
    return figures


def test_no_power_cut_breaks_a_promise() -> None:
    figures = figures_of(rig_power_cuts)

    assert figures.violations == []
    assert figures.counted >= 150
    assert figures.details.keys() == {system.name for system in JOURNALED}


def test_no_order_of_writes_breaks_a_promise() -> None:
    figures = figures_of(rig_block_writes)

    assert figures.violations == []
    assert figures.counted >= 200
    assert figures.details.keys() == {system.name for system in rig_block_writes.SYSTEMS}


def test_no_failing_device_breaks_a_promise() -> None:
    figures = figures_of(rig_device_errors)

    assert figures.violations == []
    assert figures.counted >= 40
    kinds = {f"{target}, {way}" for target in ("object", "log") for way in rig_device_errors.WAYS}
    assert kinds | {"directory, sync"} <= figures.details.keys()


REFUSED = (
    "opened: s-1 cannot be opened: StoreLayoutError(\"the store's layout is broken: it is not a "
    'directory (/mounted/place/store/sessions/s-1). Put the named entry right.")'
)
MISNAMED = (
    "Entry 's-1' in /place/store/sessions (275) has an incorrect filetype (was 2, should be 1)."
)


@pytest.mark.parametrize(
    ("mending", "said", "is_limit"),
    [
        (MISNAMED, [REFUSED], True),
        (MISNAMED, [REFUSED, f"left in staging: spool-{'0' * 32}"], True),
        (MISNAMED, [REFUSED, "s-1: event 2 was acknowledged and is lost"], False),
        (MISNAMED, [REFUSED.replace("sessions/s-1", "objects/blake3/00")], False),
        (MISNAMED, [REFUSED.replace("StoreLayoutError", "LogDamagedError")], False),
        ("", [REFUSED], False),
    ],
)
def test_only_a_name_that_leads_elsewhere_is_a_limit(
    mending: str, said: list[str], is_limit: bool
) -> None:
    """And only where the file system's own checker has said that it found such names."""
    assert is_only_misnamed(mending, said) is is_limit


KILLED = "the process was killed by SIGBUS"


@pytest.mark.parametrize(
    ("system", "subject", "said", "is_limit"),
    [
        (BTRFS, "fork-sqlite", [KILLED], True),
        (BTRFS, "fork", [KILLED], False),
        (EXT4, "fork-sqlite", [KILLED], False),
        (BTRFS, "fork-sqlite", [KILLED, "s-1: event 2 was acknowledged and is lost"], False),
        (BTRFS, "fork-sqlite", ["the process was killed by SIGSEGV"], False),
    ],
)
def test_only_what_sqlite_maps_on_btrfs_is_a_limit(
    system: FileSystem, subject: str, said: list[str], is_limit: bool
) -> None:
    """And only if nothing is lost."""
    assert is_only_a_lost_mapping(system, subject, said) is is_limit
