"""The process that strace watches: it forks a child for each piece of work, one at a time.

Starting Python and importing the package costs half a second, forking a process that has done
both costs milliseconds. Requests and replies are lines of JSON on descriptors 0 and 1:

    {"call": "module:function", "arguments": [...], "mutate": site or null}
    {"status": what the child exited with, negative for a signal}

A child that raises prints its trace on stderr and exits with 70. With `--bare` nothing of the
package is imported before the fork, so that the child can import a mutated copy of it
(mutation.py).
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from typing import Any

RAISED = 70

# What takes long to import and is nobody's subject.
_LIBRARIES = ("asyncio", "blake3", "msgspec", "PIL.Image", "magic", "sqlite3", "ctypes", "aiofiles")
_PACKAGE = ("attachstore", "attachstore.blocking", "attachstore.sessions.sqlite")


def main() -> None:
    """Serve until stdin ends."""
    bare = "--bare" in sys.argv
    for name in _LIBRARIES + (() if bare else _PACKAGE):
        importlib.import_module(name)
    while line := sys.stdin.readline():
        status = _run(json.loads(line))
        os.write(1, json.dumps({"status": status}).encode() + b"\n")


def _run(request: dict[str, Any]) -> int:
    child = os.fork()
    if child == 0:
        os._exit(_work(request))
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _work(request: dict[str, Any]) -> int:
    try:
        os.dup2(2, 1)  # stdout carries the replies
        if request["mutate"] is not None:
            from tests.rigs import mutation

            mutation.install(request["mutate"])
        module, _, function = request["call"].partition(":")
        getattr(importlib.import_module(module), function)(*request["arguments"])
    except BaseException:  # noqa: BLE001 - whatever it is, the parent has to hear of it
        traceback.print_exc()
        return RAISED
    return 0


if __name__ == "__main__":
    main()
