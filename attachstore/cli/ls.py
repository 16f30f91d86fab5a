"""`attachstore ls`: the objects."""

from __future__ import annotations

import click

from attachstore.cli.command import Command, complete_reference
from attachstore.cli.invocation import Invocation, pass_invocation
from attachstore.cli.output import human_size


@click.command(
    "ls",
    cls=Command,
    short_help="List the objects.",
    examples=["attachstore ls", "attachstore ls 3f9a", "attachstore ls --json | jq .size"],
)
@click.argument("prefix", default="", metavar="[PREFIX]", shell_complete=complete_reference)
@pass_invocation
def command(invocation: Invocation, prefix: str) -> None:
    """List the objects whose digests begin with PREFIX, in ascending order: digest and size.

    Nothing is read but names and sizes; `stat` and `scan` verify.
    """
    digits = prefix.removeprefix("blake3:")
    if digits.strip("0123456789abcdef"):
        raise click.UsageError(f"{prefix!a} is no beginning of a digest")
    invocation.run(lambda: _ls(invocation, digits))


async def _ls(invocation: Invocation, digits: str) -> None:
    out = invocation.out
    async with invocation.reading() as store:
        async for digest in store.list(digits):
            size = store.objects.size(digest)
            if size is None:  # quarantined since it was listed
                continue
            shown = f"{human_size(size):>9}" if out.on_terminal else str(size)
            out.record({"digest": str(digest), "size": size}, f"{digest}  {shown}")
