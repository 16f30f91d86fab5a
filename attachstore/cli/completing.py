"""Words for the shell's completion. Whatever goes wrong, there are just none to offer."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from attachstore.cli.invocation import Invocation

if TYPE_CHECKING:
    from attachstore.store import Store

_WORDS_MAX = 200
_DIGITS_MIN = 2  # a whole store is no help


def session_ids(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Ids of sessions that begin with `incomplete`."""

    async def words(store: Store) -> list[str]:
        return [summary.id for summary in await store.sessions.list()]

    return _offer(ctx, incomplete, words)


def digests(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Digests that begin with `incomplete`, with or without `blake3:` as it was begun."""
    prefix = incomplete.removeprefix("blake3:")
    label = incomplete[: len(incomplete) - len(prefix)]
    if len(prefix) < _DIGITS_MIN:
        return []

    async def words(store: Store) -> list[str]:
        return [label + digest.hex async for digest in store.list(prefix)]

    return _offer(ctx, incomplete, words)


def _offer(
    ctx: click.Context, incomplete: str, words: Callable[[Store], Coroutine[Any, Any, list[str]]]
) -> list[CompletionItem]:
    import asyncio

    invocation = ctx.find_object(Invocation) or Invocation()

    async def fetch() -> list[str]:
        async with invocation.reading() as store:
            return await words(store)

    try:
        found = asyncio.run(fetch())
    except Exception:  # noqa: BLE001 - a completion must never print a traceback over the prompt
        return []
    fitting = [word for word in found if word.startswith(incomplete) and word.isprintable()]
    return [CompletionItem(word) for word in fitting[:_WORDS_MAX]]
