"""Lineage: which session was forked from which, and where two histories part.

A fork's header names its parent, the event where it branched off and the chain there. The header
is a claim: the parent may have been deleted, or its name taken by another session; and a header
can be lost with the first block of a file. The chain decides: two logs with the same chain at one
`seq` have the same events up to there, and so at every `seq` before it.

Nothing is written, and of whole logs only a few lines are read.
"""

from __future__ import annotations

import contextlib
import enum
from collections import defaultdict
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace

from attachstore.errors import LogDamagedError, SessionMissingError, UnavailableError
from attachstore.sessions.data import BadDataError
from attachstore.sessions.event import SessionSummary
from attachstore.sessions.listing import summarize
from attachstore.sessions.log import State
from attachstore.sessions.logs import SessionLogs
from attachstore.sessions.medium import SessionMedium
from attachstore.sessions.names import SessionName
from attachstore.sessions.record import CHAIN_START, decode_envelope
from attachstore.sessions.scan import Scan, resync
from attachstore.sessions.suffix import find_event
from attachstore.threads import CancelFlag


class Basis(enum.Enum):
    """What an origin rests on."""

    PROVEN = "proven"
    """The header names it, and its chain is there."""
    CLAIMED = "claimed"
    """The header names it; its log is damaged, too short or not readable, and cannot tell."""
    GONE = "gone"
    """The header names it; there is no such session any more, or another of that name."""
    FOUND = "found"
    """The header is lost; of all sessions this one shares the longest history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a session branched off: after event `seq` of session `id`."""

    id: str
    seq: int
    chain: str
    basis: Basis


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A session, where it comes from, and what was forked from it, in order of (seq, id)."""

    summary: SessionSummary
    origin: Origin | None
    forks: tuple[Branch, ...]

    def walk(self) -> Iterator[tuple[int, Branch]]:
        """This branch and all below it with their depths, each after the one it came from."""
        waiting = [(0, self)]
        while waiting:
            depth, branch = waiting.pop()
            yield depth, branch
            waiting += [(depth + 1, fork) for fork in reversed(branch.forks)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """The last event that two sessions have in common; `seq` 0 if they have none."""

    seq: int
    chain: str


def divergence(
    logs: SessionLogs,
    session_id: str,
    other_id: str,
    *,
    of: SessionLogs | None = None,
    cancel: CancelFlag | None = None,
) -> Divergence:
    """Where two histories part, by their chains alone; headers may be lost.

    The other may be one `of` other logs, on another medium.

    Costs about twenty looks into each log. A log that is damaged is read as a whole, and of the
    events that are still there in both the last common one counts.

    Raises SessionMissingError.
    """
    one = _Chains(logs, session_id, cancel)
    other = _Chains(logs if of is None else of, other_id, cancel)
    seq = _parting(one, other)
    return Divergence(seq=seq, chain=one.at(seq) or "")


def tree(logs: SessionLogs, *, cancel: CancelFlag | None = None) -> tuple[Branch, ...]:
    """Every session that has a log, below the one it was forked from; the others in order of id.

    Reads what a listing reads, and for each fork one event of its parent. A session whose header
    is lost is compared with all others. One whose log the medium does not give is there with
    that as its `problem`, and hides none of the others.
    """
    return _Tree(logs, cancel).branches()


class _Chains:
    """The chains in one log, as they stand there."""

    def __init__(self, logs: SessionLogs, session_id: str, cancel: CancelFlag | None) -> None:
        self.name = SessionName.of(session_id)
        self._medium: SessionMedium = logs.medium
        self._cancel = cancel
        self._all: dict[int, str] | None = None
        held = logs.held(session_id)
        if held is not None and held.state is State.PENDING:
            self._all = {}

    def has_header(self) -> bool:
        with self._medium.open(self.name) as log:
            try:
                Scan(log, self.name, where="", cancel=self._cancel)
            except LogDamagedError:
                return False
            return True

    def head(self) -> int:
        if self._all is None:
            summary = summarize(self._medium, self.name)
            if summary is None:
                raise SessionMissingError(where=self._medium.where(self.name), session=self.name.id)
            if summary.problem is None:
                return summary.head_seq
        return max(self.whole(), default=0)

    def at(self, seq: int) -> str | None:
        if seq == 0:
            return CHAIN_START.hex()
        found = self._find(seq) if self._all is None else None
        return found or self.whole().get(seq)

    def _find(self, seq: int) -> str | None:
        with self._medium.open(self.name) as log:
            try:
                scan = Scan(log, self.name, where="", cancel=self._cancel)
            except LogDamagedError:
                return None
            found = find_event(
                log,
                seq,
                start_bytes=scan.events_start_bytes,
                end_bytes=log.size(),
                cancel=self._cancel,
            )
            if found is None:
                return None
            try:
                return decode_envelope(found[1]).chain
            except BadDataError:
                return None

    def whole(self) -> dict[int, str]:
        """Of every line that parses, wherever it is."""
        if self._all is None:
            self._all = {}
            with self._medium.open(self.name) as log:
                for event in resync(log, cancel=self._cancel):
                    self._all.setdefault(event.seq, event.chain)
        return self._all


def _parting(one: _Chains, other: _Chains) -> int:
    """`seq` of the last common event. Equal at one `seq` is equal at all before it."""
    same, parted = 0, min(one.head(), other.head()) + 1
    middle = parted - 1  # most often one is a prefix of the other
    while middle > same:
        mine, theirs = one.at(middle), other.at(middle)
        if mine is None or theirs is None:  # lost in a damaged log
            theirs_whole = other.whole().items()
            return max(
                (seq for seq, chain in theirs_whole if one.whole().get(seq) == chain), default=0
            )
        if mine == theirs:
            same = middle
        else:
            parted = middle
        middle = (same + parted) // 2
    return same


class _Tree:
    def __init__(self, logs: SessionLogs, cancel: CancelFlag | None) -> None:
        self._logs = logs
        self._cancel = cancel
        self._summaries = {each.id: each for each in logs.list(cancel=cancel)}
        self._chains = {each: _Chains(logs, each, cancel) for each in self._summaries}
        self._origins: dict[str, Origin | None] = {}

    def branches(self) -> tuple[Branch, ...]:
        for summary in self._summaries.values():
            self._origins[summary.id] = self._claimed(summary)
        for session_id in self._chains:
            if self._origins[session_id] is None and self._has_lost_header(session_id):
                with self._readable(session_id):
                    self._origins[session_id] = self._found(session_id)
        forks: dict[str, list[str]] = defaultdict(list)
        roots: list[str] = []
        for session_id in sorted(self._summaries, key=self._place):
            parent = self._parent(session_id)
            siblings = roots if parent is None else forks[parent]
            siblings.append(session_id)
        return self._grown(sorted(roots), forks)

    def _grown(self, roots: list[str], forks: dict[str, list[str]]) -> tuple[Branch, ...]:
        """Branches from the links between ids; without recursion, generations may be many."""
        order: list[str] = []
        waiting = list(roots)
        seen: set[str] = set()
        left = sorted(self._summaries, reverse=True)
        while waiting or left:
            if not waiting:  # only rings are left: a name was deleted and forked back to
                candidate = left.pop()
                if candidate in seen:
                    continue
                roots.append(self._ring_above(candidate))
                waiting.append(roots[-1])
            session_id = waiting.pop()
            if session_id not in seen:
                seen.add(session_id)
                order.append(session_id)
                waiting += forks[session_id]
        position = {session_id: number for number, session_id in enumerate(order)}
        built: dict[str, Branch] = {}
        for session_id in reversed(order):
            below = [each for each in forks[session_id] if position[each] > position[session_id]]
            built[session_id] = Branch(
                summary=self._summaries[session_id],
                origin=self._origins[session_id],
                forks=tuple(built[each] for each in below),
            )
        return tuple(built[session_id] for session_id in roots)

    def _place(self, session_id: str) -> tuple[int, str]:
        origin = self._origins[session_id]
        return (0 if origin is None else origin.seq, session_id)

    def _parent(self, session_id: str) -> str | None:
        origin = self._origins.get(session_id)
        return None if origin is None or origin.basis is Basis.GONE else origin.id

    def _claimed(self, summary: SessionSummary) -> Origin | None:
        """What the header says, and what that rests on."""
        parent = summary.parent
        if parent is None:
            return None
        named = self._summaries.get(parent.id)
        if named is None:
            basis = Basis.GONE
        elif named.problem is None and named.head_seq < parent.seq:
            basis = Basis.CLAIMED
        else:
            chain = None
            with self._readable(parent.id):
                chain = self._chains[parent.id].at(parent.seq)
            bases = {None: Basis.CLAIMED, parent.chain: Basis.PROVEN}
            basis = bases.get(chain, Basis.GONE)
        return Origin(id=parent.id, seq=parent.seq, chain=parent.chain, basis=basis)

    def _found(self, session_id: str) -> Origin | None:
        """By the longest common history; of several, the session whose own event ends it."""
        best: tuple[int, bool] = (0, False)
        origin: Origin | None = None
        for other in self._summaries:
            if other == session_id or self._descends(other, session_id):
                continue
            seq = self._common(session_id, other)
            of_other = self._origins.get(other)
            is_own = of_other is None or of_other.seq < seq
            if seq and (seq, is_own) > best:
                best = (seq, is_own)
                chain = self._chains[session_id].at(seq) or ""
                origin = Origin(id=other, seq=seq, chain=chain, basis=Basis.FOUND)
        return origin

    def _common(self, session_id: str, other: str) -> int:
        """`seq` of the last event in common; 0 if one of the logs cannot be read."""
        try:
            return _parting(self._chains[session_id], self._chains[other])
        except UnavailableError:
            for each in (session_id, other):
                with self._readable(each):
                    self._chains[each].whole()
            return 0

    def _has_lost_header(self, session_id: str) -> bool:
        with self._readable(session_id):
            return not self._chains[session_id].has_header()
        return False

    @contextlib.contextmanager
    def _readable(self, session_id: str) -> Generator[None]:
        """A log that the medium does not give is the problem of its session, and of no other."""
        try:
            yield
        except UnavailableError as error:
            summary = self._summaries[session_id]
            self._summaries[session_id] = replace(summary, problem=error)

    def _ring_above(self, session_id: str) -> str:
        """The first session met again on the way up."""
        seen: set[str] = set()
        while session_id not in seen:
            seen.add(session_id)
            session_id = self._parent(session_id) or session_id
        return session_id

    def _descends(self, session_id: str, ancestor: str) -> bool:
        seen: set[str] = set()
        each: str | None = session_id
        while each is not None and each not in seen:
            if each == ancestor:
                return True
            seen.add(each)
            each = self._parent(each)
        return False
