"""Settled: objects that this handle has made durable, and that nobody has touched since.

A duplicate's bytes are read and hashed each time, but they need not be synced each time. Once
the file and the directories above it have been synced, they stay durable until one of them is
changed, and each change gives it a new ctime, which no program can choose.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable

from attachstore.digest import Digest

SETTLED_MAX = 16_384
"""Objects remembered; beyond it the one not asked for longest is forgotten and synced again."""
_FRESH_NS = 2_000_000_000
"""A ctime is as coarse as the clock of its file system (2 s on the coarsest): what changed so
short a time ago may change again and have the same one."""

State = tuple[tuple[int, int, int], ...]
"""Of each of several files: device, inode, ctime in nanoseconds."""


class Settled:
    """May be used from any thread."""

    def __init__(self) -> None:
        self._known: OrderedDict[Digest, State] = OrderedDict()
        self._guard = threading.Lock()

    def is_settled(self, digest: Digest, state: State) -> bool:
        """Whether it was synced when it was in this very state."""
        with self._guard:
            if self._known.get(digest) != state:
                return False
            self._known.move_to_end(digest)
            return True

    def remember(self, digest: Digest, state: State, seen_ns: int) -> None:
        """It was synced after it was seen in `state`, at `seen_ns` on the clock or later.

        What was fresh then is not remembered.
        """
        newest_ns = max(ctime_ns for _, _, ctime_ns in state)
        if seen_ns - newest_ns < _FRESH_NS:
            return
        with self._guard:
            self._known[digest] = state
            self._known.move_to_end(digest)
            if len(self._known) > SETTLED_MAX:
                self._known.popitem(last=False)


def state_of(statuses: Iterable[os.stat_result]) -> State:
    """What tells whether one of them has changed, been replaced, or mounted over."""
    return tuple((it.st_dev, it.st_ino, it.st_ctime_ns) for it in statuses)
