"""Convert: from the old medium to the new one, with the chain as proof.

    locks/.medium        held alone: nobody writes, and nobody has the database open
    converting/          the new logs in the making; whatever a killed conversion left there goes
    attachstore.json     names the new medium: the one step that counts, atomic
    converted/<when>/    the old logs, kept until somebody removes them

Invariants

 (1) The medium that attachstore.json names is complete at every moment, and nobody writes any.
 (2) It names another only after every log in that was read back from its medium and found to be
     the same, byte for byte and by its head chain, as the one it replaces.
 (3) What lies in the place of a medium that is not named was the store's once, or is a whole
     copy: it is moved to `converted/`, never removed. What lies in `converting/` never was.
 (4) Each step is durable before the next. So a kill leaves the old store or the new one, and
     beside it what the next conversion clears away or puts aside.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from attachstore import layout
from attachstore.conversion.places import (
    clear_converting,
    has_the_store_alone,
    move_in,
    put_aside,
    start_converting,
)
from attachstore.conversion.report import (
    ConversionProgress,
    ConversionReport,
    ConversionStep,
    Meter,
)
from attachstore.disk import Disk, storage_errors
from attachstore.errors import InvalidConfigurationError, StoreLayoutError, StoreMissingError
from attachstore.layout import JSONL, Marker
from attachstore.opening import MEDIA, create_medium, medium_of
from attachstore.sessions.medium import SessionMedium
from attachstore.sessions.transfer import Survey, copy_log, prove, survey
from attachstore.threads import CancelFlag


def convert(
    disk: Disk,
    root: Path,
    target: str,
    *,
    with_damaged: bool = False,
    dry_run: bool = False,
    progress: Callable[[ConversionProgress], None] | None = None,
    cancel: CancelFlag | None = None,
) -> ConversionReport:
    """The blocking core of `convert_sessions`; see there."""
    if target not in MEDIA:
        reason = f"{target[:40]!a} is none of {', '.join(MEDIA)}"
        raise InvalidConfigurationError(where="sessions", key="sessions", reason=reason)
    disk.confine(root)
    _marker_of(disk, root)  # before anything is locked in what may be no store
    with has_the_store_alone(disk, root):
        marker = _marker_of(disk, root)
        if marker.sessions == target:
            (other,) = set(MEDIA) - {target}
            kept = None if dry_run else _finish(disk, root, other)
            return _report(other, target, [], converted=False, kept=kept)
        work = _Conversion(disk, root, marker, target, Meter(progress), cancel)
        return work.run(with_damaged=with_damaged, dry_run=dry_run)


class _Conversion:
    """Under the lock."""

    def __init__(
        self,
        disk: Disk,
        root: Path,
        marker: Marker,
        target: str,
        meter: Meter,
        cancel: CancelFlag | None,
    ) -> None:
        self._disk = disk
        self._root = root
        self._marker = marker
        self._target = target
        self._meter = meter
        self._cancel = cancel

    def run(self, *, with_damaged: bool, dry_run: bool) -> ConversionReport:
        source = self._marker.sessions
        with self._opened(source, self._root) as old:
            logs = self._check(old)
            damaged = [log.damage for log in logs if log.damage is not None]
            if dry_run:
                return _report(source, self._target, logs, converted=False, kept=None)
            if damaged and not with_damaged:
                raise damaged[0]
            try:
                self._build(old, logs)
            except BaseException:
                with storage_errors(self._root):
                    clear_converting(self._disk, self._root)
                raise
        # From here on all is prepared; what follows takes no time and is not cancelled.
        with storage_errors(self._root):
            put_aside(self._disk, self._root, self._target)
            move_in(self._disk, self._root, self._target)
        layout.replace_marker(self._disk, self._root, self._marker, sessions=self._target)
        kept = _finish(self._disk, self._root, source)
        return _report(source, self._target, logs, converted=True, kept=kept)

    def _check(self, old: SessionMedium) -> list[Survey]:
        self._meter.enter(ConversionStep.CHECKING, 0)
        logs: list[Survey] = []
        for name in old.names():
            logs.append(survey(old, name, self._cancel))
            self._meter.add_bytes(logs[-1].size_bytes)
            self._meter.add_session()
        return logs

    def _build(self, old: SessionMedium, logs: list[Survey]) -> None:
        total = sum(log.size_bytes for log in logs)
        with storage_errors(self._root):
            place = start_converting(self._disk, self._root)
        create_medium(self._target, place, self._disk)
        self._meter.enter(ConversionStep.COPYING, total)
        with self._opened(self._target, place) as new:
            for log in logs:
                copy_log(old, new, log.name, cancel=self._cancel)
                self._meter.add_bytes(log.size_bytes)
                self._meter.add_session()
        with storage_errors(place):
            self._settle(place)
        self._meter.enter(ConversionStep.PROVING, total)
        with self._opened(self._target, place) as new:  # anew: nothing is remembered
            for log in logs:
                prove(old, new, log, cancel=self._cancel, step=self._meter.add_bytes)
                self._meter.add_session()

    def _settle(self, place: Path) -> None:
        """Make a database of ours durable as a file, and forget what is cached of it."""
        if self._target == JSONL:
            return  # each log was, as it was added
        path = place / layout.DATABASE
        descriptor = self._disk.open_read(path)  # nobody has it open: no lock is lost
        try:
            self._disk.sync_file(descriptor)
            self._disk.drop_cache(descriptor)
        finally:
            self._disk.close(descriptor)
        self._disk.sync_directory(place)

    @contextmanager
    def _opened(self, kind: str, root: Path) -> Generator[SessionMedium]:
        medium = medium_of(kind, root, self._disk)
        medium.claims.lend()  # we hold the lock that it would share
        try:
            yield medium
        finally:
            medium.close()


def _marker_of(disk: Disk, root: Path) -> Marker:
    marker = layout.read_marker(disk, root)
    if marker is None:
        layout.refuse_foreign(disk, root)
        raise StoreMissingError(where=ascii(str(root))[1:-1])
    if marker.sessions not in MEDIA:
        reason = f"its sessions are in {marker.sessions!a}, not in {' or '.join(MEDIA)}"
        raise StoreLayoutError(where=str(root), reason=reason)
    return marker


def _finish(disk: Disk, root: Path, old: str) -> str | None:
    """Put the old logs aside, and clear what only a conversion needs; where they are now."""
    with storage_errors(root):
        kept = put_aside(disk, root, old)
        clear_converting(disk, root)
    return None if kept is None else str(kept)


def _report(
    source: str, target: str, logs: list[Survey], *, converted: bool, kept: str | None
) -> ConversionReport:
    return ConversionReport(
        source=source,
        target=target,
        converted=converted,
        sessions=len(logs),
        events=sum(log.head_seq for log in logs),
        size_bytes=sum(log.size_bytes for log in logs),
        damaged=tuple(log.damage for log in logs if log.damage is not None),
        kept=kept,
    )
