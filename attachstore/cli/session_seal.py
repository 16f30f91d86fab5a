"""`attachstore session seal`, `session unseal`: logs in less room, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from attachstore.cli.command import Command, complete_session
from attachstore.cli.exit_status import status_of_items
from attachstore.cli.invocation import Invocation, pass_invocation
from attachstore.cli.output import human_size, visible

if TYPE_CHECKING:  # importing these takes longer than `--help` may
    from attachstore.errors import AttachstoreError
    from attachstore.store import Store

_sessions = click.argument(
    "sessions", nargs=-1, required=True, metavar="ID...", shell_complete=complete_session
)


@click.command(
    "seal",
    cls=Command,
    short_help="Keep logs in less room.",
    examples=["attachstore session seal s-1", "attachstore session seal s-1 s-2"],
)
@_sessions
@pass_invocation
def seal_command(invocation: Invocation, sessions: tuple[str, ...]) -> int:
    """Compress the logs of sessions that nobody writes, proven to be the same by their chains.

    Everything works on them as before, appends too, and they stay sealed; sealing them again packs
    what was appended. Only logs that are files of their own can be sealed, not those in SQLite.
    """
    return invocation.run(lambda: _each(invocation, sessions, unseal=False))


@click.command(
    "unseal",
    cls=Command,
    short_help="Make sealed logs plain again.",
    examples=["attachstore session unseal s-1"],
)
@_sessions
@pass_invocation
def unseal_command(invocation: Invocation, sessions: tuple[str, ...]) -> int:
    """Unpack the logs of sessions, byte for byte as they were before `seal`."""
    return invocation.run(lambda: _each(invocation, sessions, unseal=True))


async def _each(invocation: Invocation, sessions: Sequence[str], *, unseal: bool) -> int:
    from attachstore.errors import AttachstoreError

    errors: list[AttachstoreError] = []
    async with invocation.writing(create=False) as store:
        for session in sessions:
            try:
                await (_unseal if unseal else _seal)(invocation, store, session)
            except AttachstoreError as error:
                errors.append(error)
                invocation.out.failure(error)
    return status_of_items(len(sessions) - len(errors), errors)


async def _seal(invocation: Invocation, store: Store, session: str) -> None:
    async with invocation.waiting(f"sealing {visible(session)}"):
        report = await store.sessions.seal(session)
    value = {
        "session": session,
        "sealed": True,
        "head_seq": report.head_seq,
        "head_chain": report.head_chain,
        "size_bytes": report.size_bytes,
        "stored_bytes": report.stored_bytes,
    }
    sizes = f"{human_size(report.size_bytes)} in {human_size(report.stored_bytes)}"
    invocation.out.record(value, f"sealed {visible(session)}: {sizes}")


async def _unseal(invocation: Invocation, store: Store, session: str) -> None:
    async with invocation.waiting(f"unsealing {visible(session)}"):
        await store.sessions.unseal(session)
    value = {"session": session, "sealed": False}
    invocation.out.record(value, f"unsealed {visible(session)}")
