"""What an export and a page promise: once they are published, no power cut costs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from attachstore.replay import export
from attachstore.replay.page import write_page
from tests.faults import PowerLossDisk
from tests.replay.samples import small_session


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("is_there", [False, True], ids=["made by the export", "there before"])
def test_a_published_export_survives_power_loss(tmp_path: Path, is_there: bool) -> None:
    """Its files, their names, and the folder's own name where the export has made it."""
    home = tmp_path / "home"
    target = home / "out"
    (target if is_there else home).mkdir(parents=True)
    session = small_session()
    disk = PowerLossDisk(home)

    export(session.steps(), target, session.view(), session.objects, disk=disk)

    written = files(target)
    assert written.keys() == {"a.txt", "b.txt", "manifest.json"}
    states = [files(state / "out") for state in disk.crash_states(into=tmp_path)]
    assert states == [written]


def test_a_manifest_stands_beside_all_that_it_lists_whenever_the_power_fails(
    tmp_path: Path,
) -> None:
    """The bytes of what has a name are there; a folder without a manifest did not finish."""
    home = tmp_path / "home"
    home.mkdir()
    session = small_session()
    disk = PowerLossDisk(home)
    export(session.steps(), home / "out", session.view(), session.objects, disk=disk)
    written = files(home / "out")

    for state, _ in disk.crash_moments(into=tmp_path):
        found = files(state / "out") if (state / "out").exists() else {}
        finished = {name: data for name, data in found.items() if not name.startswith(".")}
        assert finished.items() <= written.items()
        if "manifest.json" in finished:
            assert finished == written


def test_a_published_page_survives_power_loss(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    session = small_session()
    write_page([], home / "page.html", session.view(), session.objects)
    disk = PowerLossDisk(home)
    earlier = files(home)

    write_page(session.steps(), home / "page.html", session.view(), session.objects, disk=disk)

    written = files(home)
    assert written.keys() == {"page.html"}
    assert [files(state) for state in disk.crash_states(into=tmp_path)] == [written]
    for state, _ in disk.crash_moments(into=tmp_path):
        assert (state / "page.html").read_bytes() in {*earlier.values(), *written.values()}
