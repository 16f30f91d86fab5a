"""BlockDaemon: qemu's storage daemon as a disk whose inside a rig can see and change.

The daemon serves a file as a FUSE file; a loop device over that makes it a disk. On the way to
the file each write passes what the rig puts there: a log of all writes and flushes in the format
of the kernel's dm-log-writes (`logged`), or an error (`sick`).
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.rigs.images import scrap

PROGRAM = "qemu-storage-daemon"
DEVICES = ("/dev/loop-control", "/dev/fuse")
_STEP_TIMEOUT_S = 60.0
_END_TIMEOUT_S = 15.0
_SECTOR_BYTES = 512
_LOG_BYTES_MAX = 4 << 30  # sparse

# Documentation/admin-guide/device-mapper/log-writes.rst
_SUPER = struct.Struct("<QQQI")
_ENTRY = struct.Struct("<QQQQ")
_FLUSH, _FUA, _DISCARD = 1, 2, 4


@dataclass(frozen=True)
class Logged:
    """One request that reached the disk: a write, a flush (without data), or both."""

    offset_bytes: int
    data: bytes
    flushes: bool
    """All writes before it are on the disk."""
    forced: bool
    """It is on the disk itself once it is answered."""


class BlockDaemon:
    """Serves `image` as `served` until it is closed. Use it as a context manager."""

    def __init__(self, workspace: Path, image: Path, *, log: Path | None = None) -> None:
        self.served = workspace / "served"
        self.served.touch()
        self._control = workspace / "control"
        command = [PROGRAM, "--chardev"]
        command += [f"socket,path={self._control},server=on,wait=off,id=c0", "--monitor"]
        command += ["chardev=c0", *_node("file", "file", filename=image)]
        top = "raw"
        command += _node("raw", top, file="file")
        if log is not None:
            top = "logged"
            with log.open("wb") as file:
                file.truncate(_LOG_BYTES_MAX)
            command += _node("file", "log", filename=log)
            size = {"log-sector-size": _SECTOR_BYTES}
            command += _node("blklogwrites", top, file="raw", log="log", **size)
        command += ["--export", f"type=fuse,id=e0,node-name={top},mountpoint={self.served}"]
        command[-1] += ",writable=on"
        self._errors = (workspace / "daemon-errors").open("w+")
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._errors
        )
        self._is_logging = log is not None
        self._answers: Iterator[bytes] | None = None
        self._is_sick = False
        try:
            self._wait_until_served(image.stat().st_size)
            self._connect()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the daemon; what it serves must not be in use. Safe to repeat."""
        if self._answers is not None:
            self._socket.close()
            self._answers = None
        self._process.terminate()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            # Once in some thousand times it does not end, though nobody uses what it serves. All
            # that it answered is in the image; only a log may lack its end.
            if self._is_logging:
                raise
        finally:
            self._process.kill()
            self._process.wait()
            scrap(self.served)
            self._errors.close()
            self._control.unlink(missing_ok=True)

    def sick(self, error: int, *, reads: bool = False) -> None:
        """From now on writes (and `reads`) fail with this errno; flushes do not."""
        kinds = ["write", "read"] if reads else ["write"]
        rules = [
            {"event": "none", "iotype": kind, "errno": error, "immediately": True} for kind in kinds
        ]
        self._order(
            "blockdev-add",
            {"driver": "blkdebug", "node-name": "sick", "image": "file", "inject-error": rules},
        )
        self._lay("sick")
        self._is_sick = True

    def well(self) -> None:
        """Everything works again; safe to repeat."""
        if not self._is_sick:
            return
        self._is_sick = False
        self._lay("file")
        self._order("blockdev-del", {"node-name": "sick"})

    def _lay(self, below: str) -> None:
        raw = {"driver": "raw", "node-name": "raw", "file": below}
        self._order("blockdev-reopen", {"options": [raw]})

    def _order(self, command: str, arguments: dict[str, Any]) -> None:
        order = {"execute": command, "arguments": arguments}
        self._socket.sendall(json.dumps(order).encode() + b"\n")
        assert self._answers is not None
        for line in self._answers:
            answer = json.loads(line)
            if "return" in answer:
                return
            if "error" in answer:
                raise RuntimeError(f"{command}: {answer['error']}")
        raise RuntimeError(f"{command}: {PROGRAM} is gone")

    def _connect(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(_STEP_TIMEOUT_S)
        self._socket.connect(str(self._control))
        self._answers = self._socket.makefile("rb")
        next(self._answers)  # its greeting
        self._order("qmp_capabilities", {})

    def _wait_until_served(self, size_bytes: int) -> None:
        until_s = time.monotonic() + _STEP_TIMEOUT_S
        while not os.path.ismount(self.served) or self.served.stat().st_size != size_bytes:
            if self._process.poll() is not None or time.monotonic() > until_s:
                self._errors.seek(0)
                raise RuntimeError(f"{PROGRAM} does not serve: {self._errors.read()[-500:]}")
            time.sleep(0.005)


def _node(driver: str, name: str, **options: Any) -> list[str]:
    settings = {"driver": driver, "node-name": name, **options}
    return ["--blockdev", ",".join(f"{key}={value}" for key, value in settings.items())]


def read_log(log: Path) -> Iterator[Logged]:
    """The requests in a log, in order. Discards are left out: they promise nothing."""
    with log.open("rb") as file:
        _, version, entries, sector_bytes = _SUPER.unpack(file.read(_SUPER.size))
        assert (version, sector_bytes) == (1, _SECTOR_BYTES)
        file.seek(sector_bytes)
        for _ in range(entries):
            header = file.read(sector_bytes)
            sector, sectors, flags, _ = _ENTRY.unpack_from(header)
            data = b"" if flags & _DISCARD else file.read(sectors * sector_bytes)
            assert flags & _DISCARD or len(data) == sectors * sector_bytes, "the log is cut"
            if data or flags & _FLUSH:
                yield Logged(sector * sector_bytes, data, bool(flags & _FLUSH), bool(flags & _FUA))
