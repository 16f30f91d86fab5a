"""Stage: one subject on one file system, prepared once and used as often as a rig likes."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from pathlib import Path

from tests.rigs.images import (
    FileSystem,
    copy_image,
    dig_holes,
    make_image,
    mount,
    run,
    scrap,
    sync,
    unmount,
)
from tests.rigs.journal import Record, open_journal, read_journal
from tests.rigs.subjects import Subject


class Stage:
    """`prepared` is the image to begin with; rigs work on copies of it in `image`.

    The rig's files lie in `workspace`; the store is at `root` whenever something is mounted.
    """

    def __init__(self, workspace: Path, system: FileSystem, subject: Subject) -> None:
        self.system = system
        self.subject = subject
        self.mounted = workspace / "mounted"
        self.root = self.mounted / "place" / "store"
        self.image = workspace / "image"
        self.prepared = workspace / "prepared"
        self.journal = workspace / "journal"
        self.mending = ""
        """What was said when the last image that was judged had been mended."""
        self.mounted.mkdir(exist_ok=True)
        copy_image(_empty(workspace, system), self.prepared)
        with self.at_hand(self.prepared):
            self.root.parent.mkdir()
            self._start: list[Record] = subject.prepare(self.root)
            sync(self.mounted)
        dig_holes(self.prepared)

    def renew(self) -> None:
        """Make `image` the prepared one again, and forget what was written in the journal."""
        copy_image(self.prepared, self.image)
        self.journal.unlink(missing_ok=True)

    @contextlib.contextmanager
    def at_hand(self, image: Path) -> Generator[None]:
        """The image mounted, for the time of a block."""
        mount(self.system, image, self.mounted)
        with self.taken_away_after():
            yield

    @contextlib.contextmanager
    def taken_away_after(self) -> Generator[None]:
        """Unmount after the block, and more roughly if it raises."""
        try:
            yield
        except BaseException:
            scrap(self.mounted)
            raise
        unmount(self.mounted)

    def open_journal(self) -> int:
        return open_journal(self.journal)

    def verdict(self, image: Path, records: Sequence[Record] | None = None) -> list[str]:
        """Start the machine again with this image, and let the subject's judge look at it.

        `records` are what the journal says, unless others are given.
        """
        if self.system.mend:
            self.mending = run(*self.system.mend, str(image), accept=(0, 1))
        written = read_journal(self.journal) if records is None else records
        with self.at_hand(image):
            return self.subject.judge(self.root, [*self._start, *written])


def _empty(workspace: Path, system: FileSystem) -> Path:
    image = workspace / f"empty {system.name}"
    if not image.exists():
        make_image(system, image)
    return image
