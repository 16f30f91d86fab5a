"""What a log's reader and writer refuse: what is no file, what changed meanwhile, after an error.

Each test turns red without one guard of sessions/ that no other test needs (tests/rigs, rig 11).
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from attachstore.digest import Digest
from attachstore.disk import Disk
from attachstore.errors import (
    DanglingReferenceError,
    LogDamagedError,
    LogPoisonedError,
    SessionBusyError,
    StorageIOError,
    StoreLayoutError,
    StorePoisonedError,
)
from attachstore.promise import Promise
from attachstore.reference import Reference
from attachstore.sessions import JsonlMedium, SessionLogs, fork, lineage
from attachstore.sessions.glance import glance_at
from attachstore.sessions.log import SessionLog
from attachstore.sessions.mending import MENDING, read_mending
from attachstore.sessions.names import SessionName
from attachstore.sessions.new_log import NewLog
from attachstore.sessions.sealed_glance import glance_at_either
from attachstore.sessions.sealed_writer import SealedWriter
from tests.conformance.session_place import REFERENCE, filled
from tests.faults import FailingDisk, InterceptedDisk, RecordingDisk
from tests.sessions.jobs import open_logs
from tests.sessions.places import JsonlPlace, SealedPlace
from tests.sessions.sealed_jobs import sealed, unended

NAME = SessionName.of("s-1")


@pytest.fixture
def place(tmp_path: Path) -> SealedPlace:
    return SealedPlace(tmp_path)


# -- what is no file ---------------------------------------------------------------------------


def directory(path: Path) -> Path:
    path.mkdir()
    (path / "entry").write_bytes(b"so that it has a size everywhere")
    return path


def test_a_glance_does_not_read_what_is_no_file(tmp_path: Path) -> None:
    path = directory(tmp_path / "log.jsonl")
    assert glance_at(Disk(), path) is None
    assert glance_at_either(Disk(), tmp_path / "absent", path) is None


def test_what_is_no_file_is_no_mending(tmp_path: Path) -> None:
    directory(tmp_path / MENDING)
    disk = RecordingDisk(tmp_path, methods={"read", "read_into"})

    with pytest.raises(StoreLayoutError):
        read_mending(disk, tmp_path / "log.jsonl.zst")
    assert disk.trace == []


def test_a_name_that_is_anothers_is_not_taken_back(tmp_path: Path) -> None:
    """The error says that the link was not made; meanwhile another has made one."""
    path = tmp_path / "log.jsonl"

    def intercept(method: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        del arguments
        if method in {"link_open_file", "link"}:
            path.write_bytes(b"another's")
            raise OSError(errno.EIO, "injected")
        return call()

    disk = InterceptedDisk()
    disk.intercept = intercept
    new = NewLog(disk, tmp_path)
    new.fill([b"ours"])

    with pytest.raises(OSError, match="injected"):
        new.publish(path)
    assert path.read_bytes() == b"another's"
    new.abandon()


# -- what changes between two readings ---------------------------------------------------------


def changed_history(place: JsonlPlace) -> fork.Prefix:
    """The log of s-1 is another one now, of the same length; this is what it was."""
    logs = open_logs(place.root)
    filled(logs, "s-1", 1, 2)
    filled(logs, "s-2", 1, 3)
    with logs.medium.open(NAME) as log:
        prefix = fork.find_prefix(
            log, NAME, where="s-1", end_bytes=log.size(), acknowledged=False, at=None
        )
    logs.close()
    lines = place.read("s-2").splitlines(keepends=True)
    place.write("s-1", place.read("s-1").splitlines(keepends=True)[0] + b"".join(lines[1:]))
    return prefix


def test_a_fork_copies_what_it_has_checked(tmp_path: Path) -> None:
    place = JsonlPlace(tmp_path)
    prefix = changed_history(place)

    with place.medium().open(NAME) as log, pytest.raises(LogDamagedError, match="changed"):
        list(fork.copy_lines(log, prefix, NAME, where="s-1", cancel=None))


def test_references_are_not_taken_from_a_damaged_log(tmp_path: Path) -> None:
    """It was whole when the fork's end was looked for."""
    place = JsonlPlace(tmp_path)
    prefix = changed_history(place)
    place.write("s-1", place.read("s-1").replace(b'"seq":2', b'"seq":4'))

    with pytest.raises(LogDamagedError):
        fork.references_in_prefix(place.medium(), NAME, prefix, None)


def test_a_damaged_log_is_not_written_to(tmp_path: Path) -> None:
    place = JsonlPlace(tmp_path)
    filled(open_logs(tmp_path), "s-1", 1, 2)
    place.write("s-1", place.read("s-1").replace(b'"seq":1', b'"seq":7'))
    stored = place.read("s-1")

    with pytest.raises(LogDamagedError):
        open_logs(tmp_path).load("s-1")
    assert place.read("s-1") == stored


class Chains:
    """A damaged log: of its events only some are known."""

    def __init__(self, **chains: str) -> None:
        self._all = {int(seq[1:]): chain for seq, chain in chains.items()}

    def head(self) -> int:
        return max(self._all)

    def at(self, _: int) -> None:
        return None

    def whole(self) -> dict[int, str]:
        return self._all


def test_damaged_logs_part_where_their_chains_differ() -> None:
    one = cast("Any", Chains(e1="a", e2="b", e3="c"))
    other = cast("Any", Chains(e1="a", e2="x", e3="y"))
    assert lineage._parting(one, other) == 1


# -- after a failed sync -----------------------------------------------------------------------


def break_promise(medium: JsonlMedium) -> Promise:
    """As if a sync of names had failed."""
    promise = Promise(FailingDisk(1, methods={"sync_directory"}), "sessions")
    with pytest.raises(OSError, match="injected"):
        promise.sync_directory(Path("/"))
    medium._promise = promise
    return promise


def test_a_poisoned_medium_changes_nothing(place: SealedPlace) -> None:
    filled(open_logs(place.root), "s-1", 1)
    disk = RecordingDisk(place.root)
    medium = JsonlMedium(place.root, disk)
    break_promise(medium)
    other = SessionName.of("s-2")

    calls: list[Callable[[], object]] = [
        lambda: medium.claim(NAME),
        lambda: medium.add(other, [b"a line\n"]),
        lambda: medium.open_writer(NAME),
        lambda: medium.unseal(NAME),
        lambda: medium.delete(NAME),
    ]
    for call in calls:
        with pytest.raises(StorePoisonedError):
            call()
    assert disk.trace == []


def test_the_writer_of_a_plain_log_writes_nothing_more(place: SealedPlace) -> None:
    filled(open_logs(place.root), "s-1", 1)
    medium = place.medium()
    before = place.read("s-1")
    with medium.open_writer(NAME) as writer:
        cast("Any", writer)._promise = break_promise(medium)

        with pytest.raises(StorePoisonedError):
            writer.append(b"more\n", len(before))
        with pytest.raises(StorePoisonedError):
            writer.cut(len(before) - 5)
    assert place.read("s-1") == before


def test_the_writer_of_a_sealed_log_writes_nothing_more(
    place: SealedPlace, caplog: pytest.LogCaptureFixture
) -> None:
    path = sealed(place, "message", "message")
    medium = place.medium()
    writer = medium.open_writer(NAME)
    assert isinstance(writer, SealedWriter)
    end_bytes = writer.settle()
    writer.append(b"one line\n", end_bytes)
    before = path.read_bytes()
    cast("Any", writer)._promise = break_promise(medium)

    with pytest.raises(StorePoisonedError):
        writer.append(b"more\n", end_bytes + 9)
    with pytest.raises(StorePoisonedError):
        writer.cut(end_bytes)
    with caplog.at_level(logging.WARNING):
        writer.close()  # the frame stays without its end
    assert path.read_bytes() == before


def test_a_poisoned_medium_mends_nothing(place: SealedPlace) -> None:
    path = unended(place, 2)
    path.with_name(MENDING).write_bytes(b"of whatever kind")
    before = path.read_bytes()
    medium = place.medium()
    descriptor = Disk().open_write(path)
    writer = SealedWriter(Disk(), descriptor, path, NAME, break_promise(medium))

    with pytest.raises(StorePoisonedError):
        writer.finish_mending()
    assert path.read_bytes() == before
    writer.close()


# -- after a close, and while another thread fails ---------------------------------------------


def test_a_closed_session_stays_closed(place: SealedPlace) -> None:
    log = filled(open_logs(place.root), "s-1", 1)

    with pytest.raises(ValueError, match="is closed"):
        log.open(close_turn=False)
    with pytest.raises(ValueError, match="is closed"):
        log.prepare()


class FailingMeanwhile:
    """While an append's references are confirmed, another thread's append fails."""

    def __init__(self, disk: FailingDisk) -> None:
        self.disk = disk
        self.log: SessionLog | None = None
        self.asked = 0

    def confirm(self, _: Reference) -> None:
        self.asked += 1
        if self.log is not None and self.disk.fail_at == 0:
            self.disk.fail_at = self.disk.calls + 1
            with pytest.raises(StorageIOError):
                self.log.append("message", "another thread's")


def test_an_append_does_not_follow_one_that_failed_meanwhile(place: SealedPlace) -> None:
    """That wrote nothing, so the log's size does not tell."""
    disk = FailingDisk(methods={"write"})
    meanwhile = FailingMeanwhile(disk)
    logs = SessionLogs(JsonlMedium(place.root, disk), meanwhile.confirm)
    meanwhile.log = log = logs.create("s-1")
    log.append("message", 1)

    with pytest.raises(LogPoisonedError):
        log.append("message", REFERENCE)
    stored = place.read("s-1")
    asked = meanwhile.asked
    with pytest.raises(LogPoisonedError):
        log.append("message", REFERENCE)
    assert place.read("s-1") == stored
    assert meanwhile.asked == asked == 1, "a session that is not usable asks nothing"
    logs.close()


def test_nothing_is_written_for_a_reference_that_is_refused(place: SealedPlace) -> None:
    logs = open_logs(place.root)
    log = logs.create("s-1")
    log.append("message", 1)
    stored = place.read("s-1")

    with pytest.raises(DanglingReferenceError):
        log.append("message", replace(REFERENCE, digest=Digest.of(b"never attached")))
    assert place.read("s-1") == stored
    logs.close()


def test_a_fork_is_claimed_while_it_is_made(place: SealedPlace) -> None:
    filled(open_logs(place.root), "s-1", 1)
    claim = place.medium().claim(SessionName.of("s-2"))

    with pytest.raises(SessionBusyError):
        open_logs(place.root).fork("s-1", id="s-2")
    claim.release()


def test_a_session_is_claimed_before_its_log_is_made(place: SealedPlace) -> None:
    log = open_logs(place.root).create("s-1")
    claim = place.medium().claim(NAME)

    with pytest.raises(SessionBusyError):
        log.append("message", 1)
    claim.release()
    assert not place.path("s-1").exists()


@pytest.mark.parametrize("change", ["delete", "repair", "seal"])
def test_a_session_is_claimed_before_it_is_changed(place: SealedPlace, change: str) -> None:
    filled(open_logs(place.root), "s-1", 1)
    claim = place.medium().claim(NAME)

    with pytest.raises(SessionBusyError):
        getattr(open_logs(place.root), change)("s-1")
    claim.release()
    assert place.path("s-1").exists()
