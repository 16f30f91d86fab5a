"""Admitting: sources of any kind, one or many, brought to admission in the store's threads.

What is in memory or in a file is read and examined in a thread, several for each hop to one; a
stream is read in the event loop, where its maker wants it to be read, and examined in a thread.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from attachstore.attach import Attacher, Claim
from attachstore.attachment import Attachment, Content
from attachstore.errors.error import indexed
from attachstore.objects.store import Committed
from attachstore.streams import BYTES_LIKE, Offer, Source, StreamSource, gather
from attachstore.threads import CancelFlag, Worker

LANES = 4
"""How many threads admit a batch: with pictures they mostly wait for decoders' processes."""

PIECE_OFFERS_MAX = 32
"""A hop to a thread costs about as much as admitting a short text."""

BytesLike = bytes | bytearray | memoryview
_HELD = (*BYTES_LIKE, os.PathLike)


async def gathered(worker: Worker, attacher: Attacher, source: StreamSource) -> Content:
    """All bytes of a stream. Raises as `streams.gather`."""
    return await gather(worker, attacher.gatherer(f"stream {type(source).__name__}"), source)


async def admitted(worker: Worker, attacher: Attacher, source: Source, claim: Claim) -> Attachment:
    """The source, examined; its content is the caller's to close. Raises AdmissionError."""
    if isinstance(source, _HELD):
        return await worker.hold(attacher.drop, _admit, attacher, source, claim)
    content = await gathered(worker, attacher, source)
    try:
        return await worker.hold(attacher.drop, attacher.admit_content, content, claim)
    except BaseException:  # the store may have been closed before a thread had it
        await worker.let_go(content.close)
        raise


async def put_stream(
    worker: Worker, attacher: Attacher, source: StreamSource, claim: Claim
) -> Committed:
    """Attach all bytes of a stream. Raises as `Store.attach`."""
    content = await gathered(worker, attacher, source)
    try:
        return await worker.run(attacher.put_content, content, claim)
    except BaseException:  # the store may have been closed before a thread had it
        await worker.let_go(content.close)
        raise


async def admitted_together(
    worker: Worker, attacher: Attacher, offers: Sequence[Offer]
) -> list[Attachment]:
    """All of them, in their order, or none; contents are the caller's to close.

    Raises the AdmissionError of the first that is refused, with its `index`; what comes far
    behind it is not looked at.
    """
    batch = _Batch(worker, attacher, offers)
    try:
        # With exceptions returned it ends after all lanes, also if it is cancelled.
        lanes = (batch.work() for _ in range(LANES))
        return batch.outcome(await asyncio.gather(*lanes, return_exceptions=True))
    except BaseException:
        batch.drop()
        raise


class _Batch:
    """One call's offers, taken in pieces by several lanes."""

    def __init__(self, worker: Worker, attacher: Attacher, offers: Sequence[Offer]) -> None:
        self._worker = worker
        self._attacher = attacher
        self._pieces = _pieces(offers)
        self._done: dict[int, list[Attachment]] = {}
        self._failures: dict[int, Exception] = {}

    async def work(self) -> None:
        """A lane. Pieces are begun in their order, so none before a failed one is left out."""
        for index, piece in self._pieces:
            try:
                self._done[index] = await self._admitted(index, piece)
            except Exception as error:  # noqa: BLE001 - raised by `outcome`, if it is the first
                self._failures[index] = error
            if self._failures:
                return

    def outcome(self, ends: Sequence[BaseException | None]) -> list[Attachment]:
        """Raises what the first piece that failed raised, or what ended a lane otherwise."""
        if self._failures:
            raise self._failures[min(self._failures)]
        for end in ends:
            if end is not None:  # a stream may raise a CancelledError of its own
                raise end
        return [it for index in sorted(self._done) for it in self._done[index]]

    def drop(self) -> None:
        for attachments in self._done.values():
            close_all(attachments)

    async def _admitted(self, index: int, piece: list[Offer]) -> list[Attachment]:
        offer, *others = piece
        if not others and not isinstance(offer.source, _HELD):
            with indexed(index):
                claim = Claim(name=offer.name, declared=offer.declared)
                return [await admitted(self._worker, self._attacher, offer.source, claim)]
        return await self._worker.hold(close_all, _admit_all, self._attacher, index, piece)


def close_all(attachments: Sequence[Attachment]) -> None:
    """Drop what was admitted and will not be committed; safe to repeat, and after a commit."""
    for attachment in attachments:
        attachment.content.close()


def _pieces(offers: Sequence[Offer]) -> Iterator[tuple[int, list[Offer]]]:
    """Offers that go together, with the position of the first: streams alone."""
    start = 0
    while start < len(offers):
        end = start
        while end < min(start + PIECE_OFFERS_MAX, len(offers)) and isinstance(
            offers[end].source, _HELD
        ):
            end += 1
        end = max(end, start + 1)
        yield start, [*offers[start:end]]
        start = end


def _admit_all(
    cancel: CancelFlag, attacher: Attacher, index: int, piece: list[Offer]
) -> list[Attachment]:
    attachments: list[Attachment] = []
    try:
        for position, offer in enumerate(piece, index):
            with indexed(position):
                claim = Claim(name=offer.name, declared=offer.declared)
                attachments.append(_admit(cancel, attacher, offer.source, claim))
    except BaseException:
        close_all(attachments)
        raise
    return attachments


def _admit(cancel: CancelFlag, attacher: Attacher, source: Source, claim: Claim) -> Attachment:
    if isinstance(source, os.PathLike):
        return attacher.admit_file(cancel, Path(source), claim)
    return attacher.admit_bytes(cancel, bytes(cast("BytesLike", source)), claim)
