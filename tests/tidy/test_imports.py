"""The architecture, as far as imports show it (docs/explanation/architecture.md)."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import grimp

from tests.tidy.checkout import ROOT

# Third-party library -> the only rooms that may import it. What is not listed may not be used.
ROOMS = {
    "PIL": {"attachstore.admission"},
    "aiofiles": {"attachstore.admission", "attachstore.store"},
    "backports": {"attachstore.sessions.zstd_frames"},
    "blake3": {"attachstore.digest"},
    "click": {"attachstore.cli"},
    "compression": {"attachstore.sessions.zstd_frames"},
    "magic": {"attachstore.admission"},
    "msgspec": {"attachstore.admission", "attachstore.replay.steps", "attachstore.sessions"},
    "pikepdf": {"attachstore.admission"},
    "rich": {"attachstore.cli"},
    "tinytag": {"attachstore.admission"},
}
# Modules of one seam that stand for one medium each. A medium does not know the others.
MEDIA = {
    "attachstore.objects": {"filesystem", "memory"},
    "attachstore.sessions": {"jsonl", "memory", "sqlite"},
}


@cache
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("attachstore", include_external_packages=True)


def is_inside(module: str, room: str) -> bool:
    return module == room or module.startswith(f"{room}.")


def test_imports_point_down_only() -> None:
    """The contracts of pyproject.toml, each with its reason in its name."""
    linted = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )

    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_every_third_party_library_has_its_room() -> None:
    """A library that is imported in one room only can be replaced there, and is loaded late."""
    libraries = {
        module
        for module in graph().modules
        if graph().is_module_squashed(module) and module not in sys.stdlib_module_names
    }
    astray = {
        library: sorted(outside)
        for library in libraries
        if (
            outside := {
                importer
                for importer in graph().find_modules_that_directly_import(library)
                if not any(is_inside(importer, room) for room in ROOMS.get(library, set()))
            }
        )
    }

    assert astray == {}


def test_media_of_one_seam_do_not_know_each_other() -> None:
    """A new medium is one file and one fixture; what two share lies above the seam."""
    known = [
        f"{seam}.{medium} -> {imported}"
        for seam, media in MEDIA.items()
        for medium in media
        if f"{seam}.{medium}" in graph().modules
        for imported in graph().find_modules_directly_imported_by(f"{seam}.{medium}")
        for other in media - {medium}
        if is_inside(imported, f"{seam}.{other}")
    ]

    assert known == []


def test_every_medium_is_in_the_list() -> None:
    """So that the check above does not pass because a module was renamed."""
    absent = [
        f"{seam}.{medium}"
        for seam, media in MEDIA.items()
        for medium in media
        if f"{seam}.{medium}" not in graph().modules
    ]

    assert absent == []
