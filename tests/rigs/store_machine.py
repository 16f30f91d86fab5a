"""StoreMachine: a store used in any order, on a disk that fails now and then, and opened again.

Hypothesis draws the operations; they are those of the workloads (Scene) and are recorded in a
journal. Whenever the store is closed, and at the end, the oracle judges it on a sound disk.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from attachstore import Reference, Store
from tests.faults import CHANGES, SYNCS, Effect, FailingDisk
from tests.rigs.journal import Journal
from tests.rigs.oracle import judge
from tests.rigs.workloads.scene import Halt, Handle, Scene

R = TypeVar("R")
CONTENTS = [b"one", b"another", b"x" * 3000, b"y" * (1 << 20)]
SESSIONS = ["s-1", "s-2", "s-3"]
_EFFECTS: list[Effect] = ["none", "half", "done", "short"]


class StoreMachine(RuleBasedStateMachine):
    """Its store lies in memory: what is tried is the order of things, not the disk."""

    def __init__(self) -> None:
        super().__init__()
        memory = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
        self.root = self.folder / "store"
        self.runner = asyncio.Runner()
        self.journal = Journal(keep_going=True)
        self.marks = itertools.count(1)
        self.references: list[Reference] = []
        self.handles: dict[str, Handle] = {}
        self.disk = FailingDisk()
        self.store: Store | None = None
        self.open()

    def open(self) -> None:
        self.disk = FailingDisk(methods=CHANGES | SYNCS)
        self.scene = Scene(self.root, self.journal, self.disk)
        opening = Store.open(self.root, decode_in_process=True, disk=self.disk, threads_max=2)
        self.journal.attempt("opened")
        self.store = self.runner.run(opening.__aenter__())

    def do(self, operation: Coroutine[Any, Any, R]) -> R | None:
        try:
            return self.runner.run(operation)
        except Halt:
            return None

    def handle(self, session_id: str) -> Handle | None:
        """The session as it is held; loaded, or made, if it is not."""
        held = self.handles.get(session_id)
        if held is None and self.store is not None:
            held = self.do(self.scene.load(self.store, session_id))
            held = held or self.do(self.scene.create(self.store, session_id))
            if held is not None:
                self.handles[session_id] = held
        return held

    @rule(content=st.sampled_from(CONTENTS))
    def put(self, content: bytes) -> None:
        assert self.store is not None
        reference = self.do(self.scene.put(self.store, content))
        if reference is not None:
            self.references.append(reference)

    @rule(session_id=st.sampled_from(SESSIONS), many=st.integers(1, 3), refers=st.booleans())
    def append(self, session_id: str, many: int, refers: bool) -> None:
        handle = self.handle(session_id)
        if handle is not None:
            marks = [f"m/{next(self.marks)}" for _ in range(many)]
            file = self.references[-1] if refers and self.references else None
            self.do(handle.append(*marks, file=file))

    @rule(session_id=st.sampled_from(SESSIONS))
    def let_go(self, session_id: str) -> None:
        """Close the session: the next append loads it again."""
        handle = self.handles.pop(session_id, None)
        if handle is not None:
            self.do(handle.close())

    @rule(session_id=st.sampled_from(SESSIONS))
    def delete(self, session_id: str) -> None:
        assert self.store is not None
        self.handles.pop(session_id, None)
        self.do(self.scene.delete(self.store, session_id))

    @rule(session_id=st.sampled_from(SESSIONS))
    def seal(self, session_id: str) -> None:
        assert self.store is not None
        self.let_go(session_id)
        self.do(self.scene.seal(self.store, session_id))

    @rule(
        calls=st.integers(1, 12),
        error=st.sampled_from([errno.EIO, errno.ENOSPC, errno.EROFS]),
        effect=st.sampled_from(_EFFECTS),
        sticky=st.booleans(),
    )
    def let_the_disk_fail(self, calls: int, error: int, effect: Effect, sticky: bool) -> None:
        """At one of its next changes or syncs, once or from then on."""
        disk = self.disk
        disk.error, disk.effect, disk.sticky = error, effect, sticky
        disk.fail_at = disk.calls + calls

    @rule()
    def start_again(self) -> None:
        self.close()
        self.open()

    def close(self) -> None:
        self.disk.heal()
        assert self.store is not None
        self.runner.run(self.store.close())
        self.handles.clear()
        violations = judge(self.root, self.journal.records)
        assert violations == []

    def teardown(self) -> None:
        try:
            self.close()
        finally:
            self.runner.close()
            shutil.rmtree(self.folder)
