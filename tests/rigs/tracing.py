"""Tracer: what a piece of work asked of the file system, as the kernel was asked.

strace stands between the process and the kernel, so it also sees what libraries do below our
seam (SQLite). It does not see stores through a mapping or io_uring; a writable shared mapping of
a stored file is reported as a call, and the replay (replaying.py) knows the only one it accepts.

    with Tracer(directory) as tracer:
        trace = tracer.run("tests.rigs.workloads:main", "put", str(root), str(journal))
        trace.status, trace.calls
"""

from __future__ import annotations

import json
import re
import select
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.rigs.fork_server import RAISED

CHANGING = (
    "chdir,fchdir,open,openat,openat2,creat,close,dup,dup2,dup3,fcntl,mkdir,mkdirat,rmdir,unlink,unlinkat,"
    "link,linkat,symlink,symlinkat,rename,renameat,renameat2,write,pwrite64,writev,pwritev,"
    "pwritev2,truncate,ftruncate,fallocate,copy_file_range,sendfile,splice,ioctl,lseek,"
    "fsync,fdatasync,syncfs,sync,chmod,fchmod,fchmodat,mmap,io_uring_setup,clone,clone3,fork,vfork"
)
"""Every call that can change bytes or names, make them durable, or move a descriptor."""

# A sync covers what was there when it began. A descriptor that is being closed may be given to
# another thread's open before strace hears that the close has ended.
_COUNT_FROM_THE_START = frozenset({"fsync", "fdatasync", "syncfs", "sync", "close"})
_MODE_OF_OTHERS = 0o644
_MODE_BITS = 0o7755
"""Without what every umask takes."""
_STRING_BYTES_MAX = 64 << 20
_TIMEOUT_S = 900
_LINE = re.compile(rb"(\d+) +(.*)")
_WHOLE = re.compile(rb"(\w+)\((.*)\) += (-?\d+|0x[0-9a-f]+|\?)(?: (\w+))?.*", re.DOTALL)
_RESUMED = re.compile(rb"<\.\.\. (\w+) resumed>(.*)", re.DOTALL)
_UNFINISHED = b" <unfinished ...>"
# An argument: a string in hex, brackets with anything in them, or plain text up to the comma.
_ARGUMENT = re.compile(rb'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?|(\[.*\]|\{.*\})|([^,"]+)')


@dataclass(frozen=True, slots=True)
class Call:
    """One call. Strings are bytes, the rest is text as strace writes it.

    A sync that was under way while other calls were made comes twice: with `starts` where it
    began, and where it ended. What changed in between is not covered by it.
    """

    name: str
    arguments: tuple[bytes | str, ...]
    result: int
    starts: bool = False

    def number(self, position: int) -> int:
        return int(str(self.arguments[position]), 0)

    def mode(self) -> int:
        """Of what the call makes; it is the last argument."""
        last = str(self.arguments[-1])
        return (int(last, 8) if last.startswith("0") else _MODE_OF_OTHERS) & _MODE_BITS


@dataclass(frozen=True, slots=True)
class Trace:
    """What one piece of work did."""

    status: int
    """What it exited with; negative: the signal that ended it."""
    calls: list[Call]
    """Successful ones only, in the order in which they ended."""


class Tracer:
    """A fork server under strace. `directory` takes the log; use it as a context manager."""

    def __init__(self, directory: Path, *, bare: bool = False) -> None:
        self._log = directory / "strace.log"
        self._log.touch()
        command = ["strace", "-f", "--seccomp-bpf", "-qq", "-xx", f"-s{_STRING_BYTES_MAX}"]
        command += [f"-o{self._log}", f"-etrace={CHANGING}", "-esignal=none"]
        command += [sys.executable, "-m", "tests.rigs.fork_server", *(["--bare"] if bare else [])]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._read_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server; safe to repeat."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.wait(_TIMEOUT_S)

    def run(self, call: str, *arguments: str, mutate: str | None = None) -> Trace:
        """Run `module:function` in a fresh child. Raises RuntimeError if the child raises."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"call": call, "arguments": arguments, "mutate": mutate}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], _TIMEOUT_S)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            message = f"{call} {arguments} did not end, or the tracer did"
            raise RuntimeError(message)
        status = json.loads(line)["status"]
        if status == RAISED and mutate is None:
            message = f"{call} {arguments} raised"
            raise RuntimeError(message)
        return Trace(status, list(calls_in(self._new_lines())))

    def _new_lines(self) -> list[bytes]:
        """What strace wrote since the last time, without the server's own calls.

        strace writes a line before it lets the process go on, so all of the child's are there.
        """
        with self._log.open("rb") as log:
            log.seek(self._read_bytes)
            text = log.read()
        self._read_bytes += len(text)
        return text.splitlines()


def calls_in(lines: list[bytes]) -> Iterator[Call]:
    """The successful calls in lines of strace, in the order in which they ended.

    The lines of the process that forks first are the server's own and left out.
    """
    server: bytes | None = None
    unfinished: dict[bytes, bytes] = {}
    for line in lines:
        found = _LINE.match(line)
        if found is None:
            continue
        process, text = found.groups()
        if server is None:
            # Up to the fork only the server is there; a rest of its last reply may come first.
            if text.startswith((b"clone(", b"clone3(", b"fork(", b"vfork(")):
                server = process
            continue
        if process == server:
            continue
        if text.endswith(_UNFINISHED):
            unfinished[process] = text.removesuffix(_UNFINISHED)
            start = _parsed(unfinished[process] + b") = 0", starts=True)
            if start is not None and start.name in _COUNT_FROM_THE_START:
                yield start
            continue
        resumed = _RESUMED.match(text)
        if resumed is not None:
            text = unfinished.pop(process, b"") + resumed[2]
        call = _parsed(text)
        if call is not None and not (resumed is not None and call.name == "close"):
            yield call


def _parsed(text: bytes, *, starts: bool = False) -> Call | None:
    found = _WHOLE.fullmatch(text)
    if found is None:
        return None
    name, arguments, result, _ = found.groups()
    if result == b"?":
        return None
    number = int(result, 0)
    if number < 0:
        return None
    return Call(name.decode(), tuple(_arguments(arguments)), number, starts)


def _arguments(text: bytes) -> Iterator[bytes | str]:
    for found in _ARGUMENT.finditer(text):
        string, cut, nested, plain = found.groups()
        if string is not None:
            assert cut is None, "strace cut a string: raise _STRING_BYTES_MAX"
            yield bytes.fromhex(string.decode().replace("\\x", ""))
        elif nested is not None:
            yield nested.decode()
        elif plain.strip():
            yield plain.strip().decode()
