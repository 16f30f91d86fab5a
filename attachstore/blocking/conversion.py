"""convert_sessions without asyncio."""

from __future__ import annotations

import os
from collections.abc import Callable

from attachstore import conversion
from attachstore.blocking.loop import Loop
from attachstore.disk import Disk


def convert_sessions(
    root: str | os.PathLike[str],
    target: str,
    *,
    with_damaged: bool = False,
    dry_run: bool = False,
    progress: Callable[[conversion.ConversionProgress], None] | None = None,
    weak_durability: bool = False,
    disk: Disk | None = None,
) -> conversion.ConversionReport:
    """`attachstore.convert_sessions`; see there for what it promises."""
    work = conversion.convert_sessions(
        root,
        target,
        with_damaged=with_damaged,
        dry_run=dry_run,
        progress=progress,
        weak_durability=weak_durability,
        disk=disk,
    )
    loop = Loop()
    try:
        return loop.wait(work)
    finally:
        loop.stop()
