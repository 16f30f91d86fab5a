"""Pools of threads that take jobs from one queue.

A job that has begun must come to an end that somebody hears of, also while there is no memory: who
waits for it waits without a limit. So what tells the outcome is tried again (`insisting`), and a
thread that has died all the same is noticed (`Pool.has_lost_a_thread`). A Future of
concurrent.futures will not do: one that finds no memory as it is settled keeps its lock for ever.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from attachstore.arguments import check_int
from attachstore.daemon import DaemonThread, insisting
from attachstore.errors import ResourceExhaustedError

R = TypeVar("R")


class Pool:
    """Threads that take jobs from one queue: what ThreadPoolExecutor does, in half the time.

    A durable append waits for this hand-over twice, there and back, and for little else. Threads
    are daemons, so that a store that nobody closed does not keep the process from ending; but
    the process waits for the jobs they have (`_join_all`).
    """

    def __init__(self, name: str, threads_max: int) -> None:
        check_int("threads_max", threads_max, 1)  # a job that no thread takes is waited for
        self._name = name
        self._threads_max = threads_max
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = 0  # threads without a job; once all have started nobody asks
        self._ended = False
        self._guard = threading.Lock()
        self._pid = os.getpid()
        _pools.add(self)

    def put(self, job: Callable[[], None]) -> None:
        """Raises RuntimeError if there is no thread and none can start; then nothing is done."""
        with self._guard:
            if self._idle:
                self._idle -= 1
            elif len(self._threads) < self._threads_max:
                self._add_thread()
            self._jobs.put(job)

    def _add_thread(self) -> None:
        thread = DaemonThread(self._serve, f"{self._name}_{len(self._threads)}")
        try:
            # Before it serves: Ctrl-C behind its start must not lose it.
            self._threads.append(thread)
            thread.start()
        except BaseException as error:
            if not thread.serves:
                self._threads = [it for it in self._threads if it is not thread]
            if not isinstance(error, RuntimeError) or not self._threads:
                raise
            # Those that are there do the job when they can: a store must be able to close. One
            # may have waited long for this no, so that nobody asks again.
            self._threads_max = len(self._threads)

    def end(self) -> None:
        """Let the threads end when they have done all jobs. Safe to repeat, and after a fork."""
        if self._pid != os.getpid() or self._ended:
            return
        with self._guard:
            for _ in self._threads:
                self._jobs.put(None)
            self._ended = True  # not before: an interrupted call is made again

    def join(self) -> None:
        if self._pid == os.getpid():
            for thread in self._threads:
                thread.join()

    @property
    def has_lost_a_thread(self) -> bool:
        """Whether one has died, for want of memory, maybe with a job that nobody will end."""
        return not (self._ended or all(thread.is_alive() for thread in self._threads))

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job  # and all it holds, while this thread waits for the next
            with self._guard:
                self._idle += 1


class ThreadPool(Pool, Generic[R]):
    """A pool for code that is in a thread itself: outcomes come out as they are ready."""

    def __init__(self, name: str, threads_max: int) -> None:
        super().__init__(name, threads_max)
        self._outcomes: SimpleQueue[tuple[R | None, BaseException | None]] = SimpleQueue()

    def submit(self, call: Callable[[], R]) -> None:
        """Raises ResourceExhaustedError as `Worker` does."""
        result: R | None = None
        failure: BaseException | None = None

        def tell() -> None:
            self._outcomes.put((result, failure))

        def job() -> None:
            nonlocal result, failure
            try:
                result = call()
            except BaseException as error:  # noqa: BLE001 - raised where the outcome is asked for
                failure = error
            insisting(tell)
            failure = None  # its traceback holds this frame

        try:
            self.put(job)
        except RuntimeError as error:
            raise no_threads(error) from None

    def outcome(self, timeout_s: float) -> R | None:
        """What a job returned, which is never None; None if no job ends within the time.

        Each outcome comes once, in any order.

        Raises what the job raised; ResourceExhaustedError if a thread has died, since its job may
        never end.
        """
        has_lost_one = self.has_lost_a_thread  # before the look: what it said by then counts
        try:
            result, failure = self._outcomes.get(timeout=timeout_s)
        except Empty:
            if has_lost_one:
                raise ResourceExhaustedError(
                    where="thread pool", resource="memory", reason="a thread died at its work"
                ) from None
            return None
        try:
            if failure is not None:
                raise failure
        finally:
            del failure  # its traceback holds this frame
        return result


def no_threads(error: RuntimeError) -> ResourceExhaustedError:
    """What a caller is told of a pool that cannot start one."""
    return ResourceExhaustedError(where="thread pool", resource="threads", reason=str(error))


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


@atexit.register
def _join_all() -> None:
    """At the end of the process: work that has begun, or waits to, is done."""
    pools = list(_pools)
    for pool in pools:
        pool.end()
    for pool in pools:
        pool.join()
