"""What a test may ask of the machine, and what happens where it is not there."""

from __future__ import annotations

import os
import shutil

import hypothesis
import pytest

# A slow machine is no failure, and examples found elsewhere are no secret state of this one.
hypothesis.settings.register_profile("attachstore", deadline=None)
hypothesis.settings.load_profile("attachstore")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a browser or root, saying so; CI installs the browser and must not skip."""
    if item.get_closest_marker("browser") and shutil.which("chromium") is None:
        if os.environ.get("CI"):
            pytest.fail("chromium is not installed, and CI is set", pytrace=False)
        pytest.skip("chromium is not installed: sudo apt-get install -y chromium")
    if item.get_closest_marker("root") and os.geteuid() != 0:
        pytest.skip("needs root")
