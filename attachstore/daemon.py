"""DaemonThread: a thread that serves, or of which the caller knows that it never will.

Python's own tells less. One that finds no memory for its first steps dies without a word, and
`start` waits for it for ever; one whose `start` was interrupted may be at work all the same.

 (1) When `start` is over, `serves` says for good whether the thread does its work.
 (2) `start` returns only if it does.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import TypeVar

R = TypeVar("R")

_BETWEEN_TRIES_S = 0.01
_BEGINNING_S = 10.0
"""How long a new thread may take to begin, on a machine that does a hundred other things."""


class DaemonThread(threading.Thread):
    """A daemon: the process ends without waiting for it."""

    def __init__(self, serve: Callable[[], None], name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._serve = serve
        self._turn = threading.Lock()  # taken by `run`, or by `start` that gives the thread up
        self._take_turn = functools.partial(self._turn.acquire, blocking=False)
        self._started = _Beginning()
        self.serves = False
        """Whether it will do, does or has done its work."""

    def start(self) -> None:
        """Raises RuntimeError if there can be no thread, or it gives no sign of life."""
        try:
            self.serves = True
            super().start()
        except BaseException as error:
            self.serves = not self._take_turn()
            if not self.serves or not isinstance(error, RuntimeError):  # else it came late
                raise

    def run(self) -> None:
        if insisting(self._take_turn):
            self._serve()


def insisting(call: Callable[[], R]) -> R:
    """Do what somebody waits for, as soon as there is memory for it. Needs none for itself."""
    while True:
        try:
            return call()
        except MemoryError:
            try:  # noqa: SIM105 - a context manager needs memory
                time.sleep(_BETWEEN_TRIES_S)
            except MemoryError:
                pass


def daemon_thread(serve: Callable[[], None], name: str) -> threading.Thread:
    """A thread that has begun. Raises RuntimeError if there is none."""
    thread = DaemonThread(serve, name)
    thread.start()
    return thread


class _Beginning(threading.Event):
    """What `Thread.start` waits for."""

    def wait(self, timeout: float | None = None) -> bool:
        if super().wait(_BEGINNING_S if timeout is None else timeout):
            return True
        message = "a thread died as it began"
        raise RuntimeError(message)
