"""Snapshots: which sessions have a log, where each ends, and whether it was touched since.

A revision is made of what every medium can tell without a counter of its own, so that there is
none that could be wrong: how often the log was cut, and how many events it has. Each append makes
it larger by its events, each cut (a tail that a load settled, a repair) by one cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from attachstore.sessions.listing import summaries
from attachstore.sessions.medium import SessionMedium
from attachstore.sessions.names import SessionName


class Revision(NamedTuple):
    """Compares as larger than every earlier one of the same session. Equal: nothing happened."""

    cuts: int
    events: int


class SessionSnapshot(NamedTuple):
    """Where a log ends. Equal chains at one `head_seq`, equal histories."""

    id: str
    head_seq: int
    head_chain: str
    revision: Revision


def snapshots(medium: SessionMedium) -> Iterator[SessionSnapshot]:
    """Of every session with a log that can be listed without a problem."""
    for summary in summaries(medium):
        if summary.problem is None:
            revision = Revision(medium.cuts(SessionName.of(summary.id)), summary.head_seq)
            yield SessionSnapshot(summary.id, summary.head_seq, summary.head_chain, revision)
