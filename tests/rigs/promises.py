"""Promises: what a journal's records say that a store must hold, may hold, and must not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.rigs.journal import Record
from tests.rigs.stored import StoredEvent

CHANGES_AND_SYNCS = frozenset({"write", "pwrite64", "ftruncate", "fsync", "fdatasync"})
NOT_TRIED = frozenset({"EMFILE", "ENFILE"})
"""What a sync says that has not begun, so that nothing is lost."""


@dataclass(slots=True)
class Batch:
    """Events that were written with one call: after a crash all, none or the first few."""

    marks: list[str]
    is_acknowledged: bool = False
    chains: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class SessionPromise:
    """One session's batches, in the order in which they were tried."""

    batches: list[Batch] = field(default_factory=list[Batch])
    may_be_gone: bool = False
    must_be_gone: bool = False
    may_be_damaged: bool = False
    kept: list[bytes] = field(default_factory=list[bytes])
    """Bytes that nobody may throw away, in the log or beside it."""

    @property
    def must_exist(self) -> bool:
        return not self.may_be_gone and any(batch.is_acknowledged for batch in self.batches)

    def violations(self, found: Sequence[StoredEvent]) -> list[str]:
        """What is wrong with the events of the log: lost, never tried, or out of order."""
        wrong: list[str] = []
        position = 0
        for batch in self.batches:
            start = position
            for mark in batch.marks:
                if position == len(found) or found[position].mark != mark:
                    break
                position += 1
            there = found[start:position]
            if batch.is_acknowledged and len(there) < len(batch.marks):
                wrong.append(f"acknowledged {batch.marks[len(there)]} is lost")
            elif (
                batch.is_acknowledged
                and batch.chains
                and [event.chain for event in there] != batch.chains
            ):
                wrong.append(f"acknowledged {batch.marks} have another chain")
        if position < len(found):
            wrong.append(f"event {found[position].seq} ({found[position].mark}) was not tried here")
        return wrong


class Promises:
    """Read from the records of all processes that worked on one store, in order."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.store_exists = False
        self.objects: set[str] = set()
        self.corrupt: set[str] = set()
        """Overwritten by the medium, and neither healed nor moved aside for sure."""
        self.may_be_missing: set[str] = set()
        self.lost: set[str] = set()
        """Taken away by the medium, and not put back for sure."""
        self._mendings = 0
        self.sessions: dict[str, SessionPromise] = {}
        self.states: dict[str, list[str]] = {}
        """Path beside the store to what it may hold."""
        self.checkpoints: list[str] = []
        """Paths beside the store of what must be whole JSON, if it is there."""
        self.violations: list[str] = []
        """What the records alone show."""
        for record in records:
            take = getattr(self, f"_{record.kind.replace('-', '_')}_{record.step}", None)
            if take is not None:
                take(record.facts)
            elif record.step == "failed":
                self._failed(record)
        self._judge_refusals(records)

    def session(self, session_id: str) -> SessionPromise:
        return self.sessions.setdefault(session_id, SessionPromise())

    def _opened_acknowledge(self, _: dict[str, Any]) -> None:
        self.store_exists = True

    # -- objects ---------------------------------------------------------------------------

    def _object_acknowledge(self, facts: dict[str, Any]) -> None:
        self.objects.add(facts["digest"])
        self.corrupt.discard(facts["digest"])
        self.may_be_missing.discard(facts["digest"])

    def _corrupt_given(self, facts: dict[str, Any]) -> None:
        self.corrupt.add(facts["digest"])

    def _lost_given(self, facts: dict[str, Any]) -> None:
        self.lost.add(facts["digest"])
        self.may_be_missing.add(facts["digest"])

    def _scanned_attempt(self, facts: dict[str, Any]) -> None:
        self._mendings += facts.get("mends", False)

    def _scanned_acknowledge(self, facts: dict[str, Any]) -> None:
        """A scan accuses nothing that is well; without a fault of the medium it misses nothing.

        What an earlier one tried to mend may be well by now, whatever that one said.
        """
        known = self.corrupt | self.lost
        told = {*facts["corrupt"], *facts["lost"]}
        if accused := told - known:
            self.violations.append(f"a scan accuses {sorted(accused)}, which are well")
        mended_before = self._mendings > facts["mends"]
        if (
            not facts["others"]
            and not mended_before
            and (missed := known - told - set(facts["mended"]))
        ):
            self.violations.append(f"a scan does not tell of {sorted(missed)}")
        for digest in facts["mended"]:
            self.corrupt.discard(digest)
            self.lost.discard(digest)
            self.may_be_missing.discard(digest)

    def _checkpoint_given(self, facts: dict[str, Any]) -> None:
        self.checkpoints.append(facts["path"])

    def _quarantined_attempt(self, facts: dict[str, Any]) -> None:
        if facts["digest"] in self.corrupt:
            self.may_be_missing.add(facts["digest"])

    def _quarantined_acknowledge(self, facts: dict[str, Any]) -> None:
        self.corrupt.discard(facts["digest"])

    def _served_acknowledge(self, facts: dict[str, Any]) -> None:
        if facts["actual"] != facts["digest"]:
            self.violations.append(f"other bytes were served as {facts['digest']}")

    # -- sessions --------------------------------------------------------------------------

    def _events_attempt(self, facts: dict[str, Any]) -> None:
        session = self.session(facts["id"])
        session.must_be_gone = False
        if session.may_be_gone:  # it may be the first of a session with the name of a deleted one
            for batch in session.batches:
                batch.is_acknowledged = False
        session.batches.append(Batch(list(facts["marks"])))

    def _events_acknowledge(self, facts: dict[str, Any]) -> None:
        session = self.session(facts["id"])
        session.may_be_gone = False
        batch = next(it for it in session.batches[::-1] if it.marks == facts["marks"])
        batch.is_acknowledged = True
        batch.chains = list(facts["chains"])

    def _emitted_attempt(self, facts: dict[str, Any]) -> None:
        self._events_attempt(facts)

    def _flushed_acknowledge(self, facts: dict[str, Any]) -> None:
        session = self.session(facts["id"])
        for batch in session.batches:
            if batch.marks[0] in facts["marks"]:
                batch.is_acknowledged = True

    def _fork_attempt(self, facts: dict[str, Any]) -> None:
        child = self.session(facts["id"])
        left = facts["at"]
        for batch in self.session(facts["parent"]).batches:
            marks = batch.marks[:left]
            left -= len(marks)
            if marks:
                child.batches.append(Batch(marks, is_acknowledged=True))
        child.may_be_gone = True
        child.must_be_gone = False

    def _fork_acknowledge(self, facts: dict[str, Any]) -> None:
        self.session(facts["id"]).may_be_gone = False

    def _deleted_attempt(self, facts: dict[str, Any]) -> None:
        self.session(facts["id"]).may_be_gone = True

    def _deleted_acknowledge(self, facts: dict[str, Any]) -> None:
        self.sessions[facts["id"]] = SessionPromise(may_be_gone=True, must_be_gone=True)

    def _damaged_given(self, facts: dict[str, Any]) -> None:
        session = self.session(facts["id"])
        session.may_be_damaged = True
        session.kept.append(bytes.fromhex(facts["bytes"]))
        good = facts["good_seq"]
        for batch in session.batches:
            batch.is_acknowledged = good >= len(batch.marks)
            good -= len(batch.marks)

    def _repaired_acknowledge(self, facts: dict[str, Any]) -> None:
        self.session(facts["id"]).may_be_damaged = False

    def _tail_given(self, facts: dict[str, Any]) -> None:
        self.session(facts["id"]).kept.append(bytes.fromhex(facts["bytes"]))

    # -- the rest --------------------------------------------------------------------------

    def _state_attempt(self, facts: dict[str, Any]) -> None:
        self.states.setdefault(facts["path"], []).append(facts["digest"])

    def _state_acknowledge(self, facts: dict[str, Any]) -> None:
        self.states[facts["path"]] = [facts["digest"]]

    def _leak_seen(self, facts: dict[str, Any]) -> None:
        self.violations.append(f"left behind in the process: {facts['what']}")

    def _failed(self, record: Record) -> None:
        code = record.facts["error_code"]
        if code.startswith("escaped:"):
            self.violations.append(f"{record.kind}: {code}")

    def _judge_refusals(self, records: Sequence[Record]) -> None:
        """After an error of the medium under a log or a shard, nobody goes on who relied on it."""
        faults = [record.facts for record in records if record.kind == "fault"]
        changes = [str(it["path"]) for it in faults if it["call"] in CHANGES_AND_SYNCS]
        tried = [it for it in faults if it["error"] not in NOT_TRIED]
        syncs = [str(it["path"]) for it in tried if it["call"] in {"fsync", "fdatasync"}]
        shard_failed = any(path.startswith(("objects/", "intake/")) for path in syncs)
        refusing: set[object] = set()
        proven: set[int] = set()
        for record in records:
            facts = record.facts
            if (record.step, record.kind) == ("attempt", "opened"):
                refusing, proven = set(), set()  # another process, or the same one started anew
            elif (record.step, record.kind) == ("acknowledge", "events"):
                proven.add(facts["handle"])
                if facts["handle"] in refusing:
                    self.violations.append(f"{facts['marks']} were taken after a failed append")
            elif (record.step, record.kind) == ("failed", "events"):
                # A log that was made here is open under no name; SQLite has all logs in one.
                places = ("sessions.db", f"sessions/{facts['id']}/#")
                is_open = facts["handle"] in proven and any(it.startswith(places) for it in changes)
                if f"sessions/{facts['id']}/log.jsonl" in changes or is_open:
                    refusing.add(facts["handle"])
            elif (record.step, record.kind) == ("failed", "object") and shard_failed:
                refusing.add("objects")
            elif (record.step, record.kind) == ("acknowledge", "object") and "objects" in refusing:
                self.violations.append(f"{facts['digest']} was taken after a shard's failed sync")
