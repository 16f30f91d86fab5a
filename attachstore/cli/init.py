"""`attachstore init`: make a store, or say that there is one."""

from __future__ import annotations

import click

from attachstore.cli.command import Command, SettingOption
from attachstore.cli.invocation import Invocation, pass_invocation
from attachstore.cli.output import visible


@click.command(
    "init",
    cls=Command,
    params=[SettingOption("sessions")],
    short_help="Create a store.",
    examples=[
        "attachstore --store ./store init",
        "attachstore --store ./store init --sessions sqlite",
    ],
)
@pass_invocation
def command(invocation: Invocation) -> None:
    """Create a store.

    The directory must be new or empty. Other commands that write do this on first use, so `init`
    is for making sure: it succeeds if the store is there already, and says so. Where session logs
    are kept is chosen here and stays.
    """
    invocation.run(lambda: _init(invocation))


async def _init(invocation: Invocation) -> None:
    from attachstore.errors import StoreMissingError

    created = False
    try:
        async with invocation.reading():
            pass
    except StoreMissingError:
        created = True
    async with invocation.writing() as store:
        marker = store.marker
        place = str(store.root)
        invocation.out.record(
            {
                "store": place,
                "id": marker.id if marker else None,
                "created_at": marker.created_at if marker else None,
                "sessions": marker.sessions if marker else None,
                "created": created,
            },
            f"{'created' if created else 'there is already'} a store in {visible(place)}",
        )
