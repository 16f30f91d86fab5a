"""Running a rig where it can leave nothing behind: in namespaces of its own.

A rig that mounts gets a process with its own mounts and its own process numbers. When that
process ends, however it ends, the kernel kills what it started and unmounts what it mounted, and
with the mounts go their loop devices. Nobody else on the machine sees any of it.
"""

from __future__ import annotations

import importlib
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

REQUIRED = "ATTACHSTORE_REQUIRE_ROOT_RIGS"
"""Set to 1 where a rig that needs root must run: then it fails instead of saying why it cannot."""

_UNSHARE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_AS_ROOT_OF_ITSELF = ("--user", "--map-root-user")


def reason_not_to_run(*programs: str, devices: tuple[str, ...] = ("/dev/loop-control",)) -> str:
    """Why a rig that needs root, these programs and these devices does not run; "" if it does.

    Raises RuntimeError instead of returning a reason where the rigs are required.
    """
    reason = ""
    missing = [name for name in programs if shutil.which(name) is None]
    absent = [name for name in devices if not os.access(name, os.R_OK | os.W_OK)]
    if os.geteuid() != 0:
        reason = "needs root"
    elif missing:
        reason = f"needs {', '.join(missing)}: make programs"
    elif absent:
        reason = f"needs {', '.join(absent)}"
    else:
        reason = _unshare_fails(())
    if reason and os.environ.get(REQUIRED) == "1":
        message = f"{REQUIRED} is set, and this rig does not run: {reason}"
        raise RuntimeError(message)
    return reason


def reason_without_root() -> str:
    """Why a user cannot have namespaces here; "" if he can (or is root)."""
    return _unshare_fails(() if os.geteuid() == 0 else _AS_ROOT_OF_ITSELF)


def _unshare_fails(options: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(
            [*_UNSHARE, *options, "true"], capture_output=True, text=True, timeout=60, check=False
        )
    except FileNotFoundError:
        return "needs unshare (Debian's util-linux)"
    if done.returncode == 0:
        return ""
    return f"no namespaces here: {(done.stderr.strip() or 'unshare failed').splitlines()[-1]}"


def run_alone(function: str, *arguments: Any, timeout_s: float) -> Any:
    """Call `module:function` with a directory on a tmpfs of its own, and return what it returns.

    Needs root, or user namespaces; then the function is root among its own. What it prints is
    shown. Raises RuntimeError with the function's trace if it raises, and TimeoutError.
    """
    options = () if os.geteuid() == 0 else _AS_ROOT_OF_ITSELF
    command = [*_UNSHARE, *options, sys.executable, "-m", __name__]
    with tempfile.TemporaryDirectory(prefix="attachstore-rig-") as directory:
        result = Path(directory, "result")
        result.touch()
        workspace = Path(directory, "workspace")
        workspace.mkdir()
        request = pickle.dumps((function, str(workspace), str(result), arguments))
        try:
            done = subprocess.run(
                command, input=request, stderr=subprocess.PIPE, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired as error:
            said = (error.stderr or b"").decode(errors="replace")[-2000:]
            message = f"{function} did not end within {timeout_s:.0f} s: {said}"
            raise TimeoutError(message) from None
        if done.returncode != 0:
            raise RuntimeError(f"{function}: {done.stderr.decode(errors='replace')[-4000:]}")
        return pickle.loads(result.read_bytes())


def _main() -> None:
    function, workspace, result, arguments = pickle.load(sys.stdin.buffer)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "rig", workspace], check=True)
    module, _, name = function.partition(":")
    returned = getattr(importlib.import_module(module), name)(Path(workspace), *arguments)
    Path(result).write_bytes(pickle.dumps(returned))


if __name__ == "__main__":
    _main()
