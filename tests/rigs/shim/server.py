"""The process that the shim is loaded in.

    {"record": workload}    -> {"calls": ["<call> <path>", ...], "violations": [...]}
    {"workload": ..., "at": ..., "kind": ..., "error": ..., "persists": ..., "keep_going": ...}
                            -> {"landed": "<call> <path>", "violations": [...]}

Paths are relative to the store.
"""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path
from typing import Any

from tests.rigs.forks import Forks, content_of, serve
from tests.rigs.journal import Journal, Record
from tests.rigs.shim.preload import KILL_AFTER, KILL_BEFORE, TORN_KILL, Shim
from tests.rigs.workloads import ALL_WORKLOADS

_KILLS = (KILL_BEFORE, KILL_AFTER, TORN_KILL)


def answering(folder: Path) -> Any:
    """Answers requests with workloads that are run in `folder`."""
    forks, shim = Forks(folder), Shim()

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        if "record" in request:
            return _record(forks, shim, request["record"])
        return _run(forks, shim, request)

    return answer


def _record(forks: Forks, shim: Shim, name: str) -> dict[str, Any]:
    """Run the workload with nothing failing, and list its calls."""
    forks.begin(name)
    listed, journal = os.memfd_create("calls"), os.memfd_create("journal")

    def work() -> None:
        shim.record(forks.place)
        ALL_WORKLOADS[name].run(forks.root, Journal(journal))
        shim.disarm()
        os.write(listed, "\n".join(shim.calls()).encode())

    forks.end(forks.start(work))
    calls = [_relative(call, forks.root) for call in content_of(listed).decode().splitlines()]
    return {"calls": calls, "violations": forks.judged(name, journal)}


def _run(forks: Forks, shim: Shim, request: dict[str, Any]) -> dict[str, Any]:
    """Run the workload with one fault, and judge what it left."""
    name = request["workload"]
    forks.begin(name)
    journal, report = os.memfd_create("journal"), os.memfd_create("report")
    fault = {key: request[key] for key in ("kind", "error", "persists")}

    def work() -> None:
        shim.arm(forks.place, request["at"], **fault, report=report)
        ALL_WORKLOADS[name].run(forks.root, Journal(journal, keep_going=request["keep_going"]))

    status = forks.end(forks.start(work))
    landed = _relative(content_of(report).decode().strip().partition(" ")[2], forks.root)
    expected = -signal.SIGKILL if landed and request["kind"] in _KILLS else 0
    wrong = [] if status == expected else [f"the process ended with {status}, not {expected}"]
    faults: list[Record] = []
    if landed:
        call, _, path = landed.partition(" ")
        error = errno.errorcode.get(request["error"], "")
        faults = [Record("seen", "fault", {"call": call, "path": path, "error": error})]
    return {"landed": landed, "violations": wrong + forks.judged(name, journal, faults)}


def _relative(call: str, root: Path) -> str:
    return call.replace(f"{root}/", "")


if __name__ == "__main__":
    serve(answering)
