"""Rig 6: every order in which a drive may have written what nobody told it to flush.

The store's disk is a daemon that logs each write and each flush (block_daemon.py), and each
record of the workload's journal as one more write behind the end of the file system, so that
the log says which promises had been made when. From the log the rig makes disks as a power cut
may leave them: all that was written before the last flush, and of what was written since any
part, torn in the middle now and then. Each of these disks that differs from all others is
mounted, recovered by its file system, and judged by the oracle.

It sees what reordering drives do to these file systems, and to the sync calls that the store
relies on. It does not see drives that lie about a flush, nor blocks that are half written.
"""

from __future__ import annotations

import os
import random
import struct
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

from tests.rigs import subjects
from tests.rigs.alone import reason_not_to_run, run_alone
from tests.rigs.block_daemon import DEVICES, PROGRAM, BlockDaemon, Logged, read_log
from tests.rigs.figures import Figures, Progress, Scale
from tests.rigs.held_process import HeldProcess, unavailable
from tests.rigs.images import (
    BTRFS,
    EXT4,
    EXT4_NO_JOURNAL,
    EXT4_WRITEBACK,
    XFS,
    FileSystem,
    copy_image,
    extents,
    mount,
)
from tests.rigs.journal import Journal, Record, read_journal
from tests.rigs.stage import Stage
from tests.rigs.subjects import Subject

NUMBER, NAME, UNIT = 6, "disks with any part of the unflushed writes", "images"
SYSTEMS = (EXT4, EXT4_WRITEBACK, EXT4_NO_JOURNAL, XFS, BTRFS)
IMAGES_PER_WORKLOAD = (6, 17)
"""In CI, where each workload runs on one file system, and else, where each runs on all."""
_IMAGES_OF_KNOWN = 40
_SUBSETS_MAX = 32
"""Of the writes between two flushes."""
_BLOCK_BYTES = 4096
_MARK = struct.Struct("<8sI")
_MARK_NAME = b"promise!"
_MARK_BYTES = 512
_MARKS_BYTES = 1 << 20
_TIMEOUT_S = 3600.0


def run(scale: Scale) -> Figures:
    """All workloads on all five configurations; in CI each workload on one of them."""
    programs = (PROGRAM, "e2fsck", *(system.make[0] for system in SYSTEMS))
    reason = reason_not_to_run(*programs, devices=DEVICES) or unavailable()
    if reason:
        return Figures(NUMBER, NAME, 0, UNIT, [], 0.0, not_run=reason)
    return run_alone(f"{__name__}:all_images", scale, timeout_s=_TIMEOUT_S)


def all_images(workspace: Path, scale: Scale) -> Figures:
    """In a process of its own."""
    started_s = time.monotonic()
    counted: Counter[str] = Counter()
    writes = flushes = 0
    violations: list[str] = []
    notes: list[str] = []
    for system in SYSTEMS[:1] if scale.ci else SYSTEMS:
        wrong, measured = calibrate(workspace, system)
        violations += wrong
        notes.append(measured)
    workloads, progress = subjects.workloads(), Progress(scale, "workloads")
    for position, subject in enumerate(workloads):
        progress.at(position, len(workloads), len(violations))
        for system in SYSTEMS if not scale.ci else [SYSTEMS[position % len(SYSTEMS)]]:
            recording = Recording(workspace, system, subject)
            for said in recording.verdicts(scale.pick(*IMAGES_PER_WORKLOAD)):
                violations += said
                counted[system.name] += 1
            writes += recording.writes
            flushes += recording.flushes
    notes += [f"{name}: {images}" for name, images in counted.items()]
    notes.append(f"made from {writes} writes and {flushes} flushes")
    seconds = time.monotonic() - started_s
    return Figures(
        NUMBER, NAME, counted.total(), UNIT, violations, seconds, tuple(notes), "", counted
    )


def calibrate(workspace: Path, system: FileSystem) -> tuple[list[str], str]:
    """See subjects.calibrate."""

    def losses(subject: Subject) -> tuple[int, int]:
        images = list(Recording(workspace, system, subject).verdicts(_IMAGES_OF_KNOWN))
        return sum(map(bool, images)), len(images)

    return subjects.calibrate(system.name, subjects.losing(), losses)


@dataclass(frozen=True)
class Epoch:
    """What reached the disk between two flushes."""

    pending: tuple[Logged, ...]
    promises: int
    """How many records of the journal had been written at its end."""


class MarkedJournal(Journal):
    """Each record is also a write to the disk, behind the file system."""

    def __init__(self, descriptor: int, disk: int, first_mark: int) -> None:
        super().__init__(descriptor)
        self._disk = disk
        self._first_mark = first_mark

    def add(self, record: Record) -> None:
        super().add(record)
        number = len(self.records)
        mark = _MARK.pack(_MARK_NAME, number).ljust(_MARK_BYTES, b"\0")
        offset_bytes = (number - 1) * _MARK_BYTES
        assert offset_bytes < _MARKS_BYTES
        os.pwrite(self._disk, mark, self._first_mark + offset_bytes)


class Recording(Stage):
    """One run of a subject, and the disks that it may have left."""

    def __init__(self, workspace: Path, system: FileSystem, subject: Subject) -> None:
        super().__init__(workspace, system, subject)
        self._log = workspace / "log"
        self._record(workspace)
        requests = list(read_log(self._log))
        self.writes = sum(bool(it.data) for it in requests)
        self.flushes = sum(it.flushes for it in requests)
        self._epochs = list(_epochs(requests, system.size_bytes))
        self._records = read_journal(self.journal)
        assert self._epochs[-1].promises == len(self._records), "a mark is missing"

    def _record(self, workspace: Path) -> None:
        self.renew()
        size_bytes = self.system.size_bytes
        os.truncate(self.image, size_bytes + _MARKS_BYTES)
        with BlockDaemon(workspace, self.image, log=self._log) as daemon:
            mount(self.system, daemon.served, self.mounted, size_bytes)
            with self.taken_away_after():

                def work() -> None:
                    disk = os.open(daemon.served, os.O_RDWR)
                    journal = MarkedJournal(self.open_journal(), disk, size_bytes)
                    self.subject.run(self.root, journal)

                with HeldProcess(work) as writer:
                    for call in writer.calls():
                        writer.go_on(call)
                    assert writer.status == 0, writer.complaint

    def verdicts(self, images: int) -> Iterator[list[str]]:
        """What is wrong with each of up to that many disks, chosen evenly; no two are the same."""
        chance = random.Random(f"{self.system.name} {self.subject.name}")
        candidates = [
            (number, subset)
            for number, epoch in enumerate(self._epochs)
            for subset in _subsets(epoch.pending, chance)
        ]
        chosen = sorted(chance.sample(range(len(candidates)), min(images, len(candidates))))
        seen: set[bytes] = set()
        for number, subset in self._settling([candidates[index] for index in chosen]):
            copy_image(self._settled, self.image)
            _write(self.image, subset)
            content = _content_of(self.image)
            if content not in seen:
                seen.add(content)
                epoch = self._epochs[number]
                said = self.verdict(self.image, self._records[: epoch.promises])
                place = f"{self.system.name}: {self.subject.name}, {len(subset)} of "
                place += f"{len(epoch.pending)} writes before flush {number + 1}"
                yield [f"{place}: {line}" for line in said]

    @property
    def _settled(self) -> Path:
        return self.image.with_name("settled")

    def _settling(
        self, chosen: Sequence[tuple[int, list[Logged]]]
    ) -> Iterator[tuple[int, list[Logged]]]:
        """Each choice, when all that was flushed before its epoch is in `_settled`."""
        copy_image(self.prepared, self._settled)
        done = 0
        for number, subset in chosen:
            while done < number:
                _write(self._settled, self._epochs[done].pending)
                done += 1
            yield number, subset


def _epochs(requests: Sequence[Logged], size_bytes: int) -> Iterator[Epoch]:
    """A disk is at its worst right before a flush ends, so each epoch is looked at there.

    Whatever a cut in the middle of an epoch leaves is a part of the same writes, after fewer
    promises.
    """
    pending: list[Logged] = []
    promises = 0
    for request in requests:
        if request.flushes:
            yield Epoch(tuple(pending), promises)
            pending = []
        if request.offset_bytes >= size_bytes:
            name, number = _MARK.unpack_from(request.data) if request.data else (b"", 0)
            if name == _MARK_NAME:
                assert number == promises + 1, "a mark is missing"
                promises = number
        elif request.data:
            pending.append(request)
            if request.forced:
                yield Epoch(tuple(pending), promises)
                pending = []
    yield Epoch(tuple(pending), promises)


def _subsets(pending: Sequence[Logged], chance: random.Random) -> Iterator[list[Logged]]:
    """All parts of a few writes; of many, the extremes and a sample. Torn ones beside them."""
    count = len(pending)
    if 1 << count <= _SUBSETS_MAX:
        for mask in range(1 << count):
            yield [it for bit, it in enumerate(pending) if mask >> bit & 1]
    else:
        yield []
        yield list(pending)
        each = _SUBSETS_MAX // 5
        for position in chance.sample(range(count), each):
            yield [pending[position]]
            yield [*pending[:position], *pending[position + 1 :]]
            yield list(pending[: position + 1])
        for _ in range(each):
            yield [it for it in pending if chance.random() < 0.5]
    for _ in range(_SUBSETS_MAX // 8):
        torn = [it for it in (_torn(it, chance) for it in pending) if it.data]
        if torn and torn != list(pending):
            yield torn


def _torn(write: Logged, chance: random.Random) -> Logged:
    """The front of a write, up to a block; a single block is written or not."""
    blocks = len(write.data) // _BLOCK_BYTES
    if blocks <= 1:
        return write if chance.random() < 0.8 else Logged(write.offset_bytes, b"", False, False)
    kept = chance.randint(0, blocks) * _BLOCK_BYTES
    return Logged(write.offset_bytes, write.data[:kept], False, False)


def _write(image: Path, writes: Sequence[Logged]) -> None:
    descriptor = os.open(image, os.O_WRONLY)
    try:
        for write in writes:
            os.pwrite(descriptor, write.data, write.offset_bytes)
    finally:
        os.close(descriptor)


def _content_of(image: Path) -> bytes:
    """A digest of the disk's content, the same whether zeros are written or a hole."""
    hasher = blake3()
    zeros = bytes(1 << 16)
    with image.open("rb") as file:
        for start, end in extents(image):
            for offset in range(start - start % len(zeros), end, len(zeros)):
                block = os.pread(file.fileno(), len(zeros), offset)
                if block != zeros[: len(block)]:
                    hasher.update(offset.to_bytes(8, "little"))
                    hasher.update(block)
    return hasher.digest()
