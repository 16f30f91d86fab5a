"""`attachstore ls`: the objects."""

from __future__ import annotations

import click

from attachstore.cli.command import Command, complete_reference
from attachstore.cli.exit_status import ExitStatus, status_of, worst
from attachstore.cli.invocation import Invocation, pass_invocation
from attachstore.cli.output import human_size
from attachstore.errors import StoreLayoutError, UnavailableError

_DIGITS_MAX = 64
_UNLISTED = (StoreLayoutError, UnavailableError)
"""What may hide a part of the objects from a listing."""


@click.command(
    "ls",
    cls=Command,
    short_help="List the objects.",
    examples=["attachstore ls", "attachstore ls 3f9a", "attachstore ls --json | jq .size"],
)
@click.argument("prefix", default="", metavar="[PREFIX]", shell_complete=complete_reference)
@pass_invocation
def command(invocation: Invocation, prefix: str) -> int:
    """List the objects whose digests begin with PREFIX, in ascending order: digest and size.

    Nothing is read but names and sizes; `stat` and `scan` verify. What cannot be listed hides
    nothing else: its error is told, and is the exit status.
    """
    digits = prefix.removeprefix("blake3:")
    if digits.strip("0123456789abcdef") or len(digits) > _DIGITS_MAX:
        raise click.UsageError(f"{prefix!a} is no beginning of a digest")
    return invocation.run(lambda: _ls(invocation, digits))


async def _ls(invocation: Invocation, digits: str) -> int:
    out = invocation.out
    statuses: set[ExitStatus] = set()
    async with invocation.reading() as store:
        try:
            async for digest in store.list(digits):
                try:
                    size = store.objects.size(digest)
                except _UNLISTED as error:  # it hides none of the others
                    out.failure(error, source=str(digest))
                    statuses.add(status_of(error))
                    continue
                if size is None:  # quarantined since it was listed
                    continue
                shown = f"{human_size(size):>9}" if out.on_terminal else str(size)
                out.record({"digest": str(digest), "size": size}, f"{digest}  {shown}")
        except _UNLISTED as error:  # after all that can be listed
            out.failure(error)
            statuses.add(status_of(error))
    return worst(statuses)
