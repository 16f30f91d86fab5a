"""`attachstore completion`: the script a shell loads to complete commands, ids and digests."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from attachstore.cli.command import Command
from attachstore.cli.invocation import Invocation, pass_invocation


@click.command(
    "completion",
    cls=Command,
    short_help="Print a shell's completion script.",
    examples=[
        "attachstore completion bash > ~/.local/share/bash-completion/completions/attachstore",
        "attachstore completion zsh > ~/.zfunc/_attachstore",
        "attachstore completion fish > ~/.config/fish/completions/attachstore.fish",
    ],
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
@pass_invocation
def command(invocation: Invocation, ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell: commands, options, session ids and digests."""
    from attachstore.cli.main import VARIABLE

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - click brings all three
    completion = kind(ctx.find_root().command, {}, "attachstore", VARIABLE)
    # `source()` would also run bash to ask its version, and complain where there is none.
    script = completion.source_template % completion.source_vars()
    invocation.out.record({"shell": shell, "script": script}, script.strip("\n"))
