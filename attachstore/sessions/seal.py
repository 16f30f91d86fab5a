"""Seal and unseal a session: the same log, in less room or plain."""

from __future__ import annotations

from attachstore.errors import InvalidConfigurationError, LogDamagedError
from attachstore.sessions.event import SealReport
from attachstore.sessions.medium import LogReader, SealingMedium, SessionMedium
from attachstore.sessions.names import SessionName
from attachstore.sessions.scan import Scan
from attachstore.threads import CancelFlag


def seal_log(medium: SessionMedium, name: SessionName, cancel: CancelFlag | None) -> SealReport:
    """Seal the log; an uncommitted tail is moved aside before. The caller holds the claim.

    Raises InvalidConfigurationError where logs cannot be sealed, LogDamagedError,
    SessionMissingError, MissingDependencyError.
    """
    sealing = _sealing(medium)
    where = medium.where(name)
    with medium.open_writer(name) as writer:
        end_bytes = writer.settle()  # what only a cache has would be taken for damage later on
        scan = Scan(writer, name, where=where, end_bytes=end_bytes, cancel=cancel).exhaust()
        scan.raise_damage()
        if scan.tail is not None:
            writer.cut(scan.tail.offset_bytes)

    def check(sealed: LogReader) -> None:
        found = Scan(sealed, name, where=where, cancel=cancel).exhaust()
        if (found.seq, found.chain, sealed.size()) != (scan.seq, scan.chain, scan.good_bytes):
            raise LogDamagedError(
                where=where,
                session=name.id,
                line=found.line + 1,
                offset_bytes=found.good_bytes,
                reason="the log changed while it was sealed",
                head_seq=found.seq,
            )

    return SealReport(
        id=scan.header.id,
        head_seq=scan.seq,
        head_chain=scan.chain.hex(),
        size_bytes=scan.good_bytes,
        stored_bytes=sealing.seal(name, check, cancel),
    )


def unseal_log(medium: SessionMedium, name: SessionName, cancel: CancelFlag | None) -> None:
    """Take back a `seal_log`. The caller holds the claim."""
    _sealing(medium).unseal(name, cancel)


def _sealing(medium: SessionMedium) -> SealingMedium:
    if isinstance(medium, SealingMedium):
        return medium
    reason = "only logs that are files of their own (jsonl) can be sealed"
    raise InvalidConfigurationError(where=medium.location, key="sessions", reason=reason)
