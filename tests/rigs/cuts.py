"""Power cuts in a recorded piece of work: at every moment, with every legal state of the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.rigs.crash_states import Selection, Tree, crash_trees
from tests.rigs.journal import Record
from tests.rigs.replaying import Replay
from tests.rigs.sandbox import Sandbox
from tests.rigs.tracing import Call

_MAKES_CERTAIN = frozenset({"fsync", "fdatasync", "syncfs", "sync"})

Judge = Callable[[Path, list[Record]], list[str]]
"""What is wrong with a store that was found after a power cut, by what had been said before."""


@dataclass(slots=True)
class Tally:
    """What was tried, over any number of traces."""

    states: int = 0
    """Trees judged, each with what had been promised: the same tree comes again if more was."""
    combinations: int = 0
    trees: set[int] = field(default_factory=set[int])
    """Hashes of the trees alone."""
    violations: list[str] = field(default_factory=list[str])
    bad_states: int = 0


def cut_power(
    replay: Replay, calls: Iterable[Call], selection: Selection, tally: Tally
) -> Iterator[tuple[Tree, list[Record]]]:
    """Each distinct (tree, promises) for a cut at any moment of `calls`; counted in `tally`.

    Between two syncs or records the possible states only become more, so it is enough to look
    before each of these and at the end.
    """
    seen: set[tuple[int, int]] = set()
    changed = True
    for number, call in enumerate([*calls, None]):
        narrows = call is None or call.name in _MAKES_CERTAIN or _is_record(replay, call)
        if narrows and changed:
            changed = False
            promised = sum(it.step != "attempt" for it in replay.records)
            moment = Selection(selection.cap, selection.atomic_renames, selection.seed + number)
            for tree in crash_trees(replay.model, moment, replay.renames):
                tally.combinations += 1
                key = hash(frozenset(tree.items()))
                # The first time is the strictest: later more had been tried, and so is allowed.
                if (key, promised) not in seen:
                    seen.add((key, promised))
                    tally.trees.add(key)
                    tally.states += 1
                    yield tree, list(replay.records)
        if call is not None and replay.apply(call):
            changed = True


def _is_record(replay: Replay, call: Call) -> bool:
    return call.name == "write" and replay.is_record(call)


def judge_cuts(
    sandbox: Sandbox,
    states: Iterable[tuple[Tree, list[Record]]],
    judge: Judge,
    tally: Tally,
    *,
    stop_at: int | None = None,
) -> None:
    """Judge each state; with `stop_at`, until so many of them are bad."""
    for tree, records in states:
        found = judge(sandbox.become(tree), records)
        if found:
            tally.bad_states += 1
            tally.violations += found
            if tally.bad_states == stop_at:
                return
