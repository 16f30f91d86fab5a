"""`attachstore session convert`: all session logs, from one medium to another."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

import click

from attachstore.cli.command import Command
from attachstore.cli.exit_status import ExitStatus
from attachstore.cli.invocation import Invocation, pass_invocation
from attachstore.cli.output import Output, human_size, plural, visible
from attachstore.config import SESSION_MEDIA

if TYPE_CHECKING:  # importing these takes longer than `--help` may
    from attachstore.conversion import ConversionProgress, ConversionReport


@click.command(
    "convert",
    cls=Command,
    short_help="Move all session logs to another medium.",
    examples=[
        "attachstore session convert sqlite --dry-run",
        "attachstore session convert sqlite",
        "attachstore session convert jsonl --with-damaged",
    ],
)
@click.argument("medium", type=click.Choice(SESSION_MEDIA))
@click.option("--dry-run", is_flag=True, help="Check all logs and say what stands in the way.")
@click.option(
    "--with-damaged", is_flag=True, help="Carry damaged logs over as they are, byte for byte."
)
@pass_invocation
def convert_command(
    invocation: Invocation, medium: str, dry_run: bool, with_damaged: bool
) -> ExitStatus:
    """Move the session logs of the whole store to MEDIUM. Nobody may write sessions meanwhile.

    Every log is checked, copied, read back and proven to be the same by its bytes and its chain;
    then the store names the new medium in one step. Interrupted or killed, it is the old store or
    the new one: run it again. The old logs are kept in the store's `converted/` until you remove
    them. A damaged log stops it before anything has changed.
    """
    return invocation.run(
        lambda: _convert(invocation, medium, dry_run=dry_run, with_damaged=with_damaged)
    )


async def _convert(
    invocation: Invocation, medium: str, *, dry_run: bool, with_damaged: bool
) -> ExitStatus:
    from attachstore.conversion import convert_sessions

    settings = invocation.settings()
    with _progress(invocation.out) as show:
        report = await convert_sessions(
            settings.store,
            medium,
            with_damaged=with_damaged,
            dry_run=dry_run,
            progress=show,
            weak_durability=settings.weak_durability,
        )
    for damage in report.damaged:
        invocation.out.failure(damage)
    invocation.out.record(_as_json(report), _as_text(report, dry_run=dry_run))
    stands_in_the_way = dry_run and report.damaged and not with_damaged
    return ExitStatus.CORRUPT if stands_in_the_way else ExitStatus.DONE


def _as_json(report: ConversionReport) -> dict[str, object]:
    return {
        "source": report.source,
        "target": report.target,
        "converted": report.converted,
        "sessions": report.sessions,
        "events": report.events,
        "size_bytes": report.size_bytes,
        "damaged": [damage.session for damage in report.damaged],
        "kept": report.kept,
    }


def _as_text(report: ConversionReport, *, dry_run: bool) -> str:
    what = (
        f"{plural(report.sessions, 'session')} with {plural(report.events, 'event')}, "
        f"{human_size(report.size_bytes)}"
    )
    if report.converted:
        text = f"converted {what} from {report.source} to {report.target}"
    elif dry_run and report.sessions:
        damaged = f", {len(report.damaged)} of them damaged" if report.damaged else ""
        text = f"to be converted from {report.source} to {report.target}: {what}{damaged}"
    else:
        text = f"there is nothing to convert: the sessions are in {report.target}"
    if report.kept is not None:
        text += f"; the old logs are kept in {visible(report.kept)}"
    return text


@contextlib.contextmanager
def _progress(out: Output) -> Generator[Callable[[ConversionProgress], None] | None]:
    if not out.shows_progress:
        yield None
        return
    from attachstore.cli.progress import bars

    with bars(with_rate=True) as drawn:
        task = drawn.add_task("starting", total=None)

        def show(progress: ConversionProgress) -> None:
            drawn.update(
                task,
                description=f"{progress.step.value} logs",
                completed=progress.bytes_done,
                total=progress.bytes_total or None,
            )

        yield show
