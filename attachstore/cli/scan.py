"""`attachstore scan`: every object against its name, every reference against its object."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from attachstore.cli.command import Command
from attachstore.cli.exit_status import ExitStatus, worst
from attachstore.cli.invocation import Invocation, pass_invocation
from attachstore.cli.output import Output, compact, human_size, plural, visible

if TYPE_CHECKING:
    from pathlib import Path

    from attachstore.integrity.progress import Progress
    from attachstore.integrity.report import Finding, ScanReport
    from attachstore.store import Store

_SUBSET = re.compile(r"([1-9][0-9]{0,8})/([1-9][0-9]{0,8})", re.ASCII)
_USES_SHOWN_MAX = 10
_MB = 1_000_000
_STATUSES = {
    "corrupt": ExitStatus.CORRUPT,
    "missing": ExitStatus.NOT_FOUND,
    "mismatch": ExitStatus.HEADER_MISMATCH,
}


class _Subset(click.ParamType[tuple[int, int]]):
    name = "K/N"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        match = _SUBSET.fullmatch(str(value))
        if match is None or int(match[1]) > int(match[2]):
            self.fail(f"{value!a} is not K/N with K from 1 to N, like 2/7", param, ctx)
        return int(match[1]), int(match[2])


class _Rate(click.ParamType[float]):
    name = "MB/s"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            rate = float(str(value))
        except ValueError:
            rate = 0.0
        if not (math.isfinite(rate) and rate > 0):
            self.fail(f"{value!a} is not a number above 0, of megabytes per second", param, ctx)
        return rate * _MB


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    subset: tuple[int, int] | None
    deep: bool
    rate: float | None
    resume: bool
    repair_from: str | None
    quarantine: bool


@click.command(
    "scan",
    cls=Command,
    short_help="Check every object and every log.",
    examples=[
        "attachstore scan",
        "attachstore scan --subset 1/7    # a seventh of the objects, every day another",
        "attachstore scan --deep --rate 50 --resume    # slowly, and from where it stopped",
        "attachstore scan --repair-from /backup/store",
        "attachstore scan --json | jq .counts",
    ],
)
@click.option("--subset", type=_Subset(), help="Check only the K-th of N parts of the objects.")
@click.option(
    "--deep", is_flag=True, help="Decode pictures and documents again: frames, pages, damage."
)
@click.option("--rate", type=_Rate(), help="Read at most so many million bytes per second.")
@click.option(
    "--resume",
    is_flag=True,
    help="Keep how far the scan has come; go on from there if one was interrupted.",
)
@click.option(
    "--repair-from",
    metavar="STORE",
    help="Put verified copies from STORE in the place of corrupt and missing objects.",
)
@click.option(
    "--quarantine", is_flag=True, help="Move corrupt objects aside; their bytes are kept."
)
@pass_invocation
def command(invocation: Invocation, **options: Any) -> int:
    """Read every object and every session log, and check one against the other, both ways.

    Reports corrupt, misplaced and unreadable objects, damaged logs, dangling references and
    header mismatches, each with the events concerned: exit status 4, 3 or 5, the first that
    fits. What was mended, unreferenced objects, leftovers and the like are notes: exit status
    0. May run beside writers. Removes nothing.
    """
    return invocation.run(lambda: _scan(invocation, _Options(**options)))


async def _scan(invocation: Invocation, options: _Options) -> int:
    from asyncio import CancelledError

    changes = options.quarantine or options.repair_from is not None
    async with _opened(invocation, changes=changes, deep=options.deep) as store:
        checkpoint = _checkpoint(invocation, store) if options.resume else None
        try:
            with _progress(invocation.out) as show:
                report = await store.scan(
                    subset=options.subset,
                    deep=options.deep,
                    quarantine=options.quarantine,
                    repair_from=options.repair_from,
                    rate_bytes_s=options.rate,
                    resume=checkpoint,
                    progress=show,
                )
        except CancelledError:
            if checkpoint is not None:
                invocation.out.note("the same command goes on from where it was interrupted")
            raise
    if invocation.out.as_json:
        invocation.out.pieces(report.json_parts(compact))
    else:
        _print_report(invocation.out, report)
    return worst({_STATUSES[finding.kind.severity.value] for finding in report.findings})


def _opened(
    invocation: Invocation, *, changes: bool, deep: bool
) -> contextlib.AbstractAsyncContextManager[Store]:
    # Decoders work on what a damaged or hostile store holds: not in this process.
    if changes:
        return invocation.writing(create=False, decode_in_process=not deep)
    return invocation.reading(decode_in_process=not deep)


def _checkpoint(invocation: Invocation, store: Store) -> Path:
    """Where it is kept, which is told, since nobody would guess it."""
    from attachstore.cli.checkpoints import checkpoint_of

    path = checkpoint_of(store)
    invocation.out.note(f"how far the scan has come is kept in {path}")
    return path


@contextlib.contextmanager
def _progress(out: Output) -> Generator[Callable[[Progress], None] | None]:
    """A bar with rate and time left on a terminal; nothing elsewhere."""
    if not out.shows_progress:
        yield None
        return
    from attachstore.cli.progress import bars

    with bars(with_rate=True) as drawn:
        task = drawn.add_task("starting", total=None)

        def show(progress: Progress) -> None:
            total = progress.bytes_total if progress.phase.value == "objects" else None
            drawn.update(
                task,
                description=_LABELS[progress.phase.value],
                completed=progress.bytes_done,
                total=total,
            )

        yield show


_LABELS = {
    "listing": "listing objects",
    "logs": "reading session logs",
    "objects": "reading objects",
    "uses": "looking up who is affected",
}


def _print_report(out: Output, report: ScanReport) -> None:
    for finding in report.findings:
        _print_finding(out, finding, "fault")
    for note in report.notes:
        _print_finding(out, note, "note")
    unreferenced = report.unreferenced
    if unreferenced:
        out.line(
            f"note   unreferenced  {plural(len(unreferenced), 'object')}, "
            f"{human_size(unreferenced.size_bytes)}, referred to by no session; kept"
        )
    rate = report.bytes_read / report.elapsed_s if report.elapsed_s > 0 else 0
    if report.resumed is not None:
        out.line(
            f"went on with a scan begun at {report.resumed.started_at}, which had read "
            f"{plural(report.resumed.objects, 'object')}"
        )
    part = f" (part {report.subset[0]} of {report.subset[1]})" if report.subset else ""
    out.line(
        f"read {plural(report.objects, 'object')}{part}, {human_size(report.bytes_read)}, "
        f"{plural(report.sessions, 'session')}, {plural(report.events, 'event')}, "
        f"{plural(report.references, 'reference')} in {report.elapsed_s:.1f} s "
        f"({human_size(int(rate))}/s)"
    )
    faults = len(report.findings)
    out.line("clean" if report.clean else f"{plural(faults, 'fault')} found")


def _print_finding(out: Output, finding: Finding, label: str) -> None:
    place = ""
    if finding.session is not None:
        place = f"session {visible(finding.session)}"
        if finding.line is not None:
            place += f", line {finding.line}, byte {finding.offset_bytes}"
        place += ": "
    out.line(f"{label:<5}  {finding.kind.value}  {place}{visible(finding.what)}")
    if finding.path is not None:
        out.line(f"       at {visible(finding.path)}")
    for use in finding.uses[:_USES_SHOWN_MAX]:
        place = visible(use.pointer) or "the data itself"
        out.line(f"       in session {visible(use.session)}, event {use.seq}, {place}")
    if finding.uses_total > _USES_SHOWN_MAX:
        out.line(f"       and {finding.uses_total - _USES_SHOWN_MAX:,} more; --json lists them")
    out.line(f"       {finding.mend}")
