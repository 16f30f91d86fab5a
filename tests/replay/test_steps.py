"""Replay: every reference of every event, each with what became of it."""

import dataclasses
from collections.abc import Generator
from itertools import chain
from typing import Any

import pytest

from attachstore.errors import (
    HeaderMismatchError,
    LogDamagedError,
    ObjectCorruptError,
    ObjectMissingError,
    SequenceConflictError,
    SessionMissingError,
    StorageIOError,
)
from attachstore.objects.memory import MemoryBackend
from attachstore.objects.store import ObjectStore
from attachstore.reference import Reference
from attachstore.replay import Outcome, Step, replay, steps, strict
from attachstore.sessions import MemoryMedium, SessionLogs
from attachstore.threads import CancelFlag, Cancelled
from tests.replay.pictures import photo
from tests.replay.samples import SampleSession


class CountingStore(ObjectStore):
    """Counts verifications, and fails those it is told to."""

    def __init__(self, backend: MemoryBackend) -> None:
        super().__init__(backend)
        self.verified: list[Reference] = []
        self.failing = False

    def stream(self, wanted: Any, cancel: CancelFlag | None = None) -> Any:
        self.verified.append(wanted)
        if self.failing:
            raise StorageIOError(where="object", reason="EIO")
        return super().stream(wanted, cancel)


@pytest.fixture
def sample() -> SampleSession:
    return SampleSession()


@pytest.fixture
def objects(sample: SampleSession) -> CountingStore:
    return CountingStore(sample.backend)


@pytest.fixture
def logs(objects: CountingStore) -> SessionLogs:
    return SessionLogs(MemoryMedium(), objects.confirm)


def replayed(logs: SessionLogs, objects: ObjectStore, **options: Any) -> list[Step]:
    return list(chain.from_iterable(replay(logs, objects, "s-1", **options)))


def test_each_reference_of_an_event_is_resolved_in_order(
    sample: SampleSession, logs: SessionLogs, objects: CountingStore
) -> None:
    """At any depth; the pointer says where."""
    first = sample.commit(b"one", "text/plain", name="1.txt")
    second = sample.commit(b"two", "text/plain")
    data = {"a/b": [first, {"~": second}], "plain": "text", "again": first}
    logs.create("s-1").append("message", data)

    (step,) = replayed(logs, objects)

    assert step.event.data == data
    assert [(it.pointer, it.reference) for it in step.attachments] == [
        ("/a~1b/0", first),
        ("/a~1b/1/~0", second),
        ("/again", first),
    ]
    assert {it.outcome for it in step.attachments} == {Outcome.OK}
    assert step.error is None


def test_each_kind_of_trouble_is_an_outcome_with_its_error(
    sample: SampleSession, logs: SessionLogs, objects: CountingStore
) -> None:
    """Lenient by nature: what is wrong with one attachment hides no other."""
    fine, gone, torn = (sample.commit(it.encode(), "text/plain", name=it) for it in "abc")
    edited = sample.picture(photo(64, 48), "png", "edited.png")
    session = logs.create("s-1")
    session.append("message", [fine, gone, torn])
    del sample.backend.objects[gone.digest]
    sample.backend.objects[torn.digest] = b"other"
    wrong = dataclasses.replace(edited, width=65)
    resolver = steps.Resolver(objects)

    (step,) = replayed(logs, objects)
    found = [*(it.outcome for it in step.attachments), resolver.resolve(wrong)[0]]

    assert found == [Outcome.OK, Outcome.MISSING, Outcome.CORRUPT, Outcome.HEADER_MISMATCH]
    assert isinstance(step.attachments[1].error, ObjectMissingError)
    assert isinstance(step.attachments[2].error, ObjectCorruptError)
    assert isinstance(resolver.resolve(wrong)[1], HeaderMismatchError)
    assert step.error is step.attachments[1].error


def test_a_distinct_reference_is_verified_once(
    sample: SampleSession, logs: SessionLogs, objects: CountingStore
) -> None:
    """A session refers to one screenshot in every turn; names make no difference to the bytes."""
    reference = sample.commit(b"one", "text/plain")
    session = logs.create("s-1")
    for number in range(5):
        session.append("message", {"file": dataclasses.replace(reference, name=f"{number}.txt")})
    objects.verified.clear()

    assert len(replayed(logs, objects)) == 5

    assert len(objects.verified) == 1


def test_remembered_outcomes_are_bounded(
    sample: SampleSession, objects: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one not asked for longest goes first."""
    monkeypatch.setattr(steps, "REMEMBERED_MAX", 2)
    one, two, three = (sample.commit(it.encode(), "text/plain") for it in "123")
    resolver = steps.Resolver(objects)

    for reference in (one, two, one, three, one, two):
        resolver.resolve(reference)

    assert objects.verified == [one, two, three, two]


def test_what_was_unreadable_is_tried_again(sample: SampleSession, objects: CountingStore) -> None:
    """A network disk comes back; corrupt bytes do not heal themselves."""
    reference = sample.commit(b"one", "text/plain")
    resolver = steps.Resolver(objects)
    objects.failing = True
    assert resolver.resolve(reference)[0] is Outcome.UNREADABLE

    objects.failing = False

    assert resolver.resolve(reference) == (Outcome.OK, None)


@pytest.mark.parametrize(("at", "expected"), [(0, []), (1, [1]), (2, [1, 2]), (3, [1, 2, 3])])
def test_at_is_the_last_event(
    logs: SessionLogs, objects: CountingStore, at: int, expected: list[int]
) -> None:
    session = logs.create("s-1")
    for _ in range(3):
        session.append("message", {})

    assert [step.event.seq for step in replayed(logs, objects, at=at)] == expected


def test_an_at_beyond_the_head_is_told_with_the_head(
    logs: SessionLogs, objects: CountingStore
) -> None:
    """Whoever asks for event 9 of 3 has another session in mind, or a log that lost its end."""
    session = logs.create("s-1")
    for _ in range(3):
        session.append("message", {})
    seen: list[int] = []

    with pytest.raises(SequenceConflictError) as caught:
        seen.extend(run[-1].event.seq for run in replay(logs, objects, "s-1", at=9))

    assert (caught.value.expected_seq, caught.value.head_seq) == (9, 3)


def test_a_negative_at_is_a_wrong_call(logs: SessionLogs, objects: CountingStore) -> None:
    with pytest.raises(ValueError, match="at must be"):
        replay(logs, objects, "s-1", at=-1)


def test_strict_yields_the_failing_step_and_then_raises_its_error(
    sample: SampleSession, logs: SessionLogs, objects: CountingStore
) -> None:
    """Whoever stops at the error has seen which event it belongs to."""
    fine, gone = (sample.commit(it.encode(), "text/plain") for it in "ab")
    session = logs.create("s-1")
    for data in (fine, gone, fine):
        session.append("message", data)
    del sample.backend.objects[gone.digest]
    seen: list[int] = []

    with pytest.raises(ObjectMissingError):
        seen.extend(
            step.event.seq for step in chain.from_iterable(strict(replay(logs, objects, "s-1")))
        )
    fine_ones = replayed(logs, objects)[:1]

    assert list(strict(one_run(fine_ones))) == [fine_ones]
    assert seen == [1, 2]


def test_a_step_with_attachments_is_seen_before_the_next_ones_are_read(
    sample: SampleSession, logs: SessionLogs, objects: CountingStore
) -> None:
    """They may be large: whoever stops at the first does not wait for the others."""
    photos = [sample.commit(it.encode(), "text/plain") for it in "ab"]
    session = logs.create("s-1")
    session.append_many([("message", data) for data in ("one", photos[0], "three", photos[1], 5)])
    runs = replay(logs, objects, "s-1")

    assert [step.event.data for step in next(runs)] == ["one"]
    assert objects.verified == []
    assert [step.event.data for step in next(runs)] == [photos[0]]
    assert objects.verified == [photos[0]]
    assert [[step.event.seq for step in run] for run in runs] == [[3], [4], [5]]


def one_run(steps: list[Step]) -> Generator[list[Step]]:
    yield steps


class DamagedLogs(SessionLogs):
    """Three good events, then damage, then one more that parses."""

    def runs(self, session_id: str, **options: Any) -> Any:
        good = SampleSession()
        yield [good.append("message", {}) for _ in range(3)]
        if options["damaged"] == "raise":
            raise LogDamagedError(
                where="log", session=session_id, line=5, offset_bytes=900, reason="?", head_seq=3
            )
        if options["damaged"] == "resync":
            good.append("message", {})
            yield [good.append("message", {}, verified=False)]


@pytest.mark.parametrize(("damaged", "expected"), [("stop", [1, 2, 3]), ("resync", [1, 2, 3, 5])])
def test_damage_can_be_passed_over(objects: CountingStore, damaged: Any, expected: Any) -> None:
    logs = DamagedLogs(MemoryMedium(), objects.confirm)

    assert [it.event.seq for it in replayed(logs, objects, damaged=damaged)] == expected


def test_damage_raises_after_the_events_before_it(objects: CountingStore) -> None:
    logs = DamagedLogs(MemoryMedium(), objects.confirm)
    seen: list[int] = []

    with pytest.raises(LogDamagedError):
        seen.extend(step.event.seq for step in chain.from_iterable(replay(logs, objects, "s-1")))
    again = chain.from_iterable(replay(logs, objects, "s-1"))
    failure = steps.drain(again, lambda step: seen.append(step.event.seq))

    assert isinstance(failure, LogDamagedError)
    assert seen == [1, 2, 3] * 2


def test_damage_after_the_last_wanted_event_is_not_looked_at(objects: CountingStore) -> None:
    """The session as it was then is whole, whatever happened to the log later."""
    logs = DamagedLogs(MemoryMedium(), objects.confirm)

    assert [it.event.seq for it in replayed(logs, objects, at=3)] == [1, 2, 3]


def test_a_cancelled_caller_stops_it(
    sample: SampleSession, logs: SessionLogs, objects: CountingStore
) -> None:
    logs.create("s-1").append("message", sample.commit(b"one", "text/plain"))
    cancel = CancelFlag()
    cancel.set()

    with pytest.raises(Cancelled):
        replayed(logs, objects, cancel=cancel)


def test_a_session_that_is_not_there_is_named(logs: SessionLogs, objects: CountingStore) -> None:
    with pytest.raises(SessionMissingError, match="s-1"):
        replayed(logs, objects)
