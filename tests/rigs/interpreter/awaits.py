"""Cancellation of a task at any point where it waits.

A coroutine is driven through `Driven`, which counts what it waits for. At the chosen one the task
is cancelled: at once (`early`, while the thread works), in the moment when the wait is over but
the task does not know it yet (`late`), or at once and again in the next turns of the loop
(`again`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, Literal

How = Literal["early", "late", "again"]
HOWS: tuple[How, ...] = ("early", "late", "again")
_TURNS = 3


class Driven:
    """Awaits a coroutine; `waits` counts how often that had to wait."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], at: int = 0, how: How = "early"):
        self._coroutine = coroutine
        self._at = at
        self._how = how
        self.waits = 0
        self.landed = False

    def __await__(self) -> Generator[Any, Any, Any]:
        task = asyncio.current_task()
        assert task is not None
        waiting = self._coroutine.send(None)
        while True:
            self.waits += 1
            if self.waits == self._at:
                self._cancel(task, waiting)
            try:
                value = yield waiting
            except BaseException as error:  # noqa: BLE001 - handed on, whatever it is
                step: Any = (self._coroutine.throw, error)
            else:
                step = (self._coroutine.send, value)
            try:
                waiting = step[0](step[1])
            except StopIteration as end:
                return end.value

    def _cancel(self, task: asyncio.Task[Any], waiting: asyncio.Future[Any] | None) -> None:
        self.landed = True
        loop = asyncio.get_running_loop()
        if self._how == "late" and waiting is not None:
            waiting.add_done_callback(lambda _: task.cancel())
        elif self._how == "again":
            _cancel_again(loop, task, _TURNS)
        else:
            loop.call_soon(task.cancel)


def _cancel_again(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any], turns: int) -> None:
    def cancel() -> None:
        task.cancel()
        if turns > 1:
            _cancel_again(loop, task, turns - 1)

    loop.call_soon(cancel)
