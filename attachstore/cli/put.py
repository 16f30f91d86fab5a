"""`attachstore put`: admit and commit files, print their references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from attachstore.cli.appending import open_session
from attachstore.cli.command import PATH, Command, complete_session, limits
from attachstore.cli.exit_status import status_of_items
from attachstore.cli.invocation import Invocation, pass_invocation
from attachstore.cli.output import OutputFailedError, plural
from attachstore.errors import AttachstoreError, RejectedError

if TYPE_CHECKING:
    from attachstore.objects.store import Committed
    from attachstore.sessions.event import Event
    from attachstore.sessions.session import Session
    from attachstore.store import Store

STANDARD_INPUT = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """What the user says of the files."""

    session: str | None
    name: str | None
    media_type: str | None


@click.command(
    "put",
    cls=Command,
    short_help="Attach files; print their references.",
    examples=[
        "attachstore put photo.jpg report.pdf",
        "attachstore put photo.jpg --session s-1",
        "make 2>&1 | attachstore put - --name build.log --type text/plain",
        "attachstore put photo.jpg --json | jq -c .reference",
    ],
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...|-", type=PATH)
@click.option(
    "--session",
    metavar="ID",
    shell_complete=complete_session,
    help="Also append an `attachment` event for each file; the session is made if need be.",
)
@click.option("--name", help="Label to keep instead of the file's own name.")
@click.option(
    "--type",
    "media_type",
    help="Media type the bytes must turn out to have; a wrong claim is refused.",
)
@limits
@pass_invocation
def command(
    invocation: Invocation,
    files: tuple[str, ...],
    session: str | None,
    name: str | None,
    media_type: str | None,
) -> int:
    """Admit FILEs, store them durably, and print a line for each: digest, media type, width x
    height, size, name.

    `-` reads standard input. The store is made on first use. Every picture is decoded in full
    before it is let in. If some of several files are refused the others are stored, and the exit
    status is 8.
    """
    if name is not None and len(files) > 1:
        raise click.UsageError("--name goes with one file")
    if files.count(STANDARD_INPUT) > 1:
        raise click.UsageError("standard input can be read only once")
    labels = Labels(session=session, name=name, media_type=media_type)
    return invocation.run(lambda: _put(invocation, files, labels))


async def _put(invocation: Invocation, files: Sequence[str], labels: Labels) -> int:
    errors: list[AttachstoreError] = []
    done = 0
    async with invocation.writing() as store:
        session = None if labels.session is None else await open_session(store, labels.session)
        for index, file in enumerate(files):
            try:
                await _put_one(invocation, store, session, file, labels)
                done += 1
            except AttachstoreError as error:
                errors.append(error)
                invocation.out.failure(error, source=file)
                if not isinstance(error, RejectedError):
                    _report_untried(invocation, files[index + 1 :])
                    break
            except OutputFailedError:
                _report_untried(invocation, files[index + 1 :])
                raise
    return status_of_items(done, errors)


def _report_untried(invocation: Invocation, files: Sequence[str]) -> None:
    """After a medium has failed the next file would fare no better, and may do harm.

    Nor is one stored whose reference nobody gets to see.
    """
    if files:
        invocation.out.note(f"{plural(len(files), 'file')} not tried: {', '.join(files)}")


async def _put_one(
    invocation: Invocation, store: Store, session: Session | None, file: str, labels: Labels
) -> None:
    from attachstore.cli.standard_input import StandardInput

    source = StandardInput() if file == STANDARD_INPUT else Path(file)
    async with invocation.attaching(file):
        committed = await store.put(source, name=labels.name, declared=labels.media_type)
        event = None
        if session is not None:
            event = await session.append("attachment", {"file": committed.reference})
    invocation.out.record(
        as_json(file, committed, session, event), lambda: as_text(invocation, committed)
    )


def as_json(
    file: str, committed: Committed, session: Session | None, event: Event | None
) -> dict[str, Any]:
    """One file's result; `reference` is a REF for `get` and what to put into an event."""
    result: dict[str, Any] = {
        "source": file,
        "outcome": committed.outcome.value,
        "reference": committed.reference.to_json(),
    }
    if session is not None and event is not None:
        result["event"] = {"session": session.id, "seq": event.seq, "time": event.time}
    return result


def as_text(invocation: Invocation, committed: Committed) -> str:
    """`blake3:<hex>  media type  WxH  size  name`, and what happened unless it is new."""
    from attachstore.cli.rendering import reference_as_text

    text = reference_as_text(committed.reference, exact=not invocation.out.on_terminal)
    outcome = committed.outcome.value
    return text if outcome == "stored" else f"{text}  ({outcome})"
