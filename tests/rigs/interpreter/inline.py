"""Jobs done where they are asked for, instead of in a thread.

Python raises KeyboardInterrupt in the main thread only, and a trace function sees one thread. So
for interrupts (and for allocations, which are then the same in every run) the blocking part of
the package runs in the main thread. The hand-over to threads is left out by that; cancellation
is tried with the real one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from attachstore import threads


def install(
    around: Callable[[int], AbstractContextManager[object]] = lambda _: nullcontext(),
) -> None:
    """For the rest of this process. `around(n)` is entered for the n-th job, counted from 1."""
    jobs = 0

    def do_now(
        self: threads.Worker, call: Callable[[], Any], flag: threads.CancelFlag | None = None
    ) -> asyncio.Future[Any]:
        nonlocal jobs
        if self.closed:
            message = "the store is closed"
            raise ValueError(message)
        jobs += 1
        work = threads._Work[Any](loop=asyncio.get_running_loop())
        work.flag = flag
        try:
            with around(jobs):
                result = call()
        except Exception as error:  # noqa: BLE001 - raised where the caller waits
            threads._tell(work, [], error)
        else:
            threads._tell(work, [result], None)
        return work

    threads.Worker._submit = do_now  # pyright: ignore[reportAttributeAccessIssue]
