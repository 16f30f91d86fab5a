"""The entry: Ctrl-C while modules are loaded is an interruption like any other."""

from __future__ import annotations

import subprocess
import sys

INTERRUPTED = """
import importlib.abc, sys

class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "click":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
from attachstore.cli.entry import main
sys.exit(main())
"""


def test_ctrl_c_while_modules_are_loaded_is_130_and_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], check=False, capture_output=True, text=True
    )

    assert done.returncode == 130
    assert done.stdout == ""
    assert done.stderr == "attachstore: interrupted: nothing was begun\n"


def test_the_installed_command_and_the_module_begin_there() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "attachstore", "--version"],
        check=True,
        capture_output=True,
        text=True,
    )

    assert done.stdout.startswith("attachstore ")
