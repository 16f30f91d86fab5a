"""What is pinned can be installed by every Python that the project says it supports."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib

from packaging.specifiers import SpecifierSet

from tests.tidy.checkout import ROOT

PINNED = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)


def test_the_oldest_python_can_install_what_is_pinned() -> None:
    """A release may refuse the first patch levels of a version, which distributions still have."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=") + ".0"
    pinned = dict(PINNED.findall((ROOT / "requirements-dev.lock").read_text()))
    refusing = [f"{name} {version}" for name, version in pinned.items() if _refuses(name, oldest)]
    assert len(pinned) > 50
    assert refusing == []


def _refuses(name: str, python: str) -> bool:
    needed = importlib.metadata.metadata(name)["Requires-Python"]
    return bool(needed) and not SpecifierSet(needed).contains(python)
