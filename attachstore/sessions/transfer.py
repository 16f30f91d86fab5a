"""Transfer: a log copied from one medium to another, byte for byte, and proven to be the same.

The header, every event, an uncommitted tail and, if it is wanted, damage too: what a reader sees
in the one medium it sees in the other, at the same offsets. So what is a tail stays one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from attachstore.errors import LogDamagedError
from attachstore.sessions.medium import LogReader, SessionMedium
from attachstore.sessions.names import SessionName
from attachstore.sessions.record import CHAIN_START
from attachstore.sessions.scan import Scan
from attachstore.sessions.sealing import blocks_of
from attachstore.threads import CancelFlag

Step = Callable[[int], None]
"""Told how many more bytes were worked off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a log holds, as its medium gives it back after a settle."""

    name: SessionName
    head_seq: int
    head_chain: bytes
    size_bytes: int
    damage: LogDamagedError | None


def survey(medium: SessionMedium, name: SessionName, cancel: CancelFlag | None = None) -> Survey:
    """Make the log durable, read it from the medium, check its chain; damage is reported.

    Raises SessionMissingError, StoreVersionError, StoreLayoutError.
    """
    seq, chain = 0, CHAIN_START
    damage: LogDamagedError | None = None
    with medium.open(name) as log:
        size_bytes = log.settle()
        try:
            scan = Scan(log, name, where=medium.where(name), end_bytes=size_bytes, cancel=cancel)
            scan.exhaust()
            seq, chain = scan.seq, scan.chain
            scan.raise_damage()
        except LogDamagedError as error:
            damage = error
    return Survey(name=name, head_seq=seq, head_chain=chain, size_bytes=size_bytes, damage=damage)


def copy_log(
    source: SessionMedium, target: SessionMedium, name: SessionName, *, cancel: CancelFlag | None
) -> None:
    """Make the same log in `target`, durably. Nobody writes it in `source` meanwhile.

    Raises SessionMissingError, SessionExistsError.
    """
    with source.open(name) as log:
        target.add(name, blocks_of(log, cancel)).close()


def prove(
    source: SessionMedium,
    target: SessionMedium,
    surveyed: Survey,
    *,
    cancel: CancelFlag | None,
    step: Step,
) -> None:
    """Read the copy from its medium: the same head chain, and the same bytes as the original.

    Raises LogDamagedError if it is not; it says where the copy is.
    """
    name = surveyed.name
    found = survey(target, name, cancel)
    with source.open(name) as one, target.open(name) as other:
        differing = _first_difference(one, other, cancel, step)
    same_head = (found.head_seq, found.head_chain) == (surveyed.head_seq, surveyed.head_chain)
    if differing is not None or not same_head or found.size_bytes != surveyed.size_bytes:
        raise LogDamagedError(
            where=target.where(name),
            session=name.id,
            line=found.head_seq + 2,
            offset_bytes=found.size_bytes if differing is None else differing,
            reason="the copy is not what was read before it was made",
            head_seq=found.head_seq,
        )


def _first_difference(
    one: LogReader, other: LogReader, cancel: CancelFlag | None, step: Step
) -> int | None:
    offset_bytes = 0
    for block in blocks_of(one, cancel):
        if other.read(offset_bytes, len(block)) != block:
            return offset_bytes
        offset_bytes += len(block)
        step(len(block))
    return None if other.size() == offset_bytes else offset_bytes
