"""Any sequence of writing, forking, closing and damaging, against a model that is a list of lines.

Damage is an ordinary move. The model judges it by the rule of design and reference, written once
more in a few lines without streaming; and it knows what was acknowledged, which the code under
test must never cut unasked.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from attachstore.errors import LogDamagedError
from attachstore.sessions import SessionLogs
from tests.conformance.session_medium import REFERENCE, Place, confirm
from tests.sessions.places import JsonlPlace, MemoryPlace

NOTHING: Any = multiple()  # pyright: ignore[reportUnknownVariableType] - of no type at all
payloads = st.sampled_from([None, {"a": [1, REFERENCE]}, {"$attach": 1}, "x" * 700, "\u2028"])


class Model:
    """What one session's log holds, and what of it is as it was written."""

    def __init__(self, header: bytes, lines: list[bytes]) -> None:
        self.header = header
        self.lines = lines
        """Every line as it was acknowledged, in order."""
        self.raw = header + b"".join(lines)
        """What is stored now, damage included."""
        self.held = True

    def good(self) -> int:
        """How many lines are intact from the front; -1 if the header is not."""
        end = 0
        for number, line in enumerate([self.header, *self.lines]):
            if self.raw[end : end + len(line)] != line:
                return number - 1
            end += len(line)
        return len(self.lines)

    def intact(self) -> bytes:
        return self.header + b"".join(self.lines[: self.good()])

    def state(self) -> str:
        """sound, tail, or damaged; by the rule, on the whole bytes at once."""
        if self.good() < 0:
            return "damaged"
        start = len(self.intact())
        rest = self.raw[start:]
        if not rest:
            return "sound"
        line, feed, later = rest.partition(b"\n")
        if not feed:
            return "tail"
        runs = [match.span() for match in re.finditer(rb"\0+", line)]
        unwritten = all(
            (first == 0 or (start + first) % 512 == 0) and (start + last) % 512 == 0
            for first, last in runs
        )
        if not runs or not unwritten:
            return "damaged"
        whole = later.split(b"\n")[:-1]
        return "damaged" if any(map(self._is_later_append, whole)) else "tail"

    def _is_later_append(self, line: bytes) -> bool:
        try:
            fields = msgspec.json.decode(line)
            return fields.get("batch", fields["seq"]) > self.good() + 1
        except (msgspec.DecodeError, KeyError, AttributeError, TypeError):
            return False


class LogMachine(RuleBasedStateMachine):
    """Runs on one medium; see the subclasses."""

    sessions = Bundle("sessions")

    def make_place(self) -> Place:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.place = self.make_place()
        self.logs = SessionLogs(self.place.medium(), confirm)
        self.models: dict[str, Model] = {}
        self.count = 0

    def new_id(self) -> str:
        self.count += 1
        return f"s/{self.count}"

    def stored(self, session_id: str) -> tuple[bytes, list[bytes]]:
        header, *lines = self.place.read(session_id).splitlines(keepends=True)
        return header, lines

    # -- ordinary life -----------------------------------------------------------------------

    @rule(target=sessions, data=st.lists(payloads, min_size=1, max_size=3))
    def create(self, data: list[Any]) -> str:
        session_id = self.new_id()
        self.logs.create(session_id).append_many([("m", each) for each in data])
        self.models[session_id] = Model(*self.stored(session_id))
        return session_id

    @rule(session_id=sessions, data=st.lists(payloads, min_size=1, max_size=3))
    def append(self, session_id: str, data: list[Any]) -> None:
        model = self.models[session_id]
        if not self.load_as_expected(session_id, model):
            return
        before = model.raw
        head = model.good()
        log = self.logs.load(session_id)
        events = log.append_many([("m", each) for each in data], after=head)
        assert [event.seq for event in events] == list(range(head + 1, head + 1 + len(data)))
        after = self.place.read(session_id)
        assert after.startswith(before)
        model.raw = after
        model.lines = [
            *model.lines[:head],
            *after[len(before) :].splitlines(keepends=True),
        ]

    def load_as_expected(self, session_id: str, model: Model) -> bool:
        """Load; the tail is moved aside, damage is refused and nothing is changed."""
        state, intact, raw = model.state(), model.intact(), model.raw
        torn = len(self.place.torn(session_id))
        try:
            self.logs.load(session_id, close_turn=False)
        except LogDamagedError:
            assert state == "damaged"
            assert self.place.read(session_id) == raw
            return False
        assert state != "damaged"
        assert self.place.read(session_id) == intact
        cut = self.place.torn(session_id)
        assert len(cut) == torn + (state == "tail")
        if state == "tail":
            assert raw[len(intact) :] in cut
        model.raw, model.held = intact, True
        model.lines = model.lines[: model.good()]
        return True

    @rule(session_id=sessions)
    def close(self, session_id: str) -> None:
        held = self.logs.held(session_id)
        if held is not None:
            held.close()
        self.models[session_id].held = False

    @rule()
    def reopen_the_store(self) -> None:
        self.logs.close()
        self.logs = SessionLogs(self.place.medium(), confirm)
        for model in self.models.values():
            model.held = False

    @rule(target=sessions, session_id=sessions, share=st.floats(0, 1))
    def fork(self, session_id: str, share: float) -> Any:
        model = self.models[session_id]
        if model.good() < 0:
            return NOTHING
        at = round(share * model.good())
        child = self.new_id()
        self.logs.fork(session_id, at=at, id=child).close()
        header, lines = self.stored(child)
        assert lines == model.lines[:at]
        self.models[child] = Model(header, lines)
        self.models[child].held = False
        return child

    @rule(session_id=consumes(sessions))
    def delete(self, session_id: str) -> None:
        self.logs.delete(session_id)
        del self.models[session_id]

    @rule(session_id=sessions)
    def repair(self, session_id: str) -> None:
        model = self.models[session_id]
        if model.held:
            return
        if model.good() < 0:
            assert self.refuses(session_id)
            return
        intact = model.intact()
        report = self.logs.repair(session_id)
        assert report.head_seq == model.good()
        assert self.place.read(session_id) == intact
        assert report.cut_bytes == len(model.raw) - len(intact)
        if report.cut_bytes:
            assert model.raw[len(intact) :] in self.place.torn(session_id)
        model.lines = model.lines[: model.good()]
        model.raw = intact

    def refuses(self, session_id: str) -> bool:
        try:
            self.logs.repair(session_id)
        except LogDamagedError:
            return True
        return False

    # -- damage ------------------------------------------------------------------------------

    def change(self, session_id: str, content: bytes) -> None:
        """Behind the store's back; to a session that it does not hold."""
        self.close(session_id)
        self.models[session_id].raw = content
        self.place.write(session_id, content)

    @rule(session_id=sessions, share=st.floats(0, 1))
    def cut(self, session_id: str, share: float) -> None:
        raw = self.models[session_id].raw
        self.change(session_id, raw[: round(share * len(raw))])

    @rule(session_id=sessions, share=st.floats(0, 1), bit=st.integers(0, 7))
    def flip_a_bit(self, session_id: str, share: float, bit: int) -> None:
        raw = bytearray(self.models[session_id].raw)
        if raw:
            raw[round(share * (len(raw) - 1))] ^= 1 << bit
            self.change(session_id, bytes(raw))

    @rule(
        session_id=sessions,
        share=st.floats(0, 1),
        size_bytes=st.integers(1, 1200),
        aligned=st.booleans(),
    )
    def zero_a_run(self, session_id: str, share: float, size_bytes: int, aligned: bool) -> None:
        raw = bytearray(self.models[session_id].raw)
        first = round(share * len(raw))
        last = first + size_bytes
        if aligned:
            first, last = -(-first // 512) * 512, -(-last // 512) * 512
        last = min(last, len(raw))
        if first < last:
            raw[first:last] = bytes(last - first)
            self.change(session_id, bytes(raw))

    @rule(session_id=sessions, share=st.floats(0, 1))
    def zero_from_a_line_on(self, session_id: str, share: float) -> None:
        """As a lost block at the end leaves it: from a line's first byte to a sector's end."""
        raw = self.models[session_id].raw
        starts = [0, *(match.end() for match in re.finditer(rb"\n", raw))]
        first = starts[round(share * (len(starts) - 1))]
        last = min(len(raw), -(-(first + 1) // 512) * 512)
        self.change(session_id, raw[:first] + bytes(last - first) + raw[last:])

    @rule(session_id=sessions, one=st.integers(0, 9), other=st.integers(0, 9))
    def swap_lines(self, session_id: str, one: int, other: int) -> None:
        lines = self.models[session_id].raw.splitlines(keepends=True)
        if one < len(lines) and other < len(lines):
            lines[one], lines[other] = lines[other], lines[one]
            self.change(session_id, b"".join(lines))

    @rule(session_id=sessions, tail=st.binary(max_size=30))
    def add_bytes(self, session_id: str, tail: bytes) -> None:
        self.change(session_id, self.models[session_id].raw + tail)

    # -- always ------------------------------------------------------------------------------

    @invariant()
    def readers_get_exactly_the_intact_prefix(self) -> None:
        for session_id, model in self.models.items():
            good = model.good()
            chains = [event.chain for event in self.logs.events(session_id, damaged="stop")]
            assert [chain.encode() for chain in chains] == [
                line[-35:-3] for line in model.lines[: max(0, good)]
            ]
            if good < 0:
                continue
            view = self.logs.inspect(session_id)
            state = "damaged" if view.damage else "tail" if view.tail else "sound"
            assert state == model.state()
            for found in (view.damage, view.tail):
                assert found is None or found.offset_bytes == len(model.intact())

    @invariant()
    def every_session_is_listed_once(self) -> None:
        assert sorted(each.id for each in self.logs.list()) == sorted(self.models)

    def teardown(self) -> None:
        self.logs.close()


class MemoryLogMachine(LogMachine):
    def make_place(self) -> Place:
        return MemoryPlace()


class JsonlLogMachine(LogMachine):
    def make_place(self) -> Place:
        self.root = Path(tempfile.mkdtemp())
        return JsonlPlace(self.root)

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.root)


TestLogsInMemory = MemoryLogMachine.TestCase
TestLogsInMemory.settings = settings(
    max_examples=70, stateful_step_count=30, deadline=None, report_multiple_bugs=False
)
TestLogsInJsonl = JsonlLogMachine.TestCase
TestLogsInJsonl.settings = settings(
    max_examples=15, stateful_step_count=30, deadline=None, report_multiple_bugs=False
)
