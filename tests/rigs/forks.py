"""Forks: run a workload in a forked child, as often as one likes, and judge what each run left.

Starting Python and importing the package costs half a second, a fork costs a millisecond. So a
rig has a process of its own that does nothing but this (`serve`), and talks to it in lines of
JSON (`Server`). The store lies on a memory file system under the same name in every run, so that
the calls are the same too; the start of a workload is made once and copied from then on.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tests.rigs.figures import Progress
from tests.rigs.journal import Record
from tests.rigs.oracle import judge
from tests.rigs.workloads import ALL_WORKLOADS

J_contra = TypeVar("J_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)
HANGS_AFTER_S = 60
Tree = dict[str, tuple[int, bytes | None]]


class Forks:
    """Runs workloads in a directory below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.place = folder / "run"
        self.root = self.place / "store"
        self._starts: dict[str, tuple[Tree, list[Record]]] = {}

    def begin(self, name: str) -> None:
        """Put the workload's start in place."""
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir()
        if name not in self._starts:
            records = ALL_WORKLOADS[name].prepare(self.root)
            self._starts[name] = (_tree_of(self.place), records)
        else:
            _build(self._starts[name][0], self.place)

    def start(self, work: Callable[[], None]) -> int:
        """Do the work in a child; returns its process id. A child that hangs or raises says so
        on stderr and ends with a status of its own."""
        child = os.fork()
        if child == 0:
            status = 70
            try:
                faulthandler.dump_traceback_later(HANGS_AFTER_S, exit=True)
                work()
                status = 0
            except BaseException:  # noqa: BLE001 - whatever it is, the parent has to hear of it
                traceback.print_exc()
            finally:
                os._exit(status)
        return child

    def end(self, child: int) -> int:
        """How the child ended: its exit status, or the signal's number below zero."""
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def judged(self, name: str, journal: int, faults: Sequence[Record] = ()) -> list[str]:
        """What the oracle says of the place, after a run that wrote `journal` (a descriptor)."""
        records = [Record.parse(line) for line in content_of(journal).split(b"\n")[:-1]]
        _, given = self._starts[name]
        try:
            return judge(self.root, [*given, *records, *faults])
        except Exception as error:  # noqa: BLE001 - a store that cannot even be judged
            return [f"the oracle could not judge it: {error!r}"]


def serve(make: Callable[[Path], Callable[[dict[str, Any]], dict[str, Any]]]) -> None:
    """Answer requests until stdin ends. `make` is given a folder that lives as long as this."""
    logging.getLogger("attachstore").setLevel(logging.CRITICAL)
    replies = os.dup(1)
    os.dup2(2, 1)
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="attachstore-rig-", dir=memory) as folder:
        answer = make(Path(folder))
        for line in sys.stdin:
            os.write(replies, json.dumps(answer(json.loads(line))).encode() + b"\n")


class Server:
    """A process that runs `module`, which calls `serve`."""

    def __init__(self, module: str, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": "0", **environment},
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def undisturbed(self, workload: str) -> dict[str, Any]:
        """The answer to recording a workload, which must satisfy the oracle by itself."""
        reply = self.ask(record=workload)
        assert reply["violations"] == [], f"{workload} undisturbed: {reply['violations']}"
        return reply

    def until_landed(self, tries: int, **request: Any) -> dict[str, Any] | None:
        """The answer to the first run in which the disturbance landed; None if none did.

        Which way a workload takes depends on threads and clocks a little. A run that is said to
        have `failed` counts whether it landed or not: one that hangs cannot say so itself.
        """
        for _ in range(tries):
            reply = self.ask(**request)
            if reply["landed"] or reply.get("failed"):
                return reply
        return None

    def close(self) -> None:
        self._process.communicate()


class Worker(Protocol[J_contra, R_co]):
    """Does one job after the other, in a process of its own."""

    def run(self, job: J_contra) -> R_co: ...

    def close(self) -> None: ...


def shared_out(
    jobs: Iterable[J_contra],
    make: Callable[[], Worker[J_contra, R_co]],
    many: int,
    progress: Progress,
) -> list[R_co]:
    """Let `many` workers do the jobs; returns the results in the order in which they came."""
    waiting = deque(jobs)
    total = len(waiting)
    workers = [make() for _ in range(many)]

    def work(worker: Worker[J_contra, R_co]) -> list[R_co]:
        results: list[R_co] = []
        while True:
            try:
                job = waiting.popleft()
            except IndexError:
                return results
            results.append(worker.run(job))
            progress.at(total - len(waiting), total)

    try:
        with ThreadPoolExecutor(many) as pool:
            return [result for results in pool.map(work, workers) for result in results]
    finally:
        for worker in workers:
            worker.close()


def of_landed(results: Sequence[list[str] | None]) -> tuple[int, list[str]]:
    """How many faults landed, and all violations. That nearly none landed is a violation too."""
    landed = [result for result in results if result is not None]
    violations = [violation for result in landed for violation in result]
    if len(landed) < len(results) * 0.98:
        violations.append(f"only {len(landed)} of {len(results)} faults landed")
    return len(landed), violations


def content_of(descriptor: int) -> bytes:
    """All that was written to a memory file, which is closed."""
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        return file.read()


def _tree_of(folder: Path) -> Tree:
    tree: Tree = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode & 0o7777
        content = None if path.is_dir() else path.read_bytes()
        tree[str(path.relative_to(folder))] = (mode, content)
    return tree


def _build(tree: Tree, folder: Path) -> None:
    for path, (mode, content) in tree.items():  # a directory comes before what is in it
        if content is None:
            (folder / path).mkdir(mode)
        else:
            (folder / path).write_bytes(content)
            (folder / path).chmod(mode)
