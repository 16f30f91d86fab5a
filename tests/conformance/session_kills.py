"""A process that is killed between any two calls to its medium, on any medium.

What dies with it: its claims, and everything it did not ask the medium for. What it was told is
done must be there, and what else is there is the beginning of what it attempted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import pytest

from attachstore.errors import SessionMissingError
from attachstore.sessions import SessionLogs, SessionMedium
from attachstore.sessions.medium import Claim, LogReader, LogWriter
from attachstore.sessions.names import SessionName
from tests.conformance.session_place import Place, confirm, content_of


class Died(BaseException):
    """Not an error that anybody handles."""


class Life:
    """Ends at the `last` call, before or after it took effect."""

    def __init__(self, last: int, *, after: bool) -> None:
        self.calls = 0
        self.ended = False
        self._last = last
        self._after = after
        self._held: list[Claim] = []
        self._opened: list[LogReader] = []

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if self.ended:
            raise Died
        self.calls += 1
        if self.calls == self._last and not self._after:
            self.ended = True
            raise Died
        result = function(*arguments)
        if hasattr(result, "release"):
            self._held.append(result)
        elif hasattr(result, "settle"):
            self._opened.append(result)
            result = MortalLog(result, self)
        if self.calls == self._last:
            self.ended = True
            raise Died
        return result

    def bury(self) -> None:
        """What the operating system does: locks go with their process."""
        for claim in self._held:
            claim.release()

    def tidy(self) -> None:
        for log in self._opened:
            log.close()


class MortalLog:
    """A reader or writer."""

    def __init__(self, log: Any, life: Life) -> None:
        self._log = log
        self._life = life

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def size(self) -> int:
        return self._life.call(self._log.size)

    def read(self, offset_bytes: int, size_bytes: int) -> bytes:
        return self._log.read(offset_bytes, size_bytes)

    def settle(self) -> int:
        return self._life.call(self._log.settle)

    def append(self, data: bytes, offset_bytes: int) -> None:
        self._life.call(self._log.append, data, offset_bytes)

    def cut(self, offset_bytes: int) -> str:
        return self._life.call(self._log.cut, offset_bytes)

    def close(self) -> None:
        with contextlib.suppress(Died):  # the dead close nothing
            self._life.call(self._log.close)


class MortalMedium:
    """A medium as the process sees it."""

    def __init__(self, medium: SessionMedium, life: Life) -> None:
        self._medium = medium
        self._life = life

    @property
    def location(self) -> str:
        return self._medium.location

    def where(self, name: SessionName) -> str:
        return self._medium.where(name)

    def claim(self, name: SessionName) -> Claim:
        return self._life.call(self._medium.claim, name)

    def add(self, name: SessionName, content: Iterable[bytes]) -> LogWriter:
        return self._life.call(self._medium.add, name, content)

    def open(self, name: SessionName) -> LogReader:
        return self._life.call(self._medium.open, name)

    def open_writer(self, name: SessionName) -> LogWriter:
        return self._life.call(self._medium.open_writer, name)

    def exists(self, name: SessionName) -> bool:
        return self._life.call(self._medium.exists, name)

    def names(self) -> Iterator[SessionName]:
        return self._medium.names()

    def cuts(self, name: SessionName) -> int:
        return self._medium.cuts(name)

    def strays(self) -> Iterator[str]:
        return self._medium.strays()

    def delete(self, name: SessionName) -> None:
        self._life.call(self._medium.delete, name)

    def close(self) -> None:
        self._medium.close()


class SessionKillConformance:
    """Give a `place` fixture to run it."""

    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    def test_a_kill_at_any_moment_costs_nothing_acknowledged(
        self, place: Place, after: bool
    ) -> None:
        """While a session is made, appended to, loaded, closed and forked."""
        attempts = [0, 1, 2, {"reason": "interrupted"}, 3, 4]

        def work(logs: SessionLogs, name: str, tell: Callable[[str, int], None]) -> None:
            log = logs.create(name)
            log.append("turn/start", 0)
            tell(name, 1)
            log.append_many([("message", 1), ("message", 2)])
            tell(name, 3)
            log.close()
            log = logs.load(name)
            tell(name, 4)
            log.append("message", 3)
            tell(name, 5)
            child = logs.fork(name, id=f"{name}-child")
            tell(child.id, 5)
            child.append("message", 4)
            tell(child.id, 6)

        calls = self._lives(place, work, attempts, after=after)
        assert calls > 15

    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    def test_a_kill_while_a_tail_is_cut_keeps_events_and_tail(
        self, place: Place, after: bool
    ) -> None:
        tail = b'{"seq":3,"never finished'

        def work(logs: SessionLogs, name: str, tell: Callable[[str, int], None]) -> None:
            if not logs.medium.exists(SessionName.of(name)):
                whole = SessionLogs(place.medium(), confirm)
                log = whole.create(name)
                log.append_many([("message", 0), ("message", 1)])
                log.close()
                place.write(name, place.read(name) + tail)
            log = logs.load(name)
            tell(name, 2)
            log.append("message", 2)
            tell(name, 3)

        calls = self._lives(place, work, [0, 1, 2], after=after)
        assert calls > 5
        for number in range(1, calls - 1):
            kept = place.torn(f"s-{number}")
            assert tail in kept or not kept

    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    def test_a_kill_while_a_session_is_deleted_leaves_it_whole_or_gone(
        self, place: Place, after: bool
    ) -> None:
        def work(logs: SessionLogs, name: str, tell: Callable[[str, int], None]) -> None:
            log = logs.create(name)
            log.append_many([("message", 0), ("message", 1)])
            log.close()
            tell(name, 2)
            tell(name, 0)
            logs.delete(name)

        self._lives(place, work, [0, 1], after=after)

    def _lives(
        self,
        place: Place,
        work: Callable[[SessionLogs, str, Callable[[str, int], None]], None],
        attempts: list[Any],
        *,
        after: bool,
    ) -> int:
        """Let the work die at its first call, its second, and so on; return how many it has."""
        for last in range(1, 200):
            medium, life = place.medium(), Life(last, after=after)
            told: dict[str, int] = {}
            with contextlib.suppress(Died):
                work(
                    SessionLogs(MortalMedium(medium, life), confirm), f"s-{last}", told.__setitem__
                )
            life.bury()
            for name in (f"s-{last}", f"s-{last}-child"):
                self._check(place, name, told.get(name, 0), attempts)
            life.tidy()
            medium.close()
            if not life.ended:
                return life.calls
        raise AssertionError("the work has no end")

    def _check(self, place: Place, name: str, told: int, attempts: list[Any]) -> None:
        logs = SessionLogs(place.medium(), confirm)
        try:
            log = logs.load(name, close_turn=False)
        except SessionMissingError:
            assert not told
            assert logs.create(name).append("message", "free").seq == 1
            return
        content = content_of(logs, name)
        assert content == attempts[: len(content)]
        assert len(content) >= told
        assert log.head == len(content)
        log.append("message", "on")
        log.close()
        assert content_of(logs, name) == [*content, "on"]
        logs.close()
