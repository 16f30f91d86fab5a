"""JoinedAppends: appends to one session that are called close together share a write and a sync.

    call ──▶ waits for its turn ──▶ has it: takes along who waits behind ──▶ one batch, one sync
                    └── was taken along: its outcome is there when its turn comes

Invariants

 (1) Events come into the log in the order of the calls, those of one call one behind the other.
 (2) Nobody is taken along who said where the head has to be, or before whom something was
     emitted that is not written yet.
 (3) The thread that writes keeps each outcome with its call, so a caller who is cancelled costs
     nobody else his. Who is cancelled before he was taken along has written nothing.
 (4) What is wrong with one call is not the others' fault: a batch that is refused is written
     call by call. After a failed write the first is told why, the others that the log is poisoned.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from attachstore.sessions.draft import Draft
from attachstore.sessions.event import Event
from attachstore.sessions.write_behind import WriteBehind
from attachstore.threads import CancelFlag, Worker, for_callers

BATCH_BYTES_MAX = 8 << 20
"""Of events taken along; one call of any size is always written."""

Write = Callable[[CancelFlag, Sequence[Draft], int | None], list[Event]]
"""Into the log, durably; blocks."""


@dataclass(slots=True, eq=False)
class _Call:
    drafts: Sequence[Draft]
    after: int | None
    mark: int
    """What had been emitted when it was made."""
    batch: list[Event] | None = None
    """What was written, of which `place`, or all, is this call's."""
    place: slice | None = None
    error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        return self.batch is not None or self.error is not None

    @property
    def size_bytes(self) -> int:
        return sum(draft.size_bytes for draft in self.drafts)

    def outcome(self) -> list[Event]:
        if self.error is not None:
            raise for_callers(self.error)
        return (self.batch or [])[self.place or slice(None)]


class JoinedAppends:
    """The appends of one session; all but `_write_all` runs in the event loop."""

    def __init__(
        self,
        queue: WriteBehind,
        worker: Worker,
        write: Write,
        is_poisoned: Callable[[], bool],
    ) -> None:
        self._queue = queue
        self._worker = worker
        self._write = write
        self._is_poisoned = is_poisoned
        self._waiting: deque[_Call] = deque()

    async def append(self, drafts: Sequence[Draft], after: int | None) -> list[Event]:
        """Add the drafts behind what was emitted before. Raises as `append_over_conflicts`."""
        call = _Call(drafts, after, self._queue.mark)
        self._waiting.append(call)
        try:
            await self._queue.begin_turn()  # threads would take turns in any order
            try:
                if not call.is_done:
                    await self._write_from(call)
            finally:
                self._queue.end_turn()
        finally:
            if call in self._waiting:
                self._waiting.remove(call)
        return call.outcome()

    async def _write_from(self, first: _Call) -> None:
        """The call whose turn it is, and who may go with it."""
        self._waiting.remove(first)
        others = self._followers(first.size_bytes)
        if not others:
            first.batch = await self._worker.run(self._write, first.drafts, first.after)
            return
        try:
            await self._worker.finish(self._write_all, [first, *others])
        finally:  # there may have been no thread for it
            self._waiting.extendleft(call for call in reversed(others) if not call.is_done)

    def _followers(self, size_bytes: int) -> list[_Call]:
        found: list[_Call] = []
        while self._waiting:
            call = self._waiting[0]
            size_bytes += call.size_bytes
            may_follow = call.after is None and self._queue.is_written(call.mark)
            if not may_follow or size_bytes > BATCH_BYTES_MAX:
                break
            found.append(self._waiting.popleft())
        return found

    def _write_all(self, group: Sequence[_Call]) -> None:
        """In a thread. Outcomes are with the calls."""
        first, *others = group
        drafts: list[Draft] = []
        for call in group:
            call.place = slice(len(drafts), len(drafts) + len(call.drafts))
            drafts += call.drafts
        try:
            batch = self._write(CancelFlag(), drafts, first.after)
        except Exception as error:  # noqa: BLE001 - raised where its call waits
            if self._is_poisoned():
                first.error = error
            else:
                self._write_alone(first)
            for call in others:
                self._write_alone(call)
        else:
            for call in group:  # takes no memory: what is written must not be written again
                call.batch = batch

    def _write_alone(self, call: _Call) -> None:
        call.place = None
        try:
            call.batch = self._write(CancelFlag(), call.drafts, call.after)
        except Exception as error:  # noqa: BLE001 - as above
            call.error = error
