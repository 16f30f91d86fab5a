"""What the workloads attach."""

from __future__ import annotations

import random

from attachstore import Digest

SMALL = [b"a small attachment\n", b"and another one\n", b"a third\n"]
LARGE = [random.Random(seed).randbytes((2 << 20) + 4321 + seed) for seed in (1, 2)]
"""Above what is kept in memory, so they are spooled."""

USED_SHARDS = frozenset(Digest.of(content).hex[:2] for content in (*SMALL, *LARGE))
"""The directories that they go to."""
