"""Rig 8 at the scale of a test run, and that its instruments do what they say."""

from __future__ import annotations

import asyncio
import contextlib
import dis
import sys
import threading
from contextlib import closing
from types import FrameType
from typing import Any

import pytest

from tests.rigs.figures import Scale
from tests.rigs.forks import Server
from tests.rigs.interpreter.allocations import CountingAllocations, Starving, failing_allocations
from tests.rigs.interpreter.awaits import Driven, How
from tests.rigs.interpreter.bytecodes import open_places
from tests.rigs.rig_interruptions import Interpreter, Point, run

pytestmark = pytest.mark.skipif(
    failing_allocations() is None, reason="needs a CPython with _testcapi"
)


def test_no_interrupt_starvation_or_cancellation_breaks_a_promise() -> None:
    figures = run(Scale(ci=True))

    assert figures.violations == []
    assert figures.counted >= 170
    assert figures.details.keys() == {"interrupt", "allocation", "cancel"}


MISSED: dict[str, Any] = {"landed": False, "violations": []}
LANDED: dict[str, Any] = {"landed": True, "violations": []}
WRONG_END: dict[str, Any] = {"landed": False, "violations": ["it ended with 0, not -9"]}
HUNG: dict[str, Any] = {"landed": False, "failed": True, "violations": ["it ended with 1"]}


@pytest.mark.parametrize(
    ("replies", "answer"),
    [
        ([MISSED, LANDED], LANDED),
        ([WRONG_END, LANDED], LANDED),
        ([MISSED, HUNG, LANDED], HUNG),
        ([MISSED, MISSED, MISSED], None),
    ],
    ids=["lands later", "is not killed", "hangs", "never lands"],
)
def test_a_run_that_goes_wrong_is_not_tried_again(
    replies: list[dict[str, Any]], answer: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may not have got so far as to say that the disturbance landed."""
    said = iter(replies)

    def ask(_: Server, **_request: object) -> dict[str, Any]:
        return next(said)

    monkeypatch.setattr(Server, "ask", ask)

    assert Server.until_landed(object.__new__(Server), 3) == answer


def held_for_a_moment(lock: threading.Lock, value: int) -> tuple[int, bool] | None:
    with lock:
        if value:
            return value, False
    return None


@pytest.mark.parametrize("value", [0, 1], ids=["to the end", "a value is returned"])
def test_an_interrupt_where_cpython_lets_one_in_leaves_no_lock(value: int) -> None:
    """What the rig leaves out is enough: else it would find locks that no program can lose."""
    code = held_for_a_moment.__code__
    reachable = open_places(code)
    for step in dis.get_instructions(code):
        lock = threading.Lock()

        def interrupting(frame: FrameType, event: str, _: object, at: int = step.offset) -> Any:
            if frame.f_code is not code:
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            if event == "opcode" and frame.f_lasti == at:
                raise KeyboardInterrupt
            return interrupting

        sys.settrace(interrupting)
        try:
            with contextlib.suppress(KeyboardInterrupt):
                held_for_a_moment(lock, value)
        finally:
            sys.settrace(None)
        assert not (lock.locked() and step.offset in reachable), step


def test_a_point_that_is_not_reached_does_not_count() -> None:
    """The instrument must not pass because it did nothing."""
    point = Point("put-small", "allocation", (("job", 99), ("nth", 1), ("keep_going", False)))

    with closing(Interpreter()) as interpreter:
        assert not interpreter.run(point).reached


def test_allocations_are_counted_and_fail_one_by_one() -> None:
    def work() -> None:
        [str(number) for number in range(1000, 1100)]

    work()  # what is made once is there from now on
    with (counting := CountingAllocations()):
        work()

    for nth in (1, counting.count // 2):
        with pytest.raises(MemoryError), (starving := Starving(nth)):
            work()
        assert starving.landed
    with (beyond := Starving(counting.count + 10)):
        work()
    assert counting.count >= 100
    assert not beyond.landed


@pytest.mark.parametrize("how", ["early", "late", "again"])
async def test_a_task_is_cancelled_where_it_waits(how: How) -> None:
    done: list[int] = []

    async def work() -> None:
        for number in range(4):
            await asyncio.sleep(0.001)
            done.append(number)

    driven = Driven(work(), 3, how)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.ensure_future(_awaited(driven))

    assert driven.landed
    assert done == [0, 1]


async def _awaited(driven: Driven) -> None:
    await driven
