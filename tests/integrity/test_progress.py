"""Progress: figures a terminal can show, and not too many of them."""

from attachstore.integrity.progress import INTERVAL_S, Meter, Phase, Progress


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_progress_is_reported_at_most_once_per_interval_and_at_each_phase() -> None:
    clock, seen = Clock(), list[Progress]()
    meter = Meter(seen.append, clock)
    meter.enter(Phase.OBJECTS)
    for _ in range(100):
        clock.now_s += INTERVAL_S / 10
        meter.tick()

    assert 10 <= len(seen) <= 11


def test_rate_and_eta_count_from_the_beginning_of_reading() -> None:
    """Time spent on listing and on logs says nothing about how long the objects will take."""
    clock, seen = Clock(), list[Progress]()
    meter = Meter(seen.append, clock)
    clock.now_s += 50
    meter.objects_total, meter.bytes_total = 10, 1000
    meter.enter(Phase.OBJECTS)
    clock.now_s += 2
    meter.bytes_done = 250
    meter.report()

    assert seen[-1].rate_bytes_s == 125
    assert seen[-1].eta_s == 6
    assert seen[-1].elapsed_s == 52
    assert seen[0].eta_s is None


def test_without_a_listener_nothing_is_asked_of_the_clock() -> None:
    meter = Meter(None, Clock())
    meter.tick()
    meter.report()
