"""Explorer: every order in which the calls of a few programs can be made, breadth first.

A state is the world, and for each actor where it stands: the answers it has had, or that it was
killed. From a state, any actor that does not wait for a lock may make its next call, and any may
be killed. States that were seen are not gone into again, so all interleavings are covered at the
price of their distinct states. After each step `check` looks at the state.

Steps that nobody else can see (writing into a file without a name, closing a file, asking about
an open one) are made at once with the step before, unless `every_call` is set: they commute with
whatever the others do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.concurrency.programs import Answer, Call, Ended, Failed, Program
from tests.concurrency.world import World

KILLED = ("killed",)
_UNSEEN = frozenset({"status_followed", "status_open", "drop_cache", "open_temporary"})
_UNSEEN_OF_UNNAMED = frozenset({"write", "sync_file"})


@dataclass(frozen=True)
class State:
    world: World
    answers: tuple[tuple[Answer, ...], ...]
    outcomes: tuple[Hashable, ...]
    """Of each actor: None while it runs."""
    promised: tuple[bool, ...]
    """Whether anybody had made a promise when this actor made its first call."""


Check: TypeAlias = Callable[[State], list[str]]
"""What is wrong with a state."""


@dataclass
class Exploration:
    """What was covered, and the shortest way to each kind of violation."""

    states: int = 0
    transitions: int = 0
    ends: int = 0
    outcomes: set[tuple[Hashable, ...]] = field(default_factory=set[tuple[Hashable, ...]])
    violations: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


class Explorer:
    """Explores `programs` from a world."""

    def __init__(
        self,
        programs: Sequence[Program],
        check: Check,
        *,
        is_promise: Callable[[Hashable], bool] = lambda _: False,
        kills: bool = True,
        every_call: bool = False,
    ) -> None:
        self._programs = programs
        self._check = check
        self._is_promise = is_promise
        self._kills = kills
        self._every_call = every_call

    def explore(self, world: World) -> Exploration:
        count = len(self._programs)
        start = State(world, ((),) * count, (None,) * count, (False,) * count)
        found = Exploration()
        came_from: dict[Hashable, tuple[Hashable, str]] = {}
        seen = {self._key(start)}
        waiting = deque([start])
        while waiting:
            state = waiting.popleft()
            key = self._key(state)
            found.states += 1
            for violation in self._check(state):
                if violation not in found.violations:
                    found.violations[violation] = _way(came_from, key)
            after = self._after(state)
            found.transitions += len(after)
            if all(outcome is not None for outcome in state.outcomes):
                found.ends += 1
                found.outcomes.add(state.outcomes)
            elif not any("killed" not in label for label, _ in after):
                found.violations.setdefault("deadlock", _way(came_from, key))
            for label, following in after:
                new = self._key(following)
                if new not in seen:
                    seen.add(new)
                    came_from[new] = (key, label)
                    waiting.append(following)
        return found

    def _key(self, state: State) -> Hashable:
        return hash((state.world.key(), state.answers, state.outcomes, state.promised))

    def _after(self, state: State) -> list[tuple[str, State]]:
        after: list[tuple[str, State]] = []
        for actor, outcome in enumerate(state.outcomes):
            if outcome is not None:
                continue
            following = self._step(state, actor)
            if following is not None:
                after.append(following)
            if self._kills and state.answers[actor]:
                world = state.world.copy()
                world.end(actor)
                killed = _with(state, world, actor, state.answers[actor], KILLED)
                after.append((f"{self._programs[actor].name} is killed", killed))
        return after

    def _step(self, state: State, actor: int) -> tuple[str, State] | None:
        program = self._programs[actor]
        step = program.next_step(state.answers[actor])
        if isinstance(step, Ended):  # a program without any call
            return f"{program.name} ends", _with(state, state.world, actor, (), step.outcome)
        if state.world.blocks(step.method, step.arguments, actor):
            return None
        if not state.answers[actor] and any(map(self._is_promise, state.outcomes)):
            promised = list(state.promised)
            promised[actor] = True
            state = State(state.world, state.answers, state.outcomes, tuple(promised))
        label = f"{program.name}: {step.method}{_shown(step)}"
        world = state.world.copy()
        answers = (*state.answers[actor], _answer(world, actor, step))
        step = program.next_step(answers)
        while isinstance(step, Call) and not self._every_call and _is_unseen(world, actor, step):
            answers = (*answers, _answer(world, actor, step))
            step = program.next_step(answers)
        outcome = step.outcome if isinstance(step, Ended) else None
        return label, _with(state, world, actor, answers, outcome)


def _answer(world: World, actor: int, step: Call) -> Answer:
    try:
        return world.apply(actor, step.method, step.arguments)
    except OSError as error:
        return Failed(error.errno or 0)


def _is_unseen(world: World, actor: int, step: Call) -> bool:
    if step.method in _UNSEEN:
        return True
    target = world.held[actor, step.arguments[0]].target if _is_open(world, actor, step) else None
    if step.method == "close":
        return target not in world.locks
    named = target in world.names.values() or any(target in it for it in world.unsynced.values())
    return target is not None and step.method in _UNSEEN_OF_UNNAMED and not named


def _is_open(world: World, actor: int, step: Call) -> bool:
    return bool(step.arguments) and (actor, step.arguments[0]) in world.held


def _with(
    state: State, world: World, actor: int, answers: tuple[Answer, ...], outcome: Hashable
) -> State:
    all_answers, outcomes = list(state.answers), list(state.outcomes)
    all_answers[actor] = answers if outcome is None else ()  # how it got there is of no matter
    outcomes[actor] = outcome
    return State(world, tuple(all_answers), tuple(outcomes), state.promised)


def _shown(step: Call) -> str:
    names = [str(each)[-70:] for each in step.arguments if isinstance(each, str)]
    return f"({', '.join(names)})" if names else ""


def _way(came_from: dict[Hashable, tuple[Hashable, str]], key: Hashable) -> list[str]:
    """The calls that led to a state."""
    labels: list[str] = []
    while key in came_from:
        key, label = came_from[key]
        labels.append(label)
    return labels[::-1]
