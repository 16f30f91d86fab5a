"""Pace: a limit on what is read, told by a clock that the test moves."""

from __future__ import annotations

import threading

import pytest

from attachstore.integrity.pace import SLICE_S, Pace
from attachstore.threads import CancelFlag, Cancelled
from tests.integrity.workshop import in_memory


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        self.slept.append(duration_s)
        self.now_s += duration_s


def nobody() -> None:
    """Nobody gives up."""


def test_what_is_read_takes_as_long_as_the_rate_says() -> None:
    clock = Clock()
    pace = Pace(1000, clock=clock, sleep=clock.sleep)

    for _ in range(5):
        pace.spend(200, nobody)

    assert clock.now_s == pytest.approx(1.0)
    assert max(clock.slept) <= SLICE_S


def test_time_that_went_by_otherwise_is_not_saved_up() -> None:
    """After a minute of reading logs a scan does not read a minute's worth at once."""
    clock = Clock()
    pace = Pace(1000, clock=clock, sleep=clock.sleep)
    pace.spend(100, nobody)

    clock.now_s += 60
    before = clock.now_s
    pace.spend(500, nobody)

    assert clock.now_s - before == pytest.approx(0.5)


def test_threads_share_one_rate() -> None:
    """Each waits for all that was read before it, whoever read it."""
    waits: list[float] = []
    guard = threading.Lock()

    def sleep(duration_s: float) -> None:
        with guard:
            waits.append(duration_s)
        raise Cancelled  # the first sleep tells how long it would have been

    pace = Pace(1.0, clock=lambda: 0.0, sleep=sleep)
    for expected in range(1, 4):
        with pytest.raises(Cancelled):
            pace.spend(1, nobody)
        assert pace._paid_until_s == expected  # pyright: ignore[reportPrivateUsage]


def test_whoever_gives_up_does_not_wait_to_the_end() -> None:
    clock, flag = Clock(), CancelFlag()

    def sleep(duration_s: float) -> None:
        clock.sleep(duration_s)
        if clock.now_s > 1:
            flag.set()

    with pytest.raises(Cancelled):
        Pace(1, clock=clock, sleep=sleep).spend(1000, flag.check)

    assert clock.now_s < 2


def test_without_a_rate_nobody_asks_the_clock() -> None:
    def refuse() -> float:
        raise AssertionError

    Pace(None, clock=refuse).spend(1 << 40, nobody)


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf")])
def test_a_rate_is_a_number_above_0(rate: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        Pace(rate)
    with pytest.raises(ValueError, match="above 0"):
        in_memory().scan(rate_bytes_s=rate)


def test_a_scan_pays_for_objects_and_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    spent: list[int] = []

    def spend(pace: Pace, size_bytes: int, check: object) -> None:
        del pace, check
        spent.append(size_bytes)

    monkeypatch.setattr(Pace, "spend", spend)
    shop = in_memory()
    shop.log("s-1", shop.put(b"words"))

    report = shop.scan(rate_bytes_s=1000)

    assert report.clean
    assert report.bytes_read == 5
    log_bytes = sum(len(log) for log in shop.medium.logs.values())  # type: ignore[attr-defined] - in memory
    assert sum(spent) >= 5 + log_bytes
