"""`attachstore replay`: a session read back, everything it refers to verified."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from attachstore.cli.command import PATH, Command, complete_session
from attachstore.cli.exit_status import ExitStatus, worst
from attachstore.cli.invocation import Invocation, pass_invocation
from attachstore.cli.output import Output, human_size, plural, visible
from attachstore.errors import LogDamagedError

if TYPE_CHECKING:
    from attachstore.readback import Readback
    from attachstore.replay import Resolved, Step
    from attachstore.sessions.event import SessionView

_STATUSES = {
    "ok": ExitStatus.DONE,
    "missing": ExitStatus.NOT_FOUND,
    "corrupt": ExitStatus.CORRUPT,
    "unreadable": ExitStatus.CORRUPT,
    "header-mismatch": ExitStatus.HEADER_MISMATCH,
}


@click.command(
    "replay",
    cls=Command,
    short_help="Read a session back and verify its attachments.",
    examples=[
        "attachstore replay s-1",
        "attachstore replay s-1 --at 12 --html s-1.html",
        "attachstore replay s-1 --export ./attachments --json > s-1.jsonl",
    ],
)
@click.argument("session", metavar="SESSION", shell_complete=complete_session)
@click.option(
    "--at", type=click.IntRange(0), metavar="N", help="Stop after event N, which must be there."
)
@click.option(
    "--export",
    "directory",
    type=PATH,
    metavar="DIR",
    help="Write the attachments into DIR, new or empty, under safe names, with a manifest.",
)
@click.option(
    "--html",
    "page",
    type=PATH,
    metavar="FILE",
    help="Write one self-contained page: timeline, thumbnails, outcomes.",
)
@pass_invocation
def command(
    invocation: Invocation, session: str, at: int | None, directory: str | None, page: str | None
) -> int:
    """Read SESSION back, offline: print every event, and verify every reference in it.

    Each attachment is ok, missing, corrupt, header-mismatch or unreadable. All are listed,
    whatever is found; the exit status is that of the worst: 4, then 3, then 5. Nothing is
    executed, written or repaired, so a read-only copy of a store is enough.
    """
    return invocation.run(lambda: _replay(invocation, session, at, directory, page))


@dataclass(slots=True, kw_only=True)
class _Found:
    """What a replay counts."""

    events: int = 0
    proven: int = 0
    """Those chained one to the other from the first on; behind a gap no event is."""
    outcomes: Counter[str] = field(default_factory=Counter[str])

    def add(self, step: Step) -> None:
        if step.event.verified and self.proven == self.events:
            self.proven += 1
        self.events += 1
        self.outcomes.update(each.outcome.value for each in step.attachments)


async def _replay(
    invocation: Invocation, session: str, at: int | None, directory: str | None, page: str | None
) -> int:
    from attachstore.cli.progress import counted
    from attachstore.replay import check_at

    out = invocation.out
    found = _Found()
    async with invocation.reading() as store:
        readback = store.readback(session, at=at)
        view = await readback.view()
        where = store.logs.where(session)
        check_at(view, at, where)
        if not out.as_json:
            out.line(_headline(view))
        with counted(out, "reading events", view.head_seq if at is None else at) as count:
            async for step in readback.steps(lenient=True):
                found.add(step)
                _print_step(invocation, step)
                count()
        damage = _damage(view, at, where)
        if damage is not None:
            out.failure(damage)
        if directory is not None:
            await _export(invocation, readback, Path(directory))
        if page is not None:
            await _write_page(invocation, readback, Path(page))
    _print_summary(invocation, found, has_gaps=damage is not None)
    statuses = {_STATUSES[outcome] for outcome in found.outcomes}
    return worst(statuses | {ExitStatus.CORRUPT} if damage else statuses)


def _headline(view: SessionView) -> str:
    if not view.has_header:
        return f"session {visible(view.header.id)}, its header damaged"
    parent = view.header.parent
    text = f"session {visible(view.header.id)}, {plural(view.head_seq, 'event')}"
    if view.damage is not None:
        text += f" before the damage at line {view.damage.line}"
    return text if parent is None else f"{text}, fork of {visible(parent.id)} at {parent.seq}"


def _damage(view: SessionView, at: int | None, where: str) -> LogDamagedError | None:
    """The log's damage, unless all events that were asked for come before it."""
    found = view.damage_up_to(at)
    if found is None:
        return None
    return LogDamagedError(
        where=where,
        session=view.header.id,
        line=found.line,
        offset_bytes=found.offset_bytes,
        reason=found.reason,
        head_seq=view.head_seq,
    )


def _print_step(invocation: Invocation, step: Step) -> None:
    from attachstore.cli.rendering import event_as_json, event_as_text

    out = invocation.out
    if out.as_json:
        attachments = [resolved_as_json(each) for each in step.attachments]
        out.record({**event_as_json(step.event), "attachments": attachments}, "")
        return
    mark = "" if step.event.verified else "  (after damage, unverified)"
    out.line(event_as_text(step.event, out.width) + mark)
    for each in step.attachments:
        _print_attachment(out, each)
        if each.error is not None:
            out.note(f"event {step.event.seq}: {each.error.code}: {each.error}")


def _print_attachment(out: Output, resolved: Resolved) -> None:
    """One line; on a terminal two, the digest on the second, so that neither is wrapped."""
    from attachstore.cli.rendering import reference_as_text

    outcome, pointer = resolved.outcome.value, visible(resolved.pointer or "-")
    shown = reference_as_text(resolved.reference, exact=not out.on_terminal)
    if not out.on_terminal:
        out.line(f"      {outcome:<15}  {pointer}  {shown}")
        return
    digest, _, rest = shown.partition("  ")
    style = "green" if outcome == "ok" else "bold red"
    out.styled(("      ", ""), (outcome, style), (f"  {rest}", ""))
    out.styled((f"      {digest}", "dim"))


def resolved_as_json(resolved: Resolved) -> dict[str, Any]:
    """One reference of an event and what became of it."""
    found: dict[str, Any] = {
        "pointer": resolved.pointer,
        "outcome": resolved.outcome.value,
        "reference": resolved.reference.to_json(),
    }
    if resolved.error is not None:
        found["error"] = resolved.error.details()
    return found


async def _export(invocation: Invocation, readback: Readback, directory: Path) -> None:
    async with invocation.waiting("exporting"):
        try:
            report = await readback.export(directory)
        except LogDamagedError as error:
            if error.line == 1:
                invocation.out.note("nothing was exported: no event comes before the damage")
            return  # said already; what comes before the damage has been exported
    renamed = f", {report.renamed} under another name" if report.renamed else ""
    invocation.out.note(
        f"exported {plural(report.files, 'file')}, {human_size(report.size_bytes)}{renamed}, to "
        f"{report.directory}"
    )


async def _write_page(invocation: Invocation, readback: Readback, page: Path) -> None:
    async with invocation.waiting("drawing the page"):
        try:
            report = await readback.write_page(page)
        except LogDamagedError:
            return  # said already, and the page says it too
    invocation.out.note(f"wrote {report.path}, {human_size(report.size_bytes)}")


def _print_summary(invocation: Invocation, found: _Found, *, has_gaps: bool) -> None:
    outcomes = found.outcomes
    if invocation.out.as_json:
        counts = {"events": found.events, "proven": found.proven, "outcomes": dict(outcomes)}
        invocation.out.report({"summary": counts})
        return
    counted = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(outcomes.items()))
    attachments = plural(outcomes.total(), "attachment")
    proven = f" ({found.proven:,} proven by the chain)" if has_gaps else ""
    text = (
        f"{plural(found.events, 'event')}{proven}, {attachments}{': ' if counted else ''}{counted}"
    )
    invocation.out.note(text)
