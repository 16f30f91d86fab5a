"""Condition: as Python's, and its lock is given back also while there is no memory.

`with` hands on what was raised, and Python's own hands that on to its lock, in a tuple that needs
memory. A lock that is not given back for want of it has everybody else wait for ever.
"""

from __future__ import annotations

import threading
from types import TracebackType


class Condition(threading.Condition):
    """For one store handle's threads."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
