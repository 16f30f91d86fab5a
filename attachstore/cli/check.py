"""`attachstore check`: what admission would say of files, and store nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from attachstore.cli.command import PATH, Command, limits
from attachstore.cli.exit_status import status_of_items
from attachstore.cli.invocation import Invocation, pass_invocation
from attachstore.cli.output import dimensions, plural, visible
from attachstore.errors import AttachstoreError

if TYPE_CHECKING:
    from attachstore.admission.inspection import Examination


@click.command(
    "check",
    cls=Command,
    short_help="Say what would be let in, and store nothing.",
    examples=[
        "attachstore check shot.png report.pdf",
        "attachstore check *.jpg --preset anthropic",
        "attachstore check upload --type image/png --json | jq .findings",
    ],
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=PATH)
@click.option("--name", help="Label that would be kept instead of the file's own name.")
@click.option("--type", "media_type", help="Media type the bytes must turn out to have.")
@limits
@pass_invocation
def command(
    invocation: Invocation, files: tuple[str, ...], name: str | None, media_type: str | None
) -> int:
    """Examine FILEs as `put` would, and print what it would say: every finding, not only the
    first.

    No store is needed, made or changed. Exit status 6 if a file would be refused, 8 if some of
    several would.
    """
    if name is not None and len(files) > 1:
        raise click.UsageError("--name goes with one file")
    from attachstore.admission.examining import examine_file

    policy = invocation.settings().policy()
    refusals: list[AttachstoreError] = []
    for file in files:
        found = examine_file(Path(file), policy, declared=media_type, name=name)
        refusals += found.findings[:1]
        invocation.out.record(as_json(file, found), as_text(file, found))
    return status_of_items(len(files) - len(refusals), refusals)


def as_json(file: str, found: Examination) -> dict[str, Any]:
    """One file's result; what does not apply is left out."""
    header = found.header
    told: dict[str, Any] = {
        "media_type": header.media_type if header else None,
        "width": header.width if header else None,
        "height": header.height if header else None,
        "frames": found.frames,
        "pages": found.pages,
        "duration_s": None if found.duration_s is None else round(found.duration_s, 3),
    }
    return {
        "source": file,
        "admissible": found.admissible,
        **{key: value for key, value in told.items() if value is not None},
        "findings": [finding.details() for finding in found.findings],
    }


def as_text(file: str, found: Examination) -> str:
    """`admissible  FILE  media type  WxH  how much`, and a line for each finding."""
    header = found.header
    columns = [f"{'admissible' if found.admissible else 'refused':<10}", visible(file)]
    if header is not None:
        columns.append(header.media_type)
        if header.width is not None:
            columns.append(dimensions(header.width, header.height))
    if found.frames is not None and found.frames > 1:
        columns.append(plural(found.frames, "frame"))
    if found.pages is not None:
        columns.append(plural(found.pages, "page"))
    if found.duration_s is not None:
        columns.append(f"{found.duration_s:.1f} s")
    lines = [f"  {finding.code}: {visible(str(finding))}" for finding in found.findings]
    return "\n".join(("  ".join(columns), *lines))
