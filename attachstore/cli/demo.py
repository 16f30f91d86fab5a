"""`attachstore demo`: the whole line on sample files, step by step, ending in a page."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from attachstore.cli.command import PATH, Command
from attachstore.cli.exit_status import ExitStatus
from attachstore.cli.invocation import Invocation, pass_invocation

STORE = "demo-store"
PAGE = "demo.html"


@click.command(
    "demo",
    cls=Command,
    short_help="Run the whole line on sample files.",
    examples=["attachstore demo", "attachstore demo ~/photos/holiday.jpg report.pdf"],
)
@click.argument("files", nargs=-1, metavar="[FILE...]", type=PATH)
@click.option(
    "--html",
    "page",
    default=PAGE,
    show_default=True,
    metavar="FILE",
    type=PATH,
    help="The page to write.",
)
@pass_invocation
def command(invocation: Invocation, files: tuple[str, ...], page: str) -> int:
    """Attach sample files, and FILEs of your own, to a session; fork it, delete the
    parent, replay the fork, scan the store, and leave a page to look at.

    The store is ./demo-store, or --store, and is made afresh: an earlier demo's is removed. Any
    other directory is refused, and so is one with anything in it that the demo did not make.
    """
    from attachstore.cli.demo_store import make_way, take_stock
    from attachstore.cli.demo_story import tell

    root = Path(str(invocation.flags.get("store") or STORE))
    invocation.flags["store"] = str(root)
    make_way(root)
    with tempfile.TemporaryDirectory(prefix="attachstore-demo-") as directory:
        own, samples = [Path(file) for file in files], Path(directory)
        try:
            numbers = invocation.run(lambda: tell(invocation, own, Path(page), samples))
        finally:
            take_stock(root)
    if not numbers.clean or set(numbers.outcomes) != {"ok"}:
        return ExitStatus.FAILED
    return ExitStatus.PARTLY_DONE if numbers.refused else ExitStatus.DONE
