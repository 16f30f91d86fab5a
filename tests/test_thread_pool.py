"""ThreadPool: every job that has begun comes to an end that somebody hears of."""

from __future__ import annotations

import functools
import threading
from queue import SimpleQueue
from typing import Any

import pytest

from attachstore import daemon
from attachstore.errors import ResourceExhaustedError
from attachstore.thread_pool import ThreadPool
from tests.waiting import wait_until

START_OF_A_THREAD = next(  # named so until Python 3.12, and since
    name for name in ("_start_new_thread", "_start_joinable_thread") if hasattr(threading, name)
)


class Starved:
    """A queue that has no memory for the first things that are put into it."""

    def __init__(self, times: float, error: Exception) -> None:
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._times = times
        self._error = error
        self.get = self._queue.get

    def put(self, item: object) -> None:
        if self._times > 0:
            self._times -= 1
            raise self._error
        self._queue.put(item)


class TestAPoolForCodeThatIsInAThreadItself:
    def test_each_job_has_its_outcome(self) -> None:
        pool = ThreadPool[str]("p", 2)
        for number in range(20):
            pool.submit(functools.partial(str, number))
        pool.end()
        pool.join()

        found = {pool.outcome(60) for _ in range(20)}

        assert found == {str(number) for number in range(20)}
        assert pool.outcome(0) is None

    def test_what_a_job_raises_is_raised_where_its_outcome_is_asked_for(self) -> None:
        pool = ThreadPool[int]("p", 1)
        pool.submit(lambda: int("no number"))

        with pytest.raises(ValueError, match="no number"):
            pool.outcome(60)
        pool.end()
        pool.join()

    def test_an_outcome_is_told_as_soon_as_there_is_memory(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pool = ThreadPool[int]("p", 1)
        monkeypatch.setattr(pool, "_outcomes", Starved(3, MemoryError()))
        pool.submit(lambda: 7)

        assert pool.outcome(60) == 7
        pool.end()
        pool.join()

    def test_a_thread_that_dies_ends_the_waiting(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing of ours raises in a thread; Python itself does, while there is no memory."""

        def unseen(_: object) -> None:
            """Else pytest warns of it."""

        monkeypatch.setattr(threading, "excepthook", unseen)
        pool = ThreadPool[int]("p", 1)
        monkeypatch.setattr(pool, "_outcomes", Starved(1, ZeroDivisionError()))

        pool.submit(int)

        wait_until(lambda: pool.has_lost_a_thread)
        with pytest.raises(ResourceExhaustedError, match="died"):
            pool.outcome(0.01)
        pool.end()
        pool.join()

    def test_no_thread_at_all_is_a_typed_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def never(_bootstrap: object, *_: object, **_options: object) -> None:
            """As a thread that finds no memory for its first steps."""

        monkeypatch.setattr(threading, START_OF_A_THREAD, never)
        monkeypatch.setattr(daemon, "_BEGINNING_S", 0.01)

        with pytest.raises(ResourceExhaustedError):
            ThreadPool[int]("p", 2).submit(int)
