"""`attachstore session tree`: which session was forked from which, and where two histories part."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from attachstore.cli.command import Command, complete_session
from attachstore.cli.exit_status import ExitStatus, status_of, worst
from attachstore.cli.invocation import Invocation, pass_invocation
from attachstore.cli.output import plural, visible
from attachstore.errors import SessionMissingError, UnavailableError

if TYPE_CHECKING:
    from attachstore.sessions.lineage import Branch

_NOTES = {
    "proven": "from event {seq}",
    "claimed": "from event {seq}, says its header; the parent's log does not tell",
    "gone": "from event {seq} of {id}, which is not here",
    "found": "from event {seq}, by the chain; its header is lost",
}


@click.command(
    "tree",
    cls=Command,
    short_help="Show which session was forked from which.",
    examples=[
        "attachstore session tree",
        "attachstore session tree s-1",
        "attachstore session tree s-1 --compare s-2",
        "attachstore session tree s-1 --compare s-1 --in ../other-store",
    ],
)
@click.argument("session", required=False, metavar="[ID]", shell_complete=complete_session)
@click.option(
    "--compare",
    metavar="OTHER",
    shell_complete=complete_session,
    help="Print the last event that ID and OTHER have in common instead.",
)
@click.option("--in", "store", metavar="STORE", help="With --compare: OTHER is in this store.")
@pass_invocation
def tree_command(
    invocation: Invocation, session: str | None, compare: str | None, store: str | None
) -> int | None:
    """Show every session below the one it was forked from; with ID, that session and its forks.

    What a log's header says of its parent is checked against the chain. A session whose header is
    lost stands where its chain belongs. A log that cannot be read hides none of the others.
    Changes nothing.
    """
    if compare is None and store is not None:
        raise click.UsageError("--in goes with --compare")
    if compare is None:
        return invocation.run(lambda: _tree(invocation, session))
    if session is None:
        raise click.UsageError("--compare goes with an ID")
    return invocation.run(lambda: _compare(invocation, session, compare, store))


async def _tree(invocation: Invocation, session: str | None) -> int:
    async with invocation.reading() as store:
        roots: Sequence[Branch] = await store.sessions.tree()
        where = str(store.root)
    if session is not None:
        everyone = (branch for root in roots for _, branch in root.walk())
        roots = [branch for branch in everyone if branch.summary.id == session]
        if not roots:
            raise SessionMissingError(where=where, session=session)
    statuses: set[ExitStatus] = set()
    for root in roots:
        for stem, depth, branch in _drawn(root):
            problem = branch.summary.problem
            if isinstance(problem, UnavailableError):
                invocation.out.failure(problem, session=branch.summary.id)
                statuses.add(status_of(problem))
            invocation.out.record(
                {"depth": depth, **_branch_as_json(branch)},
                f"{stem}{_branch_as_text(branch)}",
            )
    return worst(statuses)


async def _compare(invocation: Invocation, session: str, other: str, place: str | None) -> None:
    async with contextlib.AsyncExitStack() as stores:
        store = await stores.enter_async_context(invocation.reading())
        second = store
        if place is not None:
            second = await stores.enter_async_context(invocation.other(place, read_only=True))
        found = await store.sessions.divergence(session, other, of=second.sessions)
    same = f"the same up to event {found.seq}  {found.chain}" if found.seq else "nothing in common"
    invocation.out.record(
        {"session": session, "other": other, "seq": found.seq, "chain": found.chain},
        f"{visible(session)}  {visible(other)}  {same}",
    )


def _drawn(root: Branch) -> Iterator[tuple[str, int, Branch]]:
    """Each branch with the lines to its left, and its depth."""
    waiting: list[tuple[str, str, int, Branch]] = [("", "", 0, root)]
    while waiting:
        own, below, depth, branch = waiting.pop()
        yield own, depth, branch
        for number, fork in enumerate(reversed(branch.forks)):
            ends = ("└─ ", "   ") if number == 0 else ("├─ ", "│  ")
            waiting.append((below + ends[0], below + ends[1], depth + 1, fork))


def _branch_as_text(branch: Branch) -> str:
    summary, origin = branch.summary, branch.origin
    parts = [visible(summary.id)]
    if origin is not None:
        note = _NOTES[origin.basis.value]
        parts.append(note.format(seq=origin.seq, id=visible(origin.id)))
    if summary.problem is None:
        parts.append(plural(summary.head_seq, "event"))
    else:
        parts.append(f"({summary.problem.code})")
    if summary.title is not None:
        parts.append(visible(summary.title))
    return "  ".join(parts)


def _branch_as_json(branch: Branch) -> dict[str, Any]:
    from attachstore.cli.rendering import summary_as_json

    origin = branch.origin
    claim = None
    if origin is not None:
        claim = {
            "id": origin.id,
            "seq": origin.seq,
            "chain": origin.chain,
            "basis": origin.basis.value,
        }
    return {**summary_as_json(branch.summary), "origin": claim}
