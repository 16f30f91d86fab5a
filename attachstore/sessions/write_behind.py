"""WriteBehind: events that were emitted, on their way into one session's log.

    IDLE ───emit───▶ ARMED ───deadline, queue full───▶ WRITING ───all due are written───▶ IDLE
                       ▲                                  │   └───newer ones wait───▶ ARMED
                       └──flush, append, close succeed── PAUSED ◀──failure──┘
    any ──seal──▶ the same, taking no more events

Invariants

 (1) The queue holds, in the order of their admission, exactly the events that were admitted and
     are not acknowledged. An event leaves it only when it is known to be durable in the log.
 (2) One write at a time, always from the head of the queue: who writes holds `_order`, which is
     handed on in the order in which it was asked for.
 (3) A batch that failed stays at the head, the same events and no others (`_attempt`), until
     each of them is known to be in the log (attempt.py).
 (4) The deadline is set by the first event that has none before it; later ones do not move it.
 (5) While there is a failure no deadline is set and nothing is written unasked. Only a caller
     who waits for the outcome, and is told of it, tries again.
 (6) The queue is within `events_max` and `bytes_max`, except that one event of any size fits
     into an empty one. Who finds no room waits; whoever came first is served first.
 (7) An emit that raises or is cancelled has admitted nothing; one that returned is in the queue.

Locks are taken and released by plain calls: between the making of an `__aexit__` and its first step
an interrupt can come, which would leave an `async with` entered for ever.

All of it runs in the event loop, where nothing happens between two awaits; only `write` runs in
a thread, and the attempt itself keeps what came of it, so that a cancellation loses no outcome.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from attachstore.arguments import check_int, check_seconds, wrong_type
from attachstore.sessions.attempt import Attempt
from attachstore.sessions.draft import Draft
from attachstore.threads import CancelFlag, Worker

_logger = logging.getLogger("attachstore")
_TURN_EVENTS = 256  # then others get a turn: about 2 ms of emitting


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitPolicy:
    """How events that are emitted wait for the disk."""

    delay_s: float = 0.05
    """From the first event that waits to the write: at most so much is lost with the process."""
    events_max: int = 10_000
    bytes_max: int = 32 << 20
    """What may wait, per session. An `emit` that finds no room waits itself."""
    batch_events_max: int = 2_000
    batch_bytes_max: int = 8 << 20
    """What one write takes; one event of any size is always taken."""
    on_failure: Callable[[str, BaseException], None] | None = None
    """Told, with the session's id, of each failed write that nobody waits for.

    Called in the event loop: it must not block, and what it raises is logged and forgotten.
    """

    def __post_init__(self) -> None:
        for name in ("events_max", "bytes_max", "batch_events_max", "batch_bytes_max"):
            check_int(name, getattr(self, name), 1)
        check_seconds("delay_s", self.delay_s)
        if self.on_failure is not None and not callable(self.on_failure):
            raise wrong_type("on_failure", self.on_failure, "a function or None")


class WriteBehind:
    """The queue of one session. `write` gets an attempt into the log; it runs in a thread.

    `on_queue` is called when the queue gets its first event (True) and when it is empty again.
    """

    def __init__(
        self,
        session_id: str,
        write: Callable[[Attempt], None],
        *,
        worker: Worker,
        policy: EmitPolicy,
        on_queue: Callable[[bool], None],
    ) -> None:
        self.failure: BaseException | None = None
        self._id = session_id
        self._write = write
        self._worker = worker
        self._policy = policy
        self._on_queue = on_queue
        self._order = asyncio.Lock()
        self.end_turn = self._order.release  # no function of ours: an interrupt could come in it
        self._gate = asyncio.Lock()  # of admission
        self._at_gate = 0  # who is admitted before whoever comes now
        self._turn_at = _TURN_EVENTS
        self._room = asyncio.Event()
        self._queue: deque[Draft] = deque()
        self._queue_bytes = 0
        self._attempt: Attempt | None = None
        # Events are counted from the first ever admitted: a count names a place in the stream.
        self._admitted = 0
        self._began = 0  # where the first event of the attempt is
        self._due = 0  # up to here the writer may write unasked
        self._deadline: asyncio.TimerHandle | None = None
        self._writer: asyncio.Task[None] | None = None
        self._sealed = False

    @property
    def queued(self) -> int:
        """Events that were admitted and are not known to be durable."""
        return len(self._queue)

    @property
    def mark(self) -> int:
        """What was admitted so far, for `is_written`."""
        return self._admitted

    def is_written(self, mark: int) -> bool:
        """Whether all that had been admitted at the mark has left the queue."""
        return self._written >= mark

    # -- what a session does -------------------------------------------------------------------

    def admit_now(self, draft: Draft) -> bool:
        """Queue an event if there is nothing to wait for, as it is with nearly all of them."""
        must_wait = (
            self._at_gate
            or draft.references
            or self._sealed
            or self._admitted >= self._turn_at
            or not self._has_room(draft.size_bytes)
        )
        if not must_wait:
            self._take(draft)
        return not must_wait

    async def admit(self, draft: Draft, confirm: Callable[[CancelFlag, Draft], None]) -> None:
        """Queue an event; wait while there is no room. `confirm` its references, in a thread.

        Raises what `confirm` raises, and ValueError once the queue is sealed.
        """
        self._at_gate += 1
        try:
            await self._gate.acquire()
            try:
                if draft.references:
                    await self._worker.run(confirm, draft)
                if self._admitted >= self._turn_at:
                    # Who emits without end would let nobody else run, nor the deadline be kept.
                    self._turn_at = self._admitted + _TURN_EVENTS
                    await asyncio.sleep(0)
                while not self._sealed and not self._has_room(draft.size_bytes):
                    self._hurry()
                    self._room.clear()
                    await self._room.wait()
                if self._sealed:
                    raise _closed(self._id)
                self._take(draft)
            finally:
                self._gate.release()
        finally:
            self._at_gate -= 1

    async def begin_turn(self) -> None:
        """The right to write to the log, once everything admitted before the call is in it.

        Whoever gets it ends it (`end_turn`). Retries a batch that failed. Raises what the log
        raises; what could not be written stays.
        """
        mark = self._admitted
        await self._order.acquire()
        try:
            while self._written < mark:
                await self._write_batch(mark)
        except BaseException:
            self._order.release()
            raise

    async def drain(self) -> None:
        """Write all that was admitted before, and what is admitted while this goes on.

        Where others never cease to emit it ends all the same: it takes two turns, of which the
        second takes what came during the first.
        """
        for _ in range(2):
            await self.begin_turn()
            self.end_turn()
            if not self._queue:
                return

    def seal(self) -> None:
        """Take no more events; whoever waits for room is refused."""
        self._sealed = True
        self._room.set()

    async def close(self, release: Callable[[], Awaitable[None]]) -> None:
        """Seal, write all that is queued, then `release` the log, whatever came of it."""
        self.seal()
        await self._order.acquire()
        try:
            try:
                while self._queue:
                    await self._write_batch(self._admitted)
            finally:
                await release()
        finally:
            self._order.release()

    async def adopt(self, other: WriteBehind) -> None:
        """Take over what another queue of the same session, sealed, could not write.

        With the batch that failed, so that what of it did reach the log is not written again.
        """
        self._check_adopts(other)  # one of two that adopt each other is not sealed: none waits
        await self._order.acquire()
        try:
            await other._order.acquire()
            try:
                self._check_adopts(other, waiting=len(self._queue))
                self._attempt, other._attempt = other._attempt, None
                self._began = self._written - (self._attempt.landed if self._attempt else 0)
                count = len(other._queue)
                if count:
                    self._queue.extend(other._queue)
                    self._queue_bytes += other._queue_bytes
                    self._admitted += count
                    other._leave_to(other._admitted)
                    self._on_queue(True)
                    self._arm()
            finally:
                other._order.release()
        finally:
            self._order.release()

    def _check_adopts(self, other: WriteBehind, *, waiting: int = 0) -> None:
        """Sealed queues stay sealed."""
        if waiting or self._sealed or not other._sealed or self._id != other._id:
            message = "only a session without waiting events adopts those of a closed one"
            raise ValueError(message)

    async def forget(self) -> None:
        """Give up what is queued, after the write that runs now. For a log that is deleted."""
        self.seal()
        await self._order.acquire()
        try:
            self._attempt = self.failure = None
            self._leave_to(self._admitted)
        finally:
            self._order.release()

    # -- the clock -----------------------------------------------------------------------------

    def _arm(self) -> None:
        if self._deadline is None:
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(self._policy.delay_s, self._hurry)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _hurry(self) -> None:
        """What is queued now is due."""
        self._disarm()
        if self.failure is not None or not self._queue:
            return
        self._due = self._admitted
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write_due())

    # -- writing -------------------------------------------------------------------------------

    async def _write_due(self) -> None:
        try:
            # `due` is read before the turn is asked for: an append that is called meanwhile must
            # find the events emitted after it behind it.
            while self._written < (due := self._due):
                await self._order.acquire()
                try:
                    if self._written < due and self.failure is None:
                        await self._write_batch(due)
                finally:
                    self._order.release()
        except asyncio.CancelledError:  # the loop ends
            raise
        except BaseException as error:  # noqa: BLE001 - reported; flush will meet it again
            self._report(error)
        finally:
            self._writer = None

    async def _write_batch(self, mark: int) -> None:
        """Write one batch, or that which failed. The caller holds `_order`."""
        attempt = self._attempt
        if attempt is None:
            attempt, self._began = Attempt(self._batch(mark)), self._written
            self._attempt = attempt

        def write() -> None:
            try:
                self._write(attempt)
            except BaseException as error:
                attempt.failure = error  # the caller may have been cancelled
                raise

        attempt.failure = None
        try:
            await self._worker.finish(write)
        except Exception as error:
            attempt.failure = error
            raise
        finally:
            self._settle(attempt)

    def _settle(self, attempt: Attempt) -> None:
        """Take over what came of the attempt, whatever became of the caller.

        An interrupt may come between any two steps, so each may be made again.
        """
        landed_to = self._began + attempt.landed
        self.failure = attempt.failure
        if self.failure is not None:
            self._due = 0
            self._disarm()
            _logger.warning(
                "session %r: %d events wait, a write failed: %s",
                self._id,
                self._admitted - landed_to,
                self.failure,
            )
        self._leave_to(landed_to)
        if not attempt.drafts:
            self._attempt = None
        if self._queue and self.failure is None and self._due <= self._written:
            self._arm()  # those who were admitted while there was a failure

    def _take(self, draft: Draft) -> None:
        self._queue.append(draft)
        self._queue_bytes += draft.size_bytes
        self._admitted += 1
        if len(self._queue) == 1:
            self._on_queue(True)
        if self._deadline is None and self.failure is None:
            self._arm()

    @property
    def _written(self) -> int:
        """Events that have left the queue, which alone changes in one step."""
        return self._admitted - len(self._queue)

    def _leave_to(self, mark: int) -> None:
        """Let go of the events before `mark`."""
        some = self._written < mark
        while self._written < mark:
            self._queue_bytes -= self._queue.popleft().size_bytes
        if not self._queue:
            self._queue_bytes = 0
            self._disarm()
            if some:
                self._on_queue(False)
        self._room.set()

    def _batch(self, mark: int) -> list[Draft]:
        policy = self._policy
        batch: list[Draft] = []
        size_bytes = 0
        count_max = min(mark - self._written, policy.batch_events_max)
        for draft in itertools.islice(self._queue, count_max):
            size_bytes += draft.size_bytes
            if batch and size_bytes > policy.batch_bytes_max:
                break
            batch.append(draft)
        return batch

    def _has_room(self, size_bytes: int) -> bool:
        return not self._queue or (
            len(self._queue) < self._policy.events_max
            and self._queue_bytes + size_bytes <= self._policy.bytes_max
        )

    def _report(self, error: BaseException) -> None:
        if self._policy.on_failure is None:
            return
        try:
            self._policy.on_failure(self._id, error)
        except Exception:
            _logger.exception("session %r: on_failure failed", self._id)


def _closed(session_id: str) -> ValueError:
    return ValueError(f"session {session_id!r} is closed")
