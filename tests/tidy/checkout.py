"""The files of this checkout: what the checks in this directory look at."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "attachstore"


def files() -> list[Path]:
    """Every file that is tracked, or would be by `git add`."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = [ROOT / name for name in listed.split("\0") if name]
    return [path for path in paths if path.is_file()]


def python_files() -> list[Path]:
    return [path for path in files() if path.suffix == ".py"]


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))
