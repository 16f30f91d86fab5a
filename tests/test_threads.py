"""Worker: blocking work is never abandoned halfway, and no thread outlives its store."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import MethodType
from typing import Any

import pytest

from attachstore import daemon
from attachstore.errors import ResourceExhaustedError
from attachstore.threads import CancelFlag, Cancelled, Worker
from tests.descriptors import open_descriptors
from tests.objects.samples import attachment, make_store, names_in, spooled
from tests.test_thread_pool import START_OF_A_THREAD


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker("test", 4)
    yield worker
    worker.close()


async def test_a_caller_is_told_as_soon_as_there_is_memory(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    told = loop.call_soon_threadsafe
    failures = iter([MemoryError(), MemoryError()])

    def starved(callback: Any, *arguments: Any) -> Any:
        for failure in failures:
            raise failure
        return told(callback, *arguments)

    monkeypatch.setattr(loop, "call_soon_threadsafe", starved)

    assert await worker.finish(lambda: 7) == 7


async def test_a_caller_who_is_told_twice_hears_it_once(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop had taken it in, and then no memory to wake itself up."""
    loop = asyncio.get_running_loop()
    told = loop.call_soon_threadsafe
    failures = iter([MemoryError()])

    def starved(callback: Any, *arguments: Any) -> Any:
        handle = told(callback, *arguments)
        for failure in failures:
            raise failure
        return handle

    monkeypatch.setattr(loop, "call_soon_threadsafe", starved)
    troubles: list[object] = []
    loop.set_exception_handler(lambda _loop, context: troubles.append(context))

    assert await worker.finish(lambda: 7) == 7
    await worker.finish(lambda: None)
    assert troubles == []


class Gate:
    """Work that says when it has begun and ends when it is let."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go = threading.Event()
        self.ended = False

    def __call__(self) -> str:
        self.begun.set()
        assert self.go.wait(timeout=30)
        self.ended = True
        return "done"


async def until(event: threading.Event) -> None:
    while not event.is_set():
        await asyncio.sleep(0.001)


async def test_work_runs_in_a_thread_and_returns(worker: Worker) -> None:
    def work(number: int, *, plus: int) -> tuple[int, str]:
        return number + plus, threading.current_thread().name

    result, name = await worker.finish(work, 1, plus=2)

    assert result == 3
    assert name.startswith("test")


async def test_errors_come_back(worker: Worker) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await worker.finish(fail)


async def test_a_failed_allocation_comes_back_as_the_packages_own_error(worker: Worker) -> None:
    def starved() -> None:
        raise MemoryError

    with pytest.raises(ResourceExhaustedError, match="memory"):
        await worker.finish(starved)


async def test_a_cancelled_caller_waits_for_a_critical_section(worker: Worker) -> None:
    """Or it would release a lock, or close a file, under a live writer."""
    gate = Gate()
    task = asyncio.create_task(worker.finish(gate))
    await until(gate.begun)

    task.cancel()
    await asyncio.sleep(0.02)
    assert not task.done()
    task.cancel()
    await asyncio.sleep(0.02)
    assert not task.done(), "a second cancellation must wait too"
    gate.go.set()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert gate.ended


async def test_work_that_waits_in_the_queue_still_runs_after_a_cancellation() -> None:
    """Clean-up relies on its having run; a dropped job would be a surprise."""
    worker = Worker("test", 1)
    gate, second = Gate(), Gate()
    second.go.set()
    blocking = asyncio.create_task(worker.finish(gate))
    await until(gate.begun)
    waiting = asyncio.create_task(worker.finish(second))
    await asyncio.sleep(0.01)

    waiting.cancel()
    await asyncio.sleep(0.01)
    gate.go.set()

    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert second.ended
    assert await blocking == "done"
    worker.close()


async def test_long_work_is_told_to_give_up(worker: Worker) -> None:
    begun = threading.Event()
    seen: list[str] = []

    def work(cancel: CancelFlag, name: str) -> None:
        begun.set()
        try:
            while True:
                cancel.check()
                time.sleep(0.001)
        finally:
            seen.append(name)

    task = asyncio.create_task(worker.run(work, "gave up"))
    await until(begun)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["gave up"]


async def test_a_deadline_is_a_cancellation(worker: Worker) -> None:
    def work(cancel: CancelFlag) -> None:
        while True:
            cancel.check()
            time.sleep(0.001)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await worker.run(work)


async def test_a_result_that_holds_something_is_let_go_if_its_caller_is_gone(
    worker: Worker,
) -> None:
    gate = Gate()
    discarded: list[str] = []

    def work(cancel: CancelFlag) -> str:
        del cancel
        return gate()

    task = asyncio.create_task(worker.hold(discarded.append, work))
    await until(gate.begun)
    task.cancel()
    await asyncio.sleep(0.01)
    gate.go.set()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert discarded == ["done"]
    assert await worker.hold(discarded.append, lambda _: "kept") == "kept"
    assert discarded == ["done"]


def counted(ends: list[str], count: int) -> Iterator[int]:
    try:
        yield from range(count)
    finally:
        ends.append(threading.current_thread().name)


class TestIterate:
    async def test_items_come_in_order(self, worker: Worker) -> None:
        ends: list[str] = []

        found = [item async for item in worker.iterate(lambda _: counted(ends, 1000))]

        assert found == list(range(1000))
        assert len(ends) == 1
        assert ends[0].startswith("test")

    async def test_an_early_end_closes_the_iterator_in_a_thread(self, worker: Worker) -> None:
        ends: list[str] = []
        items = worker.iterate(lambda _: counted(ends, 10_000))

        async for item in items:
            if item == 3:
                break
        await items.aclose()

        assert len(ends) == 1
        assert ends[0].startswith("test")

    async def test_items_before_an_error_come_first(self, worker: Worker) -> None:
        def failing(_: CancelFlag) -> Iterator[int]:
            yield 1
            yield 2
            raise ZeroDivisionError

        items = worker.iterate(failing)

        assert [await anext(items), await anext(items)] == [1, 2]
        with pytest.raises(ZeroDivisionError):
            await anext(items)

    async def test_a_slow_iterator_hands_out_what_it_has(self, worker: Worker) -> None:
        """A batch has a time limit, so that progress is seen."""
        go = threading.Event()

        def slow(_: CancelFlag) -> Iterator[int]:
            yield 1
            time.sleep(0.05)
            yield 2
            assert go.wait(timeout=30)
            yield 3

        items = worker.iterate(slow)
        assert await anext(items) == 1
        assert await anext(items) == 2
        go.set()
        assert [item async for item in items] == [3]

    async def test_a_cancelled_consumer_stops_the_iterator(self, worker: Worker) -> None:
        begun = threading.Event()
        ends: list[str] = []

        def endless(cancel: CancelFlag) -> Iterator[int]:
            try:
                while True:
                    begun.set()
                    cancel.check()
                    time.sleep(0.001)
            finally:
                ends.append("closed")
            yield 1

        async def consume() -> None:
            async for _ in worker.iterate(endless):
                pass

        task = asyncio.create_task(consume())
        await until(begun)
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task
        assert ends == ["closed"]

    async def test_an_iterator_left_open_is_closed_after_the_store(self) -> None:
        worker = Worker("test", 2)
        ends: list[str] = []
        items = worker.iterate(lambda _: counted(ends, 10_000))
        assert await anext(items) == 0

        worker.close()
        await items.aclose()

        assert len(ends) == 1


class TestClosing:
    async def test_a_closed_worker_refuses_work(self, worker: Worker) -> None:
        worker.close()
        worker.close()

        assert worker.closed
        with pytest.raises(ValueError, match="closed"):
            await worker.finish(print)

    async def test_closing_waits_and_ends_the_threads(self) -> None:
        worker = Worker("closing", 4)
        await asyncio.gather(*(worker.finish(time.sleep, 0.01) for _ in range(8)))

        worker.close()

        assert not [it for it in threading.enumerate() if it.name.startswith("closing")]

    async def test_no_thread_starts_before_it_is_needed(self) -> None:
        worker = Worker("idle", 4)

        assert not [it for it in threading.enumerate() if it.name.startswith("idle")]
        worker.close()

    async def test_threads_are_bounded(self) -> None:
        worker = Worker("few", 2)
        running, most = 0, 0
        guard = threading.Lock()

        def work() -> None:
            nonlocal running, most
            with guard:
                running += 1
                most = max(most, running)
            time.sleep(0.005)
            with guard:
                running -= 1

        await asyncio.gather(*(worker.finish(work) for _ in range(10)))

        assert most <= 2
        worker.close()

    async def test_jobs_that_follow_each_other_share_a_thread(self) -> None:
        worker = Worker("one", 4)
        names: set[str] = set()
        for _ in range(20):
            names.add(await worker.finish(lambda: threading.current_thread().name))
            while not worker._pool._idle:  # it answers a moment before it can take the next job
                await asyncio.sleep(0)
        worker.close()

        assert len(names) == 1

    async def test_threads_end_with_a_worker_that_nobody_closed(self) -> None:
        worker = Worker("dropped", 4)
        await worker.finish(int)
        (thread,) = (it for it in threading.enumerate() if it.name.startswith("dropped"))

        del worker
        gc.collect()

        await asyncio.to_thread(thread.join, 30)
        assert not thread.is_alive()

    def test_the_end_of_the_process_waits_for_work_that_has_begun(self) -> None:
        """As for a store that nobody closed: half a critical section is what never happens."""
        script = """
import asyncio, os, sys, time
from attachstore.threads import Worker

worker = Worker("kept", 2)

def work() -> None:
    time.sleep(0.2)
    os.write(1, b"done")

async def main() -> None:
    task = asyncio.create_task(worker.finish(work))
    await asyncio.sleep(0.05)
    raise KeyboardInterrupt  # the loop is stopped with the job under way

loop = asyncio.new_event_loop()
try:
    loop.run_until_complete(main())
except KeyboardInterrupt:
    pass
"""
        command = [sys.executable, "-c", script]
        ended = subprocess.run(command, capture_output=True, check=True, timeout=60)

        assert ended.stdout == b"done"

    async def test_a_machine_without_threads_left_is_a_typed_error(
        self, worker: Worker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And the job is not done later: its caller has been told that it was not."""

        def fail(_: threading.Thread) -> None:
            message = "can't start new thread"
            raise RuntimeError(message)

        done: list[str] = []
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", fail)
            with pytest.raises(ResourceExhaustedError):
                await worker.finish(done.append, "refused")

        await worker.finish(done.append, "taken")
        assert done == ["taken"]

    async def test_a_pool_that_cannot_grow_works_with_the_threads_it_has(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A store that could not close would keep its locks."""
        worker = Worker("w")
        asked: list[threading.Thread] = []

        def fail(thread: threading.Thread) -> None:
            asked.append(thread)
            message = "can't start new thread"
            raise RuntimeError(message)

        go_on = threading.Event()
        first = asyncio.create_task(worker.finish(go_on.wait))
        await asyncio.sleep(0)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", fail)
            others = [asyncio.create_task(worker.finish(int)) for _ in range(2)]
            await asyncio.sleep(0)
        go_on.set()

        assert await asyncio.gather(first, *others) == [True, 0, 0]
        assert len(asked) == 1
        worker.close()

    async def test_a_thread_that_dies_as_it_begins_is_not_waited_for(
        self, worker: Worker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One that finds no memory for its first steps never says that it lives."""
        begin: Any = getattr(threading, START_OF_A_THREAD)
        asked: list[tuple[MethodType, tuple[Any, ...], dict[str, Any]]] = []

        def never(bootstrap: MethodType, *arguments: Any, **options: Any) -> None:
            asked.append((bootstrap, arguments, options))

        done: list[str] = []
        with monkeypatch.context() as patched:
            patched.setattr(threading, START_OF_A_THREAD, never)
            patched.setattr(daemon, "_BEGINNING_S", 0.01)
            with pytest.raises(ResourceExhaustedError):
                await worker.finish(done.append, "refused")

        # A machine may also be that slow.
        bootstrap, arguments, options = asked[0]
        begin(bootstrap, *arguments, **options)
        thread = bootstrap.__self__
        assert isinstance(thread, threading.Thread)
        while thread.ident is None:
            time.sleep(0.001)
        thread.join()
        await worker.finish(done.append, "taken")
        assert done == ["taken"]

    async def test_a_job_may_raise_what_a_future_does_not_take(self, worker: Worker) -> None:
        with pytest.raises(RuntimeError, match="StopIteration"):
            await worker.finish(next, iter(()))

    @pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
    async def test_after_a_fork_the_childs_copy_is_dead(self, worker: Worker) -> None:
        """Its threads exist in the parent only: work would wait for ever."""
        await worker.finish(int)
        context = multiprocessing.get_context("fork")
        results = context.Queue()

        def child() -> None:
            try:
                worker._submit(int)
            except ValueError as error:
                results.put(str(error))
            worker.close()

        process = context.Process(target=child)
        process.start()
        process.join(timeout=30)

        assert process.exitcode == 0
        assert "os.fork()" in results.get(timeout=10)
        assert await worker.finish(int) == 0


def test_a_flag_is_checked() -> None:
    flag = CancelFlag()
    flag.check()
    flag.set()

    with pytest.raises(Cancelled):
        flag.check()
    assert not issubclass(Cancelled, Exception), "no `except Exception` may swallow it"


def test_setting_a_flag_interrupts_what_cannot_look_at_it() -> None:
    """SQLite, for one. Never after the block: the connection may be another's by then."""
    flag = CancelFlag()
    interrupted: list[str] = []
    with flag.interrupting(lambda: interrupted.append("one")):
        flag.set()
        assert flag.is_set
    with pytest.raises(Cancelled), flag.interrupting(lambda: interrupted.append("two")):
        pytest.fail("it was set before")
    flag.set()

    assert interrupted == ["one"]


async def test_a_cancelled_commit_is_done_or_not_and_leaves_nothing(
    tmp_path: Path, worker: Worker
) -> None:
    """Case 141: 100 rounds of 2 MiB, cancelled after 0 to 5 ms."""
    store = make_store(tmp_path / "store")
    chance = random.Random(141)
    gc.collect()  # what earlier tests left to the collector is not counted
    before = open_descriptors()

    def put(cancel: CancelFlag, data: bytes) -> None:
        content = spooled(store.backend, data)  # type: ignore[arg-type] - a FilesystemBackend
        try:
            cancel.check()
            store.commit(attachment(content=content), cancel)
        finally:
            content.close()

    finished = 0
    for number in range(100):
        task = asyncio.create_task(worker.run(put, number.to_bytes(2, "big") * (1 << 20)))
        await asyncio.sleep(chance.random() / 200)
        task.cancel()
        try:
            await task
            finished += 1
        except asyncio.CancelledError:
            assert names_in(tmp_path / "store" / "staging") == []

    gc.collect()
    there = list(store.digests())
    assert len(there) >= finished
    assert all(store.verify(digest).error is None for digest in there)
    assert open_descriptors() <= before
