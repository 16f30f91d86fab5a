"""What a run found, kept as JSON beside the page, so that the page can be written again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from benchmarks.measure import Question, Row

FOLDER = Path(__file__).parents[2] / "docs" / "performance"
RESULTS = FOLDER / "results.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A row without its rounds."""

    question: Question
    size: str
    median: float
    p90: float
    rounds: int

    @property
    def met(self) -> bool:
        return self.question.target is None or self.median <= self.question.target


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One benchmark: when and where it ran, and its answers or what went wrong."""

    benchmark: str
    when: str
    place: str
    machine: str
    busy: str
    """How many processes wanted a processor, before and after."""
    seconds: float
    answers: tuple[Answer, ...] = ()
    failure: str = ""


@dataclass(slots=True, kw_only=True)
class Results:
    """The last outcome of each benchmark, and the versions of what was compared with."""

    minutes: float = 0.0
    versions: dict[str, str] = field(default_factory=dict[str, str])
    outcomes: dict[str, Outcome] = field(default_factory=dict[str, Outcome])

    def answers(self, group: str) -> list[Answer]:
        return [
            answer
            for outcome in self.outcomes.values()
            for answer in outcome.answers
            if answer.question.group == group
        ]

    def groups(self) -> list[str]:
        found = [
            answer.question.group
            for outcome in self.outcomes.values()
            for answer in outcome.answers
        ]
        return list(dict.fromkeys(found))


def answers(rows: Iterable[Row]) -> tuple[Answer, ...]:
    """Rounded to what a ratio can say."""
    return tuple(
        Answer(
            question=row.question,
            size=row.size,
            median=float(f"{row.median:.3g}"),
            p90=float(f"{row.p90:.3g}"),
            rounds=len(row.ratios),
        )
        for row in rows
    )


def load(path: Path = RESULTS) -> Results:
    """What was kept, or nothing yet."""
    if not path.exists():
        return Results()
    return msgspec.json.decode(path.read_bytes(), type=Results)


def save(results: Results, path: Path = RESULTS) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
