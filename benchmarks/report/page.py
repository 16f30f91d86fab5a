"""docs/performance.md and its plots, from what a run has kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.report.plots import Labels, Points, bars, lines
from benchmarks.report.results import FOLDER, Answer, Results
from benchmarks.report.targets import TARGETS, Target

PAGE = FOLDER.parent / "performance.md"
SHORT_MINUTES = 15
BUSY_LOAD = 4.0
"""More than the benchmarks themselves make."""
OPERATIONS = ("attach", "duplicate", "read", "scan")

HEAD = """# Performance

<!-- Made by `make bench`. `python -m benchmarks --page` writes it again from its JSON. -->

Every figure is a quotient: the time of ours divided by the time of a floor or a peer, measured in
the same run on the same disk. Below 1 ours is faster. Both sides run in every round, in shuffled
order, so that both meet the same neighbours; a round gives one quotient, and the page shows the
median and the 90th percentile of the rounds. Milliseconds would say more about the machine than
about the code.

{notice}"""

HOW = """## How to measure it again

<!-- not run: it takes twenty minutes -->
```console
$ make peers        # what is compared with, into .peers, for this alone
$ make bench        # prints all figures and writes this page
$ python -m benchmarks --only append --minutes 2
$ python -m benchmarks --page
```

As root a fresh ext4 with the defaults of `mkfs.ext4` is made in a file and mounted, since a
machine's own disk may have no journal; else the run says on which file system it was. Two
benchmarks run once more on XFS. `--million` adds a store of a million objects to the growth.
"""


def write(results: Results, page: Path = PAGE) -> None:
    """The page, and its plots in a folder beside it."""
    folder = page.parent / FOLDER.name
    folder.mkdir(exist_ok=True)
    for name, svg in _plots(results).items():
        (folder / f"{name}.svg").write_text(svg)
    page.write_text(render(results))


def render(results: Results) -> str:
    plots = _plots(results)
    parts = [
        HEAD.format(notice=_notice(results)),
        _targets(results, plots),
        *(_peers(results, operation, plots) for operation in OPERATIONS),
        _section(results, "concurrent", "Many at a time", plots),
        _section(results, "growth", "As the store grows", plots),
        _section(results, "many small", "Many small ones", plots),
        _rest(results),
        _section(results, "xfs", "On XFS", plots),
        _section(results, "steps", "Where the time goes", plots),
        _missing(results),
        _runs(results),
        HOW,
    ]
    return "\n".join(part for part in parts if part)


# -- parts -----------------------------------------------------------------------------------


def _notice(results: Results) -> str:
    outcomes = list(results.outcomes.values())
    if not outcomes:
        return "Nothing has been measured yet.\n"
    days = sorted({outcome.when[:10] for outcome in outcomes})
    last = outcomes[-1]
    short = ""
    if results.minutes < SHORT_MINUTES:
        short = (
            f"\n\n**A reduced run**, of {results.minutes:g} minutes instead of 20: few rounds, so "
            "the figures are rough."
        )
    load = max(float(outcome.busy.partition(",")[0]) for outcome in outcomes)
    if load >= BUSY_LOAD:
        short += (
            f"\n\n**The machine was busy with other work**: up to {load:g} processes wanted a "
            "processor when a benchmark began. The 90th percentiles show it."
        )
    main = next((outcome for outcome in outcomes if " on " not in outcome.benchmark), last)
    return f"Measured {' to '.join(days)} on {main.place}; {last.machine}.{short}\n"


def _targets(results: Results, plots: Iterable[str]) -> str:
    rows = ["## Targets", "", "| what | compared with | target | measured | |", "|--|--|--|--|--|"]
    for target in TARGETS:
        answers = _aimed(results, target)
        missed = [answer for answer in answers if not answer.met]
        verdict = "met" if not missed else f"**NOT MET**: {len(missed)} of {len(answers)}"
        rows.append(
            f"| {target.what} | {target.against} | {target.goal} | {_range(answers)} "
            f"| {verdict if answers else 'not measured'} |"
        )
    rows += [
        "",
        "Measured: the least and the greatest median of the rows that have this target.",
        "",
    ]
    if "targets" in plots:
        rows += ["![Medians divided by their targets](performance/targets.svg)", ""]
    return "\n".join([*rows, *_why(results)])


def _why(results: Results) -> list[str]:
    """For each target that is not met: which rows, and the reason."""
    found: list[str] = []
    for target in TARGETS:
        missed = [answer for answer in _aimed(results, target) if not answer.met]
        if missed:
            # Peers are many; their tables mark each that is not met.
            shown = missed if len(missed) <= 12 else []
            found += [f"### Not met: {target.what}", "", target.why_not, ""]
            found += [
                f"- {answer.question.text}, {answer.size}: {answer.median:.2f}, "
                f"target {answer.question.target:g}"
                for answer in shown
            ]
            found += [""] if shown else []
    return found


def _peers(results: Results, operation: str, plots: Iterable[str]) -> str:
    """A table with a row for each peer and a column for each size."""
    answers = [
        answer
        for answer in results.answers("peers")
        if answer.question.text.startswith(f"{operation}: ")
    ]
    if not answers:
        return ""
    parts = [f"## Other stores: {operation}", ""]
    for ours in dict.fromkeys(_sides(answer)[0] for answer in answers):
        mine = [answer for answer in answers if _sides(answer)[0] == ours]
        sizes = list(dict.fromkeys(answer.size for answer in mine))
        parts += [
            f"{ours}, {mine[0].question.ours_durable}:",
            "",
            f"| compared with | its promise | {' | '.join(sizes)} |",
            "|--|--|" + "--|" * len(sizes),
        ]
        for theirs in dict.fromkeys(_sides(answer)[1] for answer in mine):
            row = {answer.size: answer for answer in mine if _sides(answer)[1] == theirs}
            promise = next(iter(row.values())).question.floor_durable
            cells = [_cell(row[size]) if size in row else "" for size in sizes]
            parts.append(f"| {theirs} | {promise} | {' | '.join(cells)} |")
        parts.append("")
    if f"peers-{operation}" in plots:
        parts += [f"![{operation} beside peers](performance/peers-{operation}.svg)", ""]
    parts += [
        "Bold: slower than a peer that promises as much. In italics: the peer promises less.",
        "",
    ]
    return "\n".join(parts)


def _section(results: Results, group: str, title: str, plots: Iterable[str]) -> str:
    answers = results.answers(group)
    if not answers:
        return ""
    picture = [f"![{title}](performance/{group}.svg)", ""] if group in plots else []
    return "\n".join([f"## {title}", "", *picture, *_table(answers), ""])


def _rest(results: Results) -> str:
    """Every group that has no section of its own."""
    own = {"peers", "concurrent", "growth", "many small", "steps", "xfs"}
    answers = [
        answer
        for group in results.groups()
        if group not in own
        for answer in results.answers(group)
    ]
    return "\n".join(["## Beside the floor", "", *_table(answers), ""]) if answers else ""


def _missing(results: Results) -> str:
    absent = [name for name, version in results.versions.items() if version == "absent"]
    failed = [outcome for outcome in results.outcomes.values() if outcome.failure]
    present = ", ".join(
        f"{name} {version}" for name, version in results.versions.items() if version != "absent"
    )
    parts = ["## What was compared with", "", f"{present or 'Nothing'}.", ""]
    if absent:
        parts += [
            f"Not there when this was measured, so not compared with: {', '.join(absent)}.",
            "",
        ]
    parts += [f"- `{outcome.benchmark}` gave no figures: {outcome.failure}" for outcome in failed]
    return "\n".join([*parts, ""] if failed else parts)


def _runs(results: Results) -> str:
    rows = ["## Runs", "", "| benchmark | when | seconds | load before, after |", "|--|--|--:|--|"]
    rows += [
        f"| {outcome.benchmark} | {outcome.when} | {outcome.seconds:.0f} | {outcome.busy} |"
        for outcome in results.outcomes.values()
    ]
    return "\n".join([*rows, ""])


def _table(answers: Iterable[Answer]) -> list[str]:
    rows = [
        "| ours / compared with | size | median | p90 | target | | rounds | ours; the other |",
        "|--|--|--:|--:|--:|--|--:|--|",
    ]
    for answer in answers:
        question = answer.question
        aimed = question.target is not None
        verdict = "" if not aimed else "met" if answer.met else "**NOT MET**"
        rows.append(
            f"| {question.text} | {answer.size} | {answer.median:.2f} | {answer.p90:.2f} "
            f"| {f'{question.target:g}' if aimed else ''} | {verdict} | {answer.rounds} "
            f"| {question.ours_durable}; {question.floor_durable} |"
        )
    return rows


# -- plots -----------------------------------------------------------------------------------


def _plots(results: Results) -> dict[str, str]:
    found: dict[str, str] = {}
    aimed = {
        f"{answer.question.text}, {answer.size}"[:68]: answer.median / answer.question.target
        for target in TARGETS
        if target.group not in {"peers", "growth"}
        for answer in _aimed(results, target)
        if answer.question.target
    }
    if aimed:
        found["targets"] = bars("Median divided by its target: at most 1 is met", aimed)
    for operation in OPERATIONS:
        series = _peer_series(results, operation)
        if series:
            labels = Labels(
                title=f"{operation}: time of ours / of the peer",
                x="bytes",
                y="below 1: ours is faster",
            )
            found[f"peers-{operation}"] = lines(labels, series)
    tasks = _series(
        results.answers("concurrent"),
        name=lambda answer: answer.question.text.partition(":")[0],
        x=lambda answer: float(answer.size.split()[0]) if answer.size.endswith("tasks") else None,
        y=lambda answer: 1 / answer.median,
    )
    if tasks:
        labels = Labels(title="Throughput / one writer", x="tasks", y="times, 6 is the target")
        found["concurrent"] = lines(labels, tasks, mark=6)
    growth = _series(
        results.answers("growth"),
        name=lambda answer: answer.question.text.removeprefix("growth: ").partition(" / ")[0],
        x=lambda answer: float(answer.size.replace(",", "")),
        y=lambda answer: answer.median,
    )
    if growth:
        labels = Labels(title="Cost / in the smallest store", x="objects in the store", y="times")
        found["growth"] = lines(labels, growth)
    return found


def _peer_series(results: Results, operation: str) -> dict[str, Points]:
    """Those at equal durability, ours as a store is opened by default."""
    answers = [
        answer
        for answer in results.answers("peers")
        if answer.question.text.startswith(f"{operation}: attachstore / ")
        and answer.question.target is not None
    ]
    return _series(
        answers,
        name=lambda answer: answer.question.floor,
        x=lambda answer: _size_bytes(answer.size),
        y=lambda answer: answer.median,
    )


def _series(
    answers: Iterable[Answer],
    *,
    name: Callable[[Answer], str],
    x: Callable[[Answer], float | None],
    y: Callable[[Answer], float],
) -> dict[str, Points]:
    found: dict[str, list[tuple[float, float]]] = {}
    for answer in answers:
        place = x(answer)
        if place is not None:
            found.setdefault(name(answer), []).append((place, y(answer)))
    return dict(found)


def _size_bytes(size: str) -> float:
    """Of `100 KiB` or `80 x 100 KiB`."""
    number, unit = size.split()[-2:]
    return float(number) * {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}[unit]


def _aimed(results: Results, target: Target) -> list[Answer]:
    return [
        answer for answer in results.answers(target.group) if answer.question.target is not None
    ]


def _range(answers: list[Answer]) -> str:
    if not answers:
        return ""
    low, high = min(each.median for each in answers), max(each.median for each in answers)
    return f"{low:.2f}" if low == high else f"{low:.2f} - {high:.2f}"


def _sides(answer: Answer) -> tuple[str, str]:
    ours, _, theirs = answer.question.text.partition(": ")[2].partition(" / ")
    return ours, theirs


def _cell(answer: Answer) -> str:
    shown = f"{answer.median:.2f} ({answer.p90:.2f})"
    if answer.question.target is None:
        return f"*{shown}*"
    return shown if answer.met else f"**{shown}**"
