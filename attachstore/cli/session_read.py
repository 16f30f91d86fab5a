"""`attachstore session list`, `show` and `verify`: what is there, and whether it is whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from attachstore.cli.command import Command, complete_session
from attachstore.cli.exit_status import ExitStatus, status_of, worst
from attachstore.cli.invocation import Invocation, pass_invocation
from attachstore.cli.output import Output, compact, human_size, plural, visible
from attachstore.errors import AttachstoreError, LogDamagedError, UnavailableError

if TYPE_CHECKING:
    from attachstore.reference import Reference
    from attachstore.sessions.event import Event, SessionSummary, SessionView
    from attachstore.store import Store


@click.command(
    "list",
    cls=Command,
    short_help="List the sessions.",
    examples=["attachstore session list", "attachstore session list --json | jq -r .id"],
)
@pass_invocation
def list_command(invocation: Invocation) -> int:
    """List the sessions: id, head (the newest event), size of the log, time of the last event,
    title.

    Reads the first and the last line of each log only. A session that cannot be used as it is
    stands in the list with its problem; if its log cannot be read at all, the error is told too,
    and is the exit status. Damage is for `verify` and `scan` to judge.
    """
    return invocation.run(lambda: _list(invocation))


async def _list(invocation: Invocation) -> int:
    from attachstore.cli.rendering import summary_as_json

    out = invocation.out
    async with invocation.reading() as store:
        summaries = await store.sessions.list()
    if out.as_json:
        for summary in summaries:
            out.record(summary_as_json(summary), "")
    else:
        out.table(
            ("session", "head", "size", "last event", "title"),
            (_summary_as_row(summary, out.width) for summary in summaries),
        )
    statuses: set[ExitStatus] = set()
    for summary in summaries:
        if isinstance(summary.problem, UnavailableError):
            out.failure(summary.problem, session=summary.id)
            statuses.add(status_of(summary.problem))
    return worst(statuses)


def _summary_as_row(summary: SessionSummary, width: int | None) -> Sequence[str]:
    from attachstore.cli.rendering import time_as_text

    size = str(summary.size_bytes) if width is None else human_size(summary.size_bytes)
    title = f"({summary.problem.code})" if summary.problem else visible(summary.title or "-")
    time = time_as_text(summary.last_time, width)
    head = str(summary.head_seq)
    if isinstance(summary.problem, UnavailableError):  # not even where it ends
        head, size = "-", size if summary.size_bytes else "-"
    return (visible(summary.id), head, size, time, title)


@click.command(
    "show",
    cls=Command,
    short_help="Show a session's head, references and damage.",
    examples=[
        "attachstore session show s-1",
        "attachstore session show s-1 --events --after 10",
    ],
)
@click.argument("session", metavar="ID", shell_complete=complete_session)
@click.option("--events", is_flag=True, help="Print the events instead, one per line.")
@click.option(
    "--after", type=click.IntRange(0), default=0, metavar="SEQ", help="Only events after this one."
)
@pass_invocation
def show_command(invocation: Invocation, session: str, events: bool, after: int) -> None:
    """Show what a session's log holds: head, parent, references, and any damage. Changes nothing.

    A damaged log is shown up to the damage; with --events the intact events are printed before
    the error. If the header is damaged, those that can be read behind it are.
    """
    if after and not events:
        raise click.UsageError("--after goes with --events")
    if events:
        invocation.run(lambda: _show_events(invocation, session, after))
    else:
        invocation.run(lambda: _show(invocation, session))


async def _show_events(invocation: Invocation, session: str, after: int) -> None:
    async with invocation.reading() as store:
        read = partial(store.sessions.read, session, after=after)
        try:
            await _print_events(invocation.out, read())
        except LogDamagedError as error:
            if error.line == 1:  # nothing comes before the header; what is behind it is intact
                await _print_events(invocation.out, read(damaged="resync"))
            raise


async def _print_events(out: Output, events: AsyncIterator[Event]) -> None:
    from attachstore.cli.rendering import event_as_json, event_as_text

    async for event in events:
        if out.as_json:
            out.record(event_as_json(event), "")
        else:
            out.line(event_as_text(event, out.width))


async def _show(invocation: Invocation, session: str) -> None:
    from attachstore.cli.rendering import view_as_json

    out = invocation.out
    async with invocation.reading() as store:
        view = await store.sessions.inspect(session)
        references = [reference async for reference in _references(store, session)]
    objects = {reference.digest: reference.size for reference in references}
    counted = {
        "references": len(references),
        "objects": len(objects),
        "size_bytes": sum(objects.values()),
    }
    if out.as_json:
        out.record({**view_as_json(view), "attachments": counted}, "")
        return
    attachments = (
        f"{plural(len(references), 'reference')} to {plural(len(objects), 'object')}, "
        f"{human_size(counted['size_bytes'])}"
    )
    out.facts(_view_as_facts(view, attachments))


async def _references(store: Store, session: str) -> AsyncIterator[Reference]:
    from attachstore.sessions.data import references_in

    async for event in store.sessions.read(session, damaged="stop"):
        for _, reference in references_in(event.data):
            yield reference


def _view_as_facts(view: SessionView, attachments: str) -> Iterator[tuple[str, str]]:
    header, parent = view.header, view.header.parent
    yield "session", visible(header.id)
    if header.title is not None:
        yield "title", visible(header.title)
    yield "created", header.created_at
    if header.cwd is not None:
        yield "directory", visible(header.cwd)
    if parent is not None:
        yield "fork of", f"{visible(parent.id)} at event {parent.seq}"
    yield "head", f"event {view.head_seq}"
    yield "chain", view.head_chain
    yield "last event", view.last_time or "-"
    yield "log", human_size(view.size_bytes)
    yield "attachments", attachments
    if header.meta:
        yield "meta", visible(compact(dict(header.meta)).decode())
    if view.closers:
        yield "open turn", f"a resume would add {plural(len(view.closers), 'event')} to close it"
    if view.tail is not None:
        yield "tail", f"{human_size(view.tail.size_bytes)} never acknowledged: {view.tail.reason}"
    if view.damage is not None:
        yield (
            "damage",
            f"line {view.damage.line}, byte {view.damage.offset_bytes}: {view.damage.reason}",
        )


@click.command(
    "verify",
    cls=Command,
    short_help="Check the chain of every event.",
    examples=["attachstore session verify s-1", "attachstore session verify   # all of them"],
)
@click.argument("sessions", nargs=-1, metavar="[ID...]", shell_complete=complete_session)
@pass_invocation
def verify_command(invocation: Invocation, sessions: tuple[str, ...]) -> int:
    """Read logs from end to end and check the chain that binds each event to all before it.

    Without ID, every session. Prints a line for each; damage is told with line, byte and reason,
    and the exit status is 4. The attachments are not read: `replay` and `scan` do that.
    """
    return invocation.run(lambda: _verify(invocation, sessions))


async def _verify(invocation: Invocation, sessions: Sequence[str]) -> int:
    statuses: set[ExitStatus] = set()
    async with invocation.reading() as store:
        chosen = sessions or [summary.id for summary in await store.sessions.list()]
        for session in chosen:
            try:
                view = await store.sessions.verify(session)
            except AttachstoreError as error:
                statuses.add(status_of(error))
                _print_verdict(invocation, session, error)
            else:
                _print_verdict(invocation, session, view)
    return worst(statuses)


def _print_verdict(
    invocation: Invocation, session: str, verdict: SessionView | AttachstoreError
) -> None:
    from attachstore.cli.rendering import view_as_json

    name = visible(session)
    if isinstance(verdict, AttachstoreError):
        value = {"session": session, "ok": False, "error": verdict.details()}
        invocation.out.record(value, f"{name}  {verdict.code}")
        invocation.out.failure(verdict)
        return
    tail = "  (an uncommitted tail is ignored)" if verdict.tail else ""
    invocation.out.record(
        {"session": session, "ok": True, **view_as_json(verdict)},
        f"{name}  ok  {plural(verdict.head_seq, 'event')}{tail}",
    )
