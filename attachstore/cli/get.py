"""`attachstore get`: verified bytes, or nothing."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from attachstore.cli.command import PATH, Command
from attachstore.cli.invocation import Invocation, pass_invocation
from attachstore.cli.output import Output, human_size
from attachstore.cli.refs import digest_of, ref_argument, resolve

if TYPE_CHECKING:
    from attachstore.digest import Digest
    from attachstore.reference import Reference
    from attachstore.store import Store


@click.command(
    "get",
    cls=Command,
    short_help="Write out verified bytes.",
    examples=[
        "attachstore get 3f9a1c > photo.jpg",
        "attachstore get blake3:3f9a1c… -o photo.jpg",
        'attachstore get \'{"$attach":{"digest":"blake3:…","size":117,"media_type":"image/png"}}\'',
    ],
)
@ref_argument
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=PATH,
    help="Write to FILE, whole or not at all, instead of standard output.",
)
@pass_invocation
def command(invocation: Invocation, ref: str, output: str | None) -> None:
    """Write an object's bytes to standard output or to FILE, after all of them were verified.

    Nothing is written if they are damaged. With a reference as JSON, size, media type and
    dimensions are compared too; a digest, or a prefix of one, can only vouch for the bytes.
    """
    if output == "-":
        output = None
    invocation.run(lambda: _get(invocation, ref, output))


async def _get(invocation: Invocation, text: str, output: str | None) -> None:
    out = invocation.out
    async with invocation.reading() as store:
        ref = await resolve(store, text)
        if output is not None:
            async with invocation.waiting("verifying and copying"):
                await store.copy_to(ref, Path(output))
                size = await _size(store, ref)
            if out.as_json:
                out.record({**_facts(ref, size), "path": output}, "")
            out.hint(f"wrote {human_size(size)} to {output}")
            return
        async with contextlib.AsyncExitStack() as stack:
            async with invocation.waiting("verifying"):
                stream = await stack.enter_async_context(store.open_attachment(ref))
            size = 0
            async for block in stream:
                _keep_off_terminal(out, block, is_first=size == 0)
                out.write(block)
                size += len(block)
        out.report(_facts(ref, size))


def _facts(ref: Reference | Digest, size: int) -> dict[str, Any]:
    """What was verified: everything a reference says, or no more than the digest."""
    from attachstore.reference import Reference

    is_whole = isinstance(ref, Reference)
    facts: dict[str, Any] = {
        "digest": str(digest_of(ref)),
        "size": size,
        "verified": "reference" if is_whole else "digest",
    }
    return {**facts, "media_type": ref.media_type} if is_whole else facts


async def _size(store: Store, ref: Reference | Digest) -> int:
    from attachstore.reference import Reference

    return ref.size if isinstance(ref, Reference) else (await store.stat(ref)).size


def _keep_off_terminal(out: Output, block: bytes, *, is_first: bool) -> None:
    if is_first and out.on_terminal and b"\0" in block:
        raise click.UsageError("these bytes are no text for a terminal; use -o FILE or a pipe")
