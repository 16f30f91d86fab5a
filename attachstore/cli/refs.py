"""REF: a digest, a unique prefix of one, or a reference as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from attachstore.cli.command import complete_reference
from attachstore.errors import InvalidReferenceError

if TYPE_CHECKING:
    from attachstore.digest import Digest
    from attachstore.reference import Reference
    from attachstore.store import Store

ref_argument = click.argument("ref", metavar="REF", shell_complete=complete_reference)


async def resolve(store: Store, text: str) -> Reference | Digest:
    """What REF names. A Reference has size, type and dimensions to compare; a Digest has not.

    Raises:
        InvalidReferenceError, AmbiguousReferenceError: `text` is not a REF, or fits several.
        ObjectMissingError: no object has that prefix.
    """
    if text.lstrip().startswith("{"):
        return parse_reference(text)
    return await store.resolve(text)


def parse_reference(text: str) -> Reference:
    """Read a reference as JSON, strictly. Raises InvalidReferenceError."""
    import json

    from attachstore.reference import Reference

    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidReferenceError(
            where="reference", text=ascii(text[:100])[1:-1], reason="it is not JSON"
        ) from None
    return Reference.from_json(value)


def digest_of(ref: Reference | Digest) -> Digest:
    """The digest that is meant either way."""
    from attachstore.reference import Reference

    return ref.digest if isinstance(ref, Reference) else ref
