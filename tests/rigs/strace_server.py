"""The process whose children strace makes fail.

    {"record": workload}    -> {"points": [[system call, number, path], ...], "violations": [...]}
    {"workload": ..., "call": ..., "number": ..., "inject": "error=EIO", "persists": false,
     "keep_going": ...}     -> {"landed": "<system call> <path>", "violations": [...]}

strace counts the calls of each name in each thread on its own, and injects into every thread
that comes to that number. A point is one where all threads that get there are below the store's
directory, so that no fault hits the interpreter instead. strace is attached to a child that waits
for it: what was read and imported before does not count.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.rigs.forks import Forks, serve
from tests.rigs.journal import Journal, Record
from tests.rigs.workloads import ALL_WORKLOADS

RECORDINGS = 3
ON_NAMES = frozenset(
    {"openat", "openat2", "newfstatat", "statx", "link", "linkat", "rename", "renameat"}
    | {"renameat2", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "utimensat"}
)
ON_DESCRIPTORS = frozenset(
    {"close", "preadv2", "pread64", "pwrite64", "pwritev2", "fsync", "fdatasync", "ftruncate"}
    | {"getdents64", "flock", "fadvise64", "sync_file_range", "fchmod", "fchown", "mmap"}
)
_STARTED = re.compile(r"(\d+) +(\w+)\((.*)")
_NAMED = re.compile(r"<(/[^>]*)>")
_NAMED_AT = re.compile(r'(?:<(/[^>]*)>, )?"((?:[^"\\]|\\.)*)"')
_SET_PTRACER, _ANYBODY = 0x59616D61, -1  # linux/prctl.h: PR_SET_PTRACER, PR_SET_PTRACER_ANY


def answering(folder: Path) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Answers requests with workloads that are run in `folder`."""
    forks = Forks(folder)
    trace = folder / "trace"

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        if "record" in request:
            return _record(forks, trace, request["record"])
        return _run(forks, trace, request)

    return answer


def _record(forks: Forks, trace: Path, name: str) -> dict[str, Any]:
    """Run the workload with nothing failing, and list where something may: at the calls that
    come again each time, however the threads take turns."""
    wrong: list[str] = []
    found: list[dict[tuple[str, int], str]] = []
    for _ in range(RECORDINGS):
        options = [f"trace={','.join(sorted(ON_NAMES | ON_DESCRIPTORS))}"]
        status, journal = _traced(forks, trace, name, options)
        wrong += [] if status == 0 else [f"the process ended with {status}"]
        wrong += forks.judged(name, journal)
        found.append(dict(_points(trace.read_text(), forks.place)))
    stable = [it for it in found[0] if all(it in others for others in found)]
    return {"points": [(*it, found[0][it]) for it in stable], "violations": wrong}


def _run(forks: Forks, trace: Path, request: dict[str, Any]) -> dict[str, Any]:
    name, call, inject = request["workload"], request["call"], request["inject"]
    when = f"{request['number']}{'+' if request['persists'] else ''}"
    options = [f"trace={call}", f"inject={call}:{inject}:when={when}"]
    status, journal = _traced(forks, trace, name, options, keep_going=request["keep_going"])
    kills = inject == "signal=SIGKILL"
    landed = _killed(trace) if kills else _injected(trace)
    landed = landed.replace(f"{forks.root}/", "")
    expected = -signal.SIGKILL if kills else 0
    wrong = [] if status == expected else [f"the process ended with {status}, not {expected}"]
    path = landed.partition(" ")[2]
    error = inject.removeprefix("error=")
    faults = (
        [] if kills else [Record("seen", "fault", {"call": call, "path": path, "error": error})]
    )
    return {"landed": landed, "violations": wrong + forks.judged(name, journal, faults)}


def _traced(
    forks: Forks, trace: Path, name: str, options: list[str], *, keep_going: bool = False
) -> tuple[int, int]:
    """Run the workload in a child with strace attached; its exit status and its journal."""
    forks.begin(name)
    journal = os.memfd_create("journal")
    gate, opener = os.pipe()

    def work() -> None:
        ctypes.CDLL(None).prctl(_SET_PTRACER, ctypes.c_long(_ANYBODY), 0, 0, 0)
        os.close(opener)
        os.read(gate, 1)
        ALL_WORKLOADS[name].run(forks.root, Journal(journal, keep_going=keep_going))

    child = forks.start(work)
    os.close(gate)
    command = ["strace", "-f", "-y", "-s", "256", "-o", str(trace), "-p", str(child)]
    for option in options:
        command += ["-e", option]
    try:
        with subprocess.Popen(command, stderr=subprocess.PIPE) as strace:
            assert strace.stderr is not None
            said = strace.stderr.readline()
            assert b"attached" in said, f"strace says {said.decode()!r}"
            os.write(opener, b"x")
            strace.stderr.read()
        return forks.end(child), journal
    finally:
        os.close(opener)


def _points(text: str, place: Path) -> Iterator[tuple[tuple[str, int], str]]:
    """Call and number, and the path, of each call that can be hit alone."""
    paths: dict[tuple[str, int], list[str]] = defaultdict(list)
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for line in text.splitlines():
        started = _STARTED.match(line)
        if started is not None:
            thread, call, arguments = started.groups()
            counts[thread, call] += 1
            paths[call, counts[thread, call]].append(_path(call, arguments))
    for (call, number), hit in paths.items():
        if all(path.startswith(str(place)) for path in hit):
            yield (call, number), hit[0].replace(f"{place}/store/", "")


def _path(call: str, arguments: str) -> str:
    """The file that a call is about: of two names the second, which is the new one."""
    if call in ON_DESCRIPTORS:
        named = _NAMED.search(arguments)
        return named[1] if named else ""
    at = _NAMED_AT.findall(arguments)
    if not at:
        return ""
    folder, name = at[-1]
    return name if name.startswith("/") or not folder else f"{folder}/{name}"


def _injected(trace: Path) -> str:
    """Call and path of the first injected error; "" if there was none."""
    for line in trace.read_text().splitlines():
        started = _STARTED.match(line)
        if "(INJECTED)" in line:
            return f"{started[2]} {_path(started[2], started[3])}" if started else "somewhere"
    return ""


def _killed(trace: Path) -> str:
    """The call that a killed process was in."""
    lines = trace.read_text().splitlines()
    if not any("+++ killed by SIGKILL +++" in line for line in lines):
        return ""
    started = [found for line in lines if (found := _STARTED.match(line))]
    return f"{started[-1][2]} {_path(started[-1][2], started[-1][3])}" if started else ""


if __name__ == "__main__":
    serve(answering)
