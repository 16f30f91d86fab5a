"""`attachstore stat`: an object and who refers to it, or the store itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from attachstore.cli.command import Command, complete_reference
from attachstore.cli.exit_status import ExitStatus, status_of, worst
from attachstore.cli.invocation import Invocation, pass_invocation
from attachstore.cli.output import dimensions, human_size, plural, visible
from attachstore.cli.refs import digest_of, resolve
from attachstore.errors import AttachstoreError, StoreLayoutError, UnavailableError

if TYPE_CHECKING:
    from attachstore.status import ObjectStatus, Use
    from attachstore.store import Store


@click.command(
    "stat",
    cls=Command,
    short_help="Show an object and who refers to it, or the store.",
    examples=["attachstore stat 3f9a1c", "attachstore --store ./store stat"],
)
@click.argument("ref", required=False, metavar="[REF]", shell_complete=complete_reference)
@click.option("--store", "of_store", is_flag=True, help="Show the store itself, as without REF.")
@pass_invocation
def command(invocation: Invocation, ref: str | None, of_store: bool) -> int:
    """Verify an object, and show what it is and every event that refers to it.

    Reads the object and all session logs. Without REF, show the store: its identity, how much it
    holds, and what its file system promises.
    """
    if ref is None:
        return invocation.run(lambda: _stat_store(invocation))
    if of_store:
        raise click.UsageError("--store goes without REF")
    return invocation.run(lambda: _stat_object(invocation, ref))


async def _stat_object(invocation: Invocation, text: str) -> int:
    async with invocation.reading() as store:
        wanted = await resolve(store, text)
        digest = str(digest_of(wanted))
        status: ObjectStatus | None = None
        uses: list[Use] = []
        errors: list[AttachstoreError] = []
        complete = False
        async with invocation.waiting("verifying and reading the session logs"):
            try:
                status = await store.stat(wanted)
            except AttachstoreError as error:
                errors.append(error)  # who refers to it is what one wants to know then
            try:
                async for use in store.uses(wanted):
                    uses.append(use)  # noqa: PERF401 - kept if there is an error
                complete = True
            except AttachstoreError as error:
                errors.append(error)
    if invocation.out.as_json:
        invocation.out.record(_object_as_json(digest, status, uses, complete=complete), "")
    else:
        invocation.out.facts(_object_as_facts(digest, status, uses, complete=complete))
    for error in errors:
        invocation.out.failure(error)
    return worst({status_of(error) for error in errors})


def _object_as_json(
    digest: str, status: ObjectStatus | None, uses: list[Use], *, complete: bool
) -> dict[str, Any]:
    found: dict[str, Any] = {"digest": digest, "verified": status is not None}
    if status is not None:
        found |= {"size": status.size, "media_type": status.header.media_type}
        if status.header.width is not None:
            found |= {"width": status.header.width, "height": status.header.height}
    found["uses"] = [
        {
            "session": use.session_id,
            "seq": use.seq,
            "pointer": use.pointer,
            "reference": use.reference.to_json(),
        }
        for use in uses
    ]
    found["uses_complete"] = complete
    return found


def _object_as_facts(
    digest: str, status: ObjectStatus | None, uses: list[Use], *, complete: bool
) -> Iterator[tuple[str, str]]:
    yield "digest", digest
    if status is not None:
        yield "media type", status.header.media_type
        yield "dimensions", dimensions(status.header.width, status.header.height)
        yield "size", f"{human_size(status.size)} ({status.size:,} bytes)"
    times = plural(len(uses), "time")
    yield "referenced", times if complete else f"at least {times}; a log was not read whole"
    for use in uses:
        name = f" as {visible(use.reference.name)}" if use.reference.name else ""
        place = visible(use.pointer) or "the data itself"
        yield "", f"session {visible(use.session_id)}, event {use.seq}, {place}{name}"


async def _stat_store(invocation: Invocation) -> int:
    async with invocation.reading() as store, invocation.waiting("counting"):
        facts, failure = await _store_facts(store)
    out = invocation.out
    counted = f"{plural(facts['objects'], 'object')}, {human_size(facts['size_bytes'])}"
    if out.as_json:
        out.record(facts, "")
    else:
        kind, promise = facts["file_system"]["kind"], facts["file_system"]["promise"]
        out.facts(
            (
                ("store", visible(facts["store"])),
                ("id", facts["id"] or "-"),
                ("created", facts["created_at"] or "-"),
                ("format", str(facts["format"])),
                ("file system", f"{kind}, {_PROMISES.get(promise, promise)}"),
                ("objects", counted if failure is None else f"at least {counted}"),
                ("sessions", plural(facts["sessions"], "session")),
            )
        )
    if failure is None:
        return ExitStatus.DONE
    out.failure(failure)
    return status_of(failure)


_PROMISES = {
    "journaled": "journaled: what is acknowledged survives power loss",
    "journal-less": "no journal: a power loss may damage the file system itself",
    "network": "over a network: durability is the server's, locks may not hold",
    "memory": "in memory: gone after a restart",
    "unknown": "unknown: what survives power loss cannot be told",
}


async def _store_facts(store: Store) -> tuple[dict[str, Any], AttachstoreError | None]:
    """And what kept a part of the objects from being counted."""
    from attachstore.layout import FORMAT, file_system_of

    objects = size_bytes = 0
    failure: AttachstoreError | None = None
    try:
        async for digest in store.list():
            objects += 1
            with suppress(StoreLayoutError):  # what is no file has no size; a scan says more
                size_bytes += store.objects.size(digest) or 0
    except (StoreLayoutError, UnavailableError) as error:
        failure = error
    file_system = file_system_of(store.root)
    marker = store.marker
    facts = {
        "store": str(store.root),
        "id": marker.id if marker else None,
        "created_at": marker.created_at if marker else None,
        "format": FORMAT,
        "file_system": {"kind": file_system.kind, "promise": file_system.promise},
        "objects": objects,
        "objects_complete": failure is None,
        "size_bytes": size_bytes,
        "sessions": len(await store.sessions.list()),
    }
    return facts, failure
