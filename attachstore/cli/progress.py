"""Progress on a terminal: a bar with rate and time left, once something takes long enough."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Generator
from typing import TYPE_CHECKING

from attachstore.cli.output import Output
from attachstore.disk import Disk, WeakDisk

if TYPE_CHECKING:
    from rich.progress import Progress

QUIET_S = 0.5
"""What ends sooner draws nothing."""
_FRAME_S = 0.1


class Meter:
    """Counts the bytes written to the store, which is how far the copy of a source has come."""

    bytes_written = 0


class MeteredDisk(Disk):
    """A disk that counts."""

    def __init__(self) -> None:
        self.meter = Meter()

    def write(self, descriptor: int, data: bytes | memoryview, offset_bytes: int) -> int:
        written = super().write(descriptor, data, offset_bytes)
        self.meter.bytes_written += written
        return written


class MeteredWeakDisk(MeteredDisk, WeakDisk):
    """The same for `weak_durability`."""


@contextlib.asynccontextmanager
async def waiting(
    out: Output, label: str, *, size_bytes: int | None = None, meter: Meter | None = None
) -> AsyncGenerator[None]:
    """Show, after a while, that something goes on; a bar if size and meter are known."""
    if not out.shows_progress:
        yield
        return
    start = meter.bytes_written if meter else 0

    def done() -> int:
        return meter.bytes_written - start if meter else 0

    drawing = asyncio.create_task(_draw(label, size_bytes if meter else None, done))
    try:
        yield
    finally:
        drawing.cancel()
        await asyncio.gather(drawing, return_exceptions=True)


async def _draw(label: str, size_bytes: int | None, done: Callable[[], int]) -> None:
    await asyncio.sleep(QUIET_S)
    with bars(with_rate=size_bytes is not None) as progress:
        task = progress.add_task(label, total=size_bytes)
        while True:
            copied = done()
            # The copy is complete: what follows (decoding, syncing) has no measure.
            total = size_bytes if size_bytes and copied < size_bytes else None
            progress.update(task, completed=copied, total=total)
            await asyncio.sleep(_FRAME_S)


@contextlib.contextmanager
def counted(out: Output, label: str, total: int) -> Generator[Callable[[], None]]:
    """Show how many of `total` are done: where the results themselves do not show it."""
    if not out.shows_progress or out.on_terminal:
        yield lambda: None
        return
    with bars(with_rate=False) as progress:
        task = progress.add_task(label, total=total)
        yield lambda: progress.advance(task)


def bars(*, with_rate: bool) -> Progress:
    """Bars on standard error that vanish when they are done."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns: list[ProgressColumn] = [TextColumn("{task.description}", markup=False), BarColumn()]
    if with_rate:
        columns += [
            DownloadColumn(binary_units=True),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        ]
    return Progress(*columns, console=Console(stderr=True), transient=True)
