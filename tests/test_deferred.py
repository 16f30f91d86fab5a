"""What a thread leaves to the loop is made there, or the thread is asked to look closer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Iterator
from functools import partial

import pytest

from attachstore import threads
from attachstore.deferred import Deferred
from attachstore.errors import ResourceExhaustedError
from attachstore.threads import CancelFlag, Worker

Runs = Generator[list[int] | Deferred[int]]


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker("deferring", 4)
    yield worker
    worker.close()


class Reading:
    """Numbers in runs of ten; those from `given_up` on are not what they looked like."""

    def __init__(self, given_up: int | None = None) -> None:
        self.given_up = given_up
        self.made_in: set[str] = set()
        self.closed_in: list[str] = []

    def start(self, _: CancelFlag) -> Runs:
        try:
            yield [0, 1, 2]
            for first in range(3, 103, 10):
                yield Deferred(10, 0, partial(self._make, first), partial(self._slowly, first))
        finally:
            self.closed_in.append(threading.current_thread().name)

    def _make(self, first: int) -> list[int] | None:
        self.made_in.add(threading.current_thread().name)
        return None if first == self.given_up else list(range(first, first + 10))

    def _slowly(self, first: int) -> Generator[list[int]]:
        try:
            for number in range(first, 103):
                self.made_in.add(threading.current_thread().name)
                yield [number]
        finally:
            self.closed_in.append(threading.current_thread().name)


async def test_the_items_are_made_in_the_loop(worker: Worker) -> None:
    reading = Reading()

    found = [item async for item in worker.iterate_runs(reading.start)]

    assert found == list(range(103))
    assert reading.made_in == {threading.current_thread().name}
    assert len(reading.closed_in) == 1
    assert reading.closed_in[0].startswith("deferring")


@pytest.mark.parametrize("given_up", [3, 33, 93])
async def test_what_cannot_be_made_comes_otherwise(worker: Worker, given_up: int) -> None:
    """Once each, in order; what the first iterator had still to say is not heard."""
    reading = Reading(given_up)

    found = [item async for item in worker.iterate_runs(reading.start)]

    assert found == list(range(103))
    assert len(reading.closed_in) == 2
    assert all(name.startswith("deferring") for name in reading.closed_in)


async def test_an_early_end_closes_what_was_begun_instead(worker: Worker) -> None:
    reading = Reading(given_up=3)
    items = worker.iterate_runs(reading.start)

    async for item in items:
        if item == 50:
            break
    await items.aclose()

    assert len(reading.closed_in) == 2


async def test_an_error_behind_what_is_deferred_comes_behind_it(worker: Worker) -> None:
    def failing(_: CancelFlag) -> Runs:
        yield Deferred(2, 0, lambda: [1, 2], list_of_none)
        raise ZeroDivisionError

    items = worker.iterate_runs(failing)

    assert [await anext(items), await anext(items)] == [1, 2]
    with pytest.raises(ZeroDivisionError):
        await anext(items)


async def test_an_error_of_the_first_iterator_is_not_raised_once_another_has_begun(
    worker: Worker,
) -> None:
    def failing(_: CancelFlag) -> Runs:
        yield Deferred(2, 0, lambda: None, lambda: (numbers for numbers in [[1, 2], [3]]))
        raise ZeroDivisionError

    assert [item async for item in worker.iterate_runs(failing)] == [1, 2, 3]


async def test_no_memory_to_make_them_is_the_packages_own_error(worker: Worker) -> None:
    def starved() -> list[int]:
        raise MemoryError

    with pytest.raises(ResourceExhaustedError):
        async for _ in worker.iterate_runs(
            lambda _: (deferred for deferred in [Deferred(1, 0, starved, list_of_none)])
        ):
            pass


async def test_no_memory_to_go_on_is_the_packages_own_error_too(worker: Worker) -> None:
    def starved(_: CancelFlag) -> Runs:
        yield [1]
        raise MemoryError

    with pytest.raises(ResourceExhaustedError):
        async for _ in worker.iterate_runs(starved):
            pass


async def test_other_tasks_have_their_turn_while_a_batch_is_made(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "_TURN_S_MAX", 0)
    turns: list[int] = []
    made = 0

    async def other() -> None:
        while True:
            turns.append(made)
            await asyncio.sleep(0)

    def make() -> list[int]:
        nonlocal made
        made += 1
        return [made]

    def batch(_: CancelFlag) -> Runs:
        for _number in range(100):
            yield Deferred(1, 0, make, list_of_none)

    task = asyncio.create_task(other())
    found = [item async for item in worker.iterate_runs(batch)]
    task.cancel()

    assert found == list(range(1, 101))
    assert len(set(turns)) >= 100


async def test_a_batch_holds_so_many_bytes(worker: Worker) -> None:
    """However few items they are of."""
    held: list[int] = []

    def large(_: CancelFlag) -> Runs:
        for number in range(40):
            held.append(number)
            yield Deferred(1, 256 << 10, lambda: [0], list_of_none)

    items = worker.iterate_runs(large)
    await anext(items)
    assert len(held) == 4
    await items.aclose()


async def test_other_tasks_go_on_between_batches(worker: Worker) -> None:
    """However much is deferred, and though nothing here waits for anything."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def many(cancel: CancelFlag) -> Runs:
        for _ in range(1000):
            cancel.check()
            yield Deferred(40, 0, lambda: [0] * 40, list_of_none)

    task = asyncio.create_task(other())
    async for _ in worker.iterate_runs(many):
        pass
    task.cancel()

    assert turns > 10


def test_items_are_converted_where_they_are_made_and_otherwise() -> None:
    def doubled(runs: Generator[list[int]]) -> Generator[list[int]]:
        for run in runs:
            yield [2 * item for item in run]

    def negated(run: list[int]) -> list[int]:
        return [-item for item in run]

    made = Deferred(2, 0, lambda: [1, 2], list_of_none).then(negated, doubled)
    not_made = Deferred(2, 0, lambda: None, lambda: (run for run in [[1, 2], [3]])).then(
        negated, doubled
    )

    assert made.items_max == 2
    assert made.make() == [-1, -2]
    assert not_made.make() is None
    assert list(not_made.otherwise()) == [[2, 4], [6]]


def list_of_none() -> Generator[list[int]]:
    yield from ()
