"""The shim from Python: built with the machine's C compiler, armed where it is loaded."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")

# As in shim.c.
KILL_BEFORE, KILL_AFTER, TORN_KILL, SHORT, HALF_FAIL, FAIL, DONE_FAIL = range(1, 8)
READS, CHANGES, OPENS, SYNCS = 1, 2, 4, 8


def compiler() -> str | None:
    """A C compiler, or None where there is none."""
    return next(filter(None, map(shutil.which, ("gcc", "cc", "clang"))), None)


def build() -> Path:
    """The shim as a library, compiled once per source and kept among temporary files."""
    name = hashlib.blake2b(SOURCE.read_bytes(), digest_size=8).hexdigest()
    library = Path(tempfile.gettempdir(), f"attachstore-shim-{os.getuid()}-{name}.so")
    if not library.exists():
        found = compiler()
        assert found is not None, "ask compiler() first"
        half = library.with_suffix(f".{os.getpid()}")
        flags = ("-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden")
        subprocess.run([found, *flags, "-o", half, SOURCE, "-ldl"], check=True)
        half.rename(library)
    return library


class Shim:
    """The shim in this process, which was started with it in LD_PRELOAD."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self._arm = library.shim_arm
        self._arm.argtypes = [ctypes.c_char_p, ctypes.c_long, *[ctypes.c_int] * 5]
        self._arm.restype = None
        self._count = library.shim_count
        self._count.restype = ctypes.c_long
        self._call = library.shim_call
        self._call.restype = ctypes.c_char_p
        self._call.argtypes = [ctypes.c_long]
        self._disarm = library.shim_disarm

    def record(self, prefix: Path) -> None:
        """From now on keep a list of all calls below `prefix`; none fails."""
        self._arm(os.fsencode(prefix), 0, 0, 0, 0, -1, 1)

    def arm(
        self, prefix: Path, at: int, *, kind: int, error: int, persists: int, report: int
    ) -> None:
        """Let call `at` fail; with `persists` also later calls that do one of these things."""
        self._arm(os.fsencode(prefix), at, kind, error, persists, report, 0)

    def disarm(self) -> None:
        self._disarm()

    def calls(self) -> list[str]:
        """What was recorded: the name of each call and the path it was on."""
        return [os.fsdecode(self._call(number)) for number in range(1, self._count() + 1)]
