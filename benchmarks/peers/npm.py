"""npm's cacache, which comes with npm: one Node process, asked through its pipes.

The pipes add a copy of the bytes in each direction, which a program written for Node would not
have; at 4 KiB they cost little beside the peer's own work, at 10 MiB a few milliseconds. Its
barrier syncs the content alone, not the line of the index, which is in the peer's favour.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import subprocess
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.peer import AbsentError, Peer

SCRIPT = Path(__file__).parent / "cacache.js"


class Cacache:
    """Content by SHA-512, and an index of lines that a key is looked up in."""

    def __init__(self, folder: Path) -> None:
        command = [_node(), str(SCRIPT), str(_module()), str(folder / "cache")]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1 << 20
        )
        self._paths: dict[str, Path] = {}

    async def put(self, data: bytes) -> str:
        key = hashlib.sha256(data).hexdigest()
        said, _ = self._ask({"op": "put", "key": key}, data)
        self._paths[key] = Path(said["path"])
        return key

    async def read(self, key: str) -> bytes:
        return self._ask({"op": "get", "key": key})[1]

    async def scan(self) -> None:
        said, _ = self._ask({"op": "verify"})
        if said["bad"]:
            raise ValueError(said)

    def files(self, key: str) -> Sequence[Path]:
        return [self._paths[key]]

    def close(self) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(timeout=60)

    def _ask(self, asked: dict[str, Any], data: bytes = b"") -> tuple[dict[str, Any], bytes]:
        given, taken = self._process.stdin, self._process.stdout
        assert given is not None
        assert taken is not None
        given.write(json.dumps({**asked, "bytes": len(data)}).encode() + b"\n" + data)
        given.flush()
        said = json.loads(taken.readline())
        return said, taken.read(said["bytes"])


def _node() -> str:
    node = shutil.which("node")
    if node is None:
        raise AbsentError("there is no node on the PATH")
    return node


def _module() -> Path:
    """Where npm keeps it, from where the `npm` on the PATH really lies."""
    npm = shutil.which("npm")
    for parent in Path(npm).resolve().parents if npm else ():
        module = parent / "node_modules" / "cacache"
        if module.is_dir():
            return module
    raise AbsentError("there is no npm on the PATH that brings cacache")


def version() -> str:
    """Of the cacache that is measured, or `absent`."""
    try:
        _node()
        return json.loads((_module() / "package.json").read_text())["version"]
    except AbsentError:
        return "absent"


@contextlib.asynccontextmanager
async def _opened(folder: Path) -> AsyncGenerator[Cacache]:
    with contextlib.closing(Cacache(folder)) as opened:
        yield opened


NPM = (
    Peer(
        name="cacache",
        durable="nothing synced",
        syncs=False,
        verifies=True,
        open=_opened,
    ),
)
