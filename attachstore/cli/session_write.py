"""`attachstore session append`, `fork`, `delete` and `repair`: what changes a log."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from attachstore.cli import standard_input
from attachstore.cli.appending import open_session
from attachstore.cli.command import PATH, Command, complete_session, limits
from attachstore.cli.exit_status import status_of_items
from attachstore.cli.invocation import Invocation, pass_invocation
from attachstore.cli.output import human_size, visible
from attachstore.errors import AttachstoreError, InvalidEventError

if TYPE_CHECKING:
    from attachstore.reference import Reference

ATTACHMENTS = "attachments"
_PARENT_CHARACTERS_MAX = 60
_STDIN_FACTOR = 8  # a character may stand there as \\u0041, six times as long as in the log


@click.command(
    "append",
    cls=Command,
    short_help="Append an event; its data is JSON on standard input.",
    examples=[
        """echo '{"role":"user","text":"what is this?"}' |""",
        "    attachstore session append s-1 --attach photo.jpg",
        "echo '{}' | attachstore session append s-1 --type turn/start --after 4",
    ],
)
@click.argument("session", metavar="ID", shell_complete=complete_session)
@click.option(
    "--type", "event_type", default="message", show_default=True, help="The event's type."
)
@click.option(
    "--attach",
    "files",
    multiple=True,
    metavar="FILE",
    type=PATH,
    help="Attach FILE; its reference goes into the data under `attachments`. Repeatable.",
)
@click.option(
    "--after",
    type=click.IntRange(0),
    metavar="SEQ",
    help="Append only if the head is event SEQ, else fail: nothing is written twice.",
)
@limits
@pass_invocation
def append_command(
    invocation: Invocation,
    session: str,
    event_type: str,
    files: tuple[str, ...],
    after: int | None,
) -> None:
    """Append one event to the session ID, which is made if need be. Its data is the JSON on
    standard input, read strictly: no NaN, no key twice.

    References are written there as `put --json` prints them, {"$attach":{...}}, at any depth;
    each must be in the store. The event is durable when the command returns.
    """
    data = _read_data(invocation)
    if files:
        _check_room(data)
    invocation.run(lambda: _append(invocation, session, event_type, data, files, after))


def _read_data(invocation: Invocation) -> Any:
    """Raises InvalidEventError, EventTooLargeError."""
    from attachstore.errors import EventTooLargeError
    from attachstore.sessions.data import BadDataError, from_wire, strict_json

    if standard_input.is_terminal():
        invocation.out.hint("type the event's data as JSON, then Ctrl-D")
    limit = invocation.settings().event_bytes_max
    raw = standard_input.read(limit * _STDIN_FACTOR + 1)
    if len(raw) > limit * _STDIN_FACTOR:
        raise EventTooLargeError(where="standard input", event_bytes_max=limit)
    if not raw.strip():
        reason = "nothing was given as its data, not even {}"
        raise InvalidEventError(where="standard input", reason=reason, pointer="byte 0")
    try:
        return from_wire(strict_json(raw))
    except BadDataError as error:
        raise InvalidEventError(
            where="standard input", reason=str(error), pointer="the JSON given"
        ) from None


def _check_room(data: Any) -> None:
    """Whether references can be added. Raises InvalidEventError."""
    reason = None
    if not isinstance(data, dict):
        reason = "--attach needs an object to put its references into"
    elif ATTACHMENTS in data:
        reason = f"--attach would overwrite the data's own {ATTACHMENTS}"
    if reason is not None:
        raise InvalidEventError(where="standard input", reason=reason, pointer=f"/{ATTACHMENTS}")


async def _append(
    invocation: Invocation,
    session_id: str,
    event_type: str,
    data: Any,
    files: Sequence[str],
    after: int | None,
) -> None:
    async with invocation.writing() as store:
        session = await open_session(store, session_id)
        references: list[Reference] = []
        if files:
            async with invocation.waiting("attaching"):
                references = await store.attach_many([Path(file) for file in files])
            data = {**cast("dict[str, Any]", data), ATTACHMENTS: references}
        event = await session.append(event_type, data, after=after)
    invocation.out.record(
        {
            "session": session_id,
            "seq": event.seq,
            "time": event.time,
            "type": event.type,
            ATTACHMENTS: [reference.to_json() for reference in references],
        },
        f"{visible(session_id)}  {event.seq}  {visible(event.type)}",
    )


@click.command(
    "fork",
    cls=Command,
    short_help="Branch a new session off an event.",
    examples=[
        "attachstore session fork s-1 --at 4 --id s-2",
        "attachstore session fork s-1 --into ../other-store",
    ],
)
@click.argument("session", metavar="ID", shell_complete=complete_session)
@click.option(
    "--at",
    type=click.IntRange(0),
    metavar="SEQ",
    help="Last event to take over [default: the head]",
)
@click.option("--id", "new_id", metavar="NEW", help="Id of the new session [default: made up]")
@click.option(
    "--into",
    metavar="STORE",
    help="Make it in another store, which must be there; attachments it lacks are copied.",
)
@pass_invocation
def fork_command(
    invocation: Invocation, session: str, at: int | None, new_id: str | None, into: str | None
) -> None:
    """Make a new session that begins with the events of ID up to SEQ.

    The log's lines are copied, the attachments are shared: they stay whichever of the two is
    deleted. With --into, the session is made in another store, wherever that keeps its logs.
    """
    invocation.run(lambda: _fork(invocation, session, at, new_id, into))


async def _fork(
    invocation: Invocation, session: str, at: int | None, new_id: str | None, into: str | None
) -> None:
    chosen = _made_up_id(session) if new_id is None else new_id
    async with contextlib.AsyncExitStack() as stores:
        if into is None:
            store = await stores.enter_async_context(invocation.writing(create=False))
            target = None
        else:
            store = await stores.enter_async_context(invocation.reading())
            target = await stores.enter_async_context(invocation.other(into))
            await stores.enter_async_context(invocation.waiting(f"forking into {visible(into)}"))
        sessions = None if target is None else target.sessions
        child = await store.sessions.fork(session, at=at, id=chosen, into=sessions)
        header, head = child.header, child.head
    parent = header.parent
    invocation.out.record(
        {
            "id": header.id,
            "head_seq": head,
            "parent": parent and {"id": parent.id, "seq": parent.seq, "chain": parent.chain},
        },
        visible(header.id),
    )


def _made_up_id(parent: str) -> str:
    """The parent's id and something nobody else has; of a long id, only the latter."""
    unique = secrets.token_hex(4)
    return f"{parent}.{unique}" if len(parent) <= _PARENT_CHARACTERS_MAX else unique


@click.command(
    "delete",
    cls=Command,
    short_help="Delete session logs, never objects.",
    examples=["attachstore session delete s-1", "attachstore session delete --yes s-1 s-2"],
)
@click.argument(
    "sessions", nargs=-1, required=True, metavar="ID...", shell_complete=complete_session
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def delete_command(invocation: Invocation, sessions: tuple[str, ...], yes: bool) -> int:
    """Delete the logs of sessions. Their attachments stay: others may refer to them.

    Asks on a terminal; elsewhere --yes is needed.
    """
    if not yes:
        if not standard_input.is_terminal():
            raise click.UsageError("nobody is there to ask; give --yes")
        names = ", ".join(visible(session) for session in sessions)
        click.confirm(f"Delete the log of {names}?", abort=True, err=True)
    return invocation.run(lambda: _delete(invocation, sessions))


async def _delete(invocation: Invocation, sessions: Sequence[str]) -> int:
    errors: list[AttachstoreError] = []
    async with invocation.writing(create=False) as store:
        for session in sessions:
            try:
                await store.sessions.delete(session)
            except AttachstoreError as error:
                errors.append(error)
                invocation.out.failure(error)
            else:
                value = {"session": session, "deleted": True}
                invocation.out.record(value, f"deleted {visible(session)}")
    return status_of_items(len(sessions) - len(errors), errors)


@click.command(
    "repair",
    cls=Command,
    short_help="Cut a damaged log after its last good event.",
    examples=["attachstore session repair s-1"],
)
@click.argument("session", metavar="ID", shell_complete=complete_session)
@pass_invocation
def repair_command(invocation: Invocation, session: str) -> None:
    """Cut the log after its last good event, so that it can be appended to again.

    The bytes cut off are kept beside the log, in `torn/`. Restoring the log from a copy keeps
    more: see `session verify` for where it is damaged.
    """
    invocation.run(lambda: _repair(invocation, session))


async def _repair(invocation: Invocation, session: str) -> None:
    async with invocation.writing(create=False) as store:
        report = await store.sessions.repair(session)
    if report.cut_bytes == 0:
        text = f"{visible(session)} needs no repair; its head is event {report.head_seq}"
    else:
        text = (
            f"{visible(session)} now ends at event {report.head_seq}; "
            f"{human_size(report.cut_bytes)} from byte {report.offset_bytes} on are kept in "
            f"{visible(report.kept or '-')}"
        )
    value = {
        "session": session,
        "head_seq": report.head_seq,
        "offset_bytes": report.offset_bytes,
        "cut_bytes": report.cut_bytes,
        "kept": report.kept,
        "reason": report.reason,
    }
    invocation.out.record(value, text)
