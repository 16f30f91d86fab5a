"""convert_sessions: the asynchronous edge of a conversion."""

from __future__ import annotations

import os
from collections.abc import Callable

from attachstore.conversion.report import ConversionProgress, ConversionReport
from attachstore.conversion.work import convert
from attachstore.disk import Disk, WeakDisk
from attachstore.opening import local_path
from attachstore.threads import CancelFlag, Worker


async def convert_sessions(
    root: str | os.PathLike[str],
    target: str,
    *,
    with_damaged: bool = False,
    dry_run: bool = False,
    progress: Callable[[ConversionProgress], None] | None = None,
    weak_durability: bool = False,
    disk: Disk | None = None,
) -> ConversionReport:
    """Move all session logs of the store at `root` to the medium `target`: "jsonl" or "sqlite".

    Nobody may write the store's sessions meanwhile, this process included; a store whose sessions
    are in SQLite must not be open at all. Every log is checked, copied, read back from the new
    medium and compared: the same bytes, the same head chain. Only then does the store name the
    new medium, in one atomic step. Killed before it the store is the old one, after it the new
    one; calling again finishes, or starts afresh. The old logs are kept in `converted/` below the
    root; remove them when you do not need them any more.

    A damaged log stops it before anything has changed. `with_damaged` carries damage over as it
    is, byte for byte. Sealed logs come out plain. A `dry_run` checks all logs and copies none.
    `progress` is called in a thread, a few times a second. Cancelled, it leaves the old store.

    Raises:
        SessionBusyError: somebody writes, or has the database open.
        LogDamagedError: a log is damaged; `session verify` names all that are.
        StoreMissingError, InvalidConfigurationError: there is no store; no such medium.
        UnavailableError: a medium did not answer.
    """
    path = local_path(root)
    used = disk or (WeakDisk() if weak_durability else Disk())
    worker = Worker("attachstore-convert", 1)

    def work(cancel: CancelFlag) -> ConversionReport:
        return convert(
            used,
            path,
            target,
            with_damaged=with_damaged,
            dry_run=dry_run,
            progress=progress,
            cancel=cancel,
        )

    try:
        return await worker.run(work)
    finally:
        worker.close()
