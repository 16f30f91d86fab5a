"""Emits, appends, flushes, cancellations, closed stores and a failing disk, in any order.

The model is the list of all events in the order in which they were taken. After each flush that
succeeds, and at the end, the log is read by another store with a sound disk: it holds every event
of the model once and in order. Only an append that failed may be there or not.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from attachstore.errors import AttachstoreError, LogPoisonedError, SessionMissingError
from attachstore.sessions import EmitPolicy, Session
from tests.faults import CHANGES, SYNCS, Effect, FailingDisk
from tests.sessions.opened import Opened, data_of
from tests.sessions.places import BornSealedPlace, JsonlPlace

R = TypeVar("R")
EFFECTS: list[Effect] = ["none", "half", "done"]


class EmitMachine(RuleBasedStateMachine):
    place_of: type[JsonlPlace] = JsonlPlace

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.place = self.place_of(self.directory)
        self.runner = asyncio.Runner()
        self.numbers = itertools.count()
        self.taken: list[tuple[int, bool]] = []
        """Each event's number, and whether it must be there."""
        self.disk = FailingDisk(methods=CHANGES | SYNCS)
        self.policy = EmitPolicy()
        self.opened = Opened(self.place, self.disk)
        self.session: Session

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        return self.runner.run(work)

    @initialize(
        delay_s=st.sampled_from([0.0, 0.001, 3600.0]),
        batch=st.integers(1, 4),
        size=st.integers(2, 9),
    )
    def create(self, delay_s: float, batch: int, size: int) -> None:
        self.policy = EmitPolicy(delay_s=delay_s, batch_events_max=batch, events_max=size)
        self.opened.sessions.emit_policy = self.policy
        self.session = self.run(self.opened.sessions.create("s-1"))

    # -- the disk --------------------------------------------------------------------------

    @rule(calls=st.integers(1, 9), effect=st.sampled_from(EFFECTS), sticky=st.booleans())
    def break_disk(self, calls: int, effect: Effect, sticky: bool) -> None:
        self.disk.effect, self.disk.sticky = effect, sticky
        self.disk.calls, self.disk.fail_at = 0, calls

    @rule()
    def heal_disk(self) -> None:
        self.disk.heal()

    # -- the runtime -----------------------------------------------------------------------

    @rule(count=st.integers(1, 6))
    def emit(self, count: int) -> None:
        async def emit() -> None:
            for _ in range(count):
                number = next(self.numbers)
                try:
                    # A full queue after a failure waits for a flush that nobody makes here.
                    await asyncio.wait_for(self.session.emit("message", number), 0.05)
                except TimeoutError:
                    return
                self.taken.append((number, True))

        try:
            self.run(emit())
        except LogPoisonedError:
            self.load()

    @rule()
    def append(self) -> None:
        number = next(self.numbers)
        try:
            self.run(self.session.append("message", number))
        except LogPoisonedError:
            self.load()
        except AttachstoreError:
            self.taken.append((number, False))
        else:
            self.taken.append((number, True))
            self.check()

    @rule()
    def flush(self) -> None:
        try:
            self.run(self.session.flush())
        except AttachstoreError:
            assert self.session.queued > 0
            assert self.session.failure is not None
        else:
            self.check()

    @rule(steps=st.integers(0, 4))
    def flush_and_cancel(self, steps: int) -> None:
        async def flush() -> None:
            flushing = asyncio.ensure_future(self.session.flush())
            for _ in range(steps):
                await asyncio.sleep(0)
            flushing.cancel()
            await asyncio.gather(flushing, return_exceptions=True)

        self.run(flush())

    @rule()
    def wait(self) -> None:
        self.run(asyncio.sleep(0.004))

    @rule()
    def load_with_events(self) -> None:
        """No precondition: whether events wait is a matter of time, not of the rules before."""
        if not self.session.queued:
            return
        assert self.run(self.opened.sessions.load("s-1")) is self.session

    @rule()
    def close_the_session(self) -> None:
        """And load it again; what could not be written goes in as it was."""
        closed = self.session
        try:
            self.run(closed.close())
        except AttachstoreError:
            pass
        else:
            assert closed.queued == 0
        self.load()
        try:
            self.run(closed.flush())
        except AttachstoreError:  # this store must not be used any more
            self.start_anew(closed)

    @rule()
    def close_the_store(self) -> None:
        closed = self.session
        assert not self.close_opened() or closed.queued == 0
        self.opened = Opened(self.place, self.disk, self.policy)
        self.load()
        if closed.queued:
            self.run(self.session.adopt(closed))

    # -- what must hold --------------------------------------------------------------------

    def load(self) -> None:
        """With a disk that works; its failures are what the other rules are about."""
        self.disk.heal()
        try:
            self.session = self.run(self.opened.sessions.load("s-1", close_turn=False))
        except SessionMissingError:
            self.session = self.run(self.opened.sessions.create("s-1"))
        except AttachstoreError:  # this store saw a sync fail whose name may not be durable
            self.start_anew(self.session)

    def start_anew(self, closed: Session) -> None:
        self.close_opened()
        self.opened = Opened(self.place, self.disk, self.policy)
        self.load()
        if closed.queued:
            self.run(self.session.adopt(closed))

    def close_opened(self) -> bool:
        try:
            self.run(self.opened.close())
        except AttachstoreError:
            return False
        return True

    def check(self) -> None:
        assert self.session.queued == 0

        async def read() -> list[int]:
            sound = Opened(self.place)
            try:
                return await data_of(sound.sessions, "s-1")
            except SessionMissingError:
                return []
            finally:
                await sound.close()

        found = self.run(read())
        must = [number for number, certain in self.taken if certain]
        may = {number for number, certain in self.taken if not certain}
        assert [number for number in found if number not in may] == must
        assert found == sorted(set(found)), "an event is there twice, or out of order"
        self.taken = [(number, True) for number in found]  # what failed appends left is decided

    def teardown(self) -> None:
        try:
            if hasattr(self, "session"):
                self.disk.heal()
                self.close_the_store()
                self.run(self.session.flush())
                self.check()
            self.run(self.opened.close())
        finally:
            self.runner.close()
            shutil.rmtree(self.directory)


class SealedEmitMachine(EmitMachine):
    """The same with a log that is sealed from its first event on, and stays so."""

    place_of = BornSealedPlace


TestEmitMachine = EmitMachine.TestCase
TestSealedEmitMachine = SealedEmitMachine.TestCase
TestSealedEmitMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestEmitMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
