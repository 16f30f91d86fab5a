"""The process in which workloads are interrupted, starved and cancelled.

    {"count": workload, "kind": "interrupt"}    -> {"points": [[code, offset, executions], ...]}
    {"count": workload, "kind": "allocation"}   -> {"points": [allocations of a job, ...]}
    {"count": workload, "kind": "cancel"}       -> {"points": number of waits}
    {"workload": ..., "kind": "interrupt", "code": ..., "offset": ..., "nth": ...}
    {"workload": ..., "kind": "allocation", "job": ..., "nth": ..., "keep_going": ...}
    {"workload": ..., "kind": "cancel", "nth": ..., "how": ..., "keep_going": ...}
        -> {"landed": whether it happened, "left": descriptors it left open, "crashed": whether the
            interpreter itself did, "failed": whether it hung or raised, "violations": [...]}

An interrupt or a failed allocation between two bytecodes may keep a descriptor from being closed,
and no program in Python can help it; the end of the process does. These are counted, as is a thread
of a store that an interrupt kept from closing at all. A cancelled task has no such excuse: there it
is a violation, as is any other thread that is left.

The interpreter itself, or a library in C, crashes at some failed allocations. For a store that is
a kill at this moment, and what it leaves is judged as that. A run that hangs has no excuse.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import re
import signal
import warnings
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from tests.rigs.forks import Forks, content_of, serve
from tests.rigs.interpreter import inline
from tests.rigs.interpreter.allocations import CountingAllocations, Starving
from tests.rigs.interpreter.awaits import Driven
from tests.rigs.interpreter.bytecodes import Bytecode, Counting, Interrupting
from tests.rigs.journal import Journal, Record
from tests.rigs.workloads import WORKLOADS
from tests.rigs.workloads.scene import Halt, Scene
from tests.rigs.workloads.workload import leaks

Request = dict[str, Any]

# What CPython makes of a failed allocation in one place or another: where it looks for something
# and finds no memory, it says that there is nothing, or not of the right type. The caller is told.
_NO_MEMORY = re.compile(
    r"escaped:(MemoryError|SystemError|TypeError|RuntimeError\(.can't allocate)"
)

# Once in some ten thousand runs, and never again at the same point, CPython 3.11 calls something
# else instead of a frame's trace function.
_TRACED_WRONGLY = re.compile(r"escaped:TypeError\(.'traceback' object is not callable")
_CRASHES = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS})


def answering(folder: Path) -> Any:
    """Answers requests with workloads that are run in `folder`."""
    forks = Forks(folder)
    warnings.simplefilter("ignore", RuntimeWarning)  # of coroutines that were never begun

    def answer(request: Request) -> Request:
        return _counted(forks, request) if "count" in request else _disturbed(forks, request)

    return answer


def _counted(forks: Forks, request: Request) -> Request:
    name = request["count"]
    report = os.memfd_create("report")

    def interrupt() -> None:
        inline.install()
        with Counting() as counting:
            WORKLOADS[name].run(forks.root, Journal())
        points = [[it.code, it.offset, many] for it, many in counting.executed.items()]
        os.write(report, json.dumps(points).encode())

    def allocation() -> None:
        jobs: list[CountingAllocations] = []

        def counted(_: int) -> CountingAllocations:
            jobs.append(CountingAllocations())
            return jobs[-1]

        inline.install(counted)
        WORKLOADS[name].run(forks.root, Journal())
        os.write(report, json.dumps([job.count for job in jobs]).encode())

    def cancel() -> None:
        driven = Driven(WORKLOADS[name].work(forks.root, Journal()))
        asyncio.run(_awaited(driven))
        os.write(report, json.dumps(driven.waits).encode())

    forks.begin(name)
    count = {"interrupt": interrupt, "allocation": allocation, "cancel": cancel}[request["kind"]]
    status = forks.end(forks.start(count))
    assert status == 0, f"{name} undisturbed ends with {status}"
    return {"points": json.loads(content_of(report))}


def _disturbed(forks: Forks, request: Request) -> Request:
    name = request["workload"]
    forks.begin(name)
    journal, report = os.memfd_create("journal"), os.memfd_create("report")
    open_still = os.memfd_create("left")
    records = Journal(journal, keep_going=request.get("keep_going", False))
    disturb = {"interrupt": _interrupt, "allocation": _starve, "cancel": _cancel}[request["kind"]]

    def work() -> None:
        disturb(forks.root, records, request, lambda: os.write(report, b"landed"))
        gc.collect()
        for what in leaks(forks.place):
            excused = "descriptor" if _has_begun_to_close(request) else ("descriptor", "thread")
            if disturb is not _cancel and what.startswith(excused):
                os.write(open_still, b"1")
            else:
                records.seen("leak", what=what)

    status = forks.end(forks.start(work))
    crashed = disturb is _starve and -status in _CRASHES
    wrong = [] if status == 0 or crashed else [f"the process ended with {status}"]
    return {
        "landed": crashed or content_of(report) == b"landed",
        "left": len(content_of(open_still)),
        "crashed": crashed,
        "failed": bool(wrong),
        "violations": wrong + forks.judged(name, journal),
    }


def _has_begun_to_close(request: Request) -> bool:
    """False if the interrupt came where the store's closing was called, and had not begun."""
    return not str(request.get("code")).endswith(
        ("Store.__aexit__", "Store.close", "Opening.__aexit__", "Closing.__call__")
    )


def _interrupt(root: Path, journal: Journal, request: Request, landed: Callable[[], Any]) -> None:
    inline.install()
    at = Interrupting(Bytecode(request["code"], request["offset"]), request["nth"])
    records = _Passing(journal, but=_TRACED_WRONGLY)
    with contextlib.suppress(KeyboardInterrupt), at:
        asyncio.run(WORKLOADS[request["workload"]].work(root, records))
    if at.landed:
        landed()


def _starve(root: Path, journal: Journal, request: Request, landed: Callable[[], Any]) -> None:
    starving = Starving(request["nth"])
    inline.install(lambda job: starving if job == request["job"] else contextlib.nullcontext())
    records = _Passing(journal, but=_NO_MEMORY)
    asyncio.run(WORKLOADS[request["workload"]].work(root, records))
    if starving.landed:
        landed()


class _Passing(Journal):
    """Passes on what is recorded, at once, but for errors that are CPython's own."""

    def __init__(self, journal: Journal, *, but: re.Pattern[str]) -> None:
        super().__init__(keep_going=journal.keep_going)
        self._journal = journal
        self._but = but

    def add(self, record: Record) -> None:
        if not self._but.match(str(record.facts.get("error_code"))):
            self._journal.add(record)


def _cancel(root: Path, journal: Journal, request: Request, landed: Callable[[], Any]) -> None:
    scene = _GoingOn(root, journal) if journal.keep_going else Scene(root, journal)
    part = WORKLOADS[request["workload"]].part(scene)
    driven = Driven(_unhalted(part), request["nth"], request["how"])
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(_awaited(driven))
    if driven.landed:
        landed()


async def _awaited(driven: Driven) -> None:
    await driven


async def _unhalted(part: Any) -> None:
    with contextlib.suppress(Halt):
        await part


class _GoingOn(Scene):
    """A caller whose operation is cancelled, and who goes on with the next one."""

    @contextlib.contextmanager
    def operation(self, kind: str, *, goes_on: bool = False, **facts: Any) -> Generator[None]:
        with super().operation(kind, goes_on=goes_on, **facts):
            try:
                yield
            except asyncio.CancelledError:
                self.journal.failed(kind, "cancelled", **facts)
                if kind.startswith("opened"):
                    raise
                task = asyncio.current_task()
                while task is not None and task.uncancel():
                    pass


if __name__ == "__main__":
    serve(answering)
