"""A thread serves, or its caller knows that it never will."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from attachstore.daemon import DaemonThread
from attachstore.thread_pool import ThreadPool


@pytest.mark.parametrize("when", ["before it begins", "as it begins", "behind its start"])
def test_an_interrupt_while_a_thread_is_started_loses_no_thread(
    when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It serves the pool or does nothing; the pool ends it in any case."""
    kind: type[threading.Thread] = DaemonThread if when == "behind its start" else threading.Thread
    start: Any = kind.start

    def interrupted(thread: threading.Thread) -> None:
        if when != "before it begins":
            start(thread)
        raise KeyboardInterrupt

    pool = ThreadPool[object]("interrupted", 1)
    with monkeypatch.context() as patched:
        patched.setattr(kind, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pool.submit(int)

    pool.submit(lambda: "1")
    assert pool.outcome(60) == "1"
    pool.end()
    pool.join()
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("interrupted")]


def test_a_thread_without_memory_for_its_beginning_begins_later() -> None:
    served = threading.Event()
    thread = DaemonThread(served.set, "starved")
    take_turn = thread._take_turn
    failures = iter([MemoryError(), MemoryError()])

    def starved() -> bool:
        for failure in failures:
            raise failure
        return take_turn()

    thread._take_turn = starved  # pyright: ignore[reportAttributeAccessIssue] - stands in for it

    thread.start()

    assert served.wait(60)
    thread.join()
