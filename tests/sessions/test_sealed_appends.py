"""A sealed log that is written to: what an append leaves, and what is made of it after any end."""

from __future__ import annotations

import contextlib
import errno
import itertools
import random
import string
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attachstore.disk import Disk
from attachstore.errors import (
    AttachstoreError,
    LogDamagedError,
    LogPoisonedError,
    StorageIOError,
    StoreLayoutError,
)
from attachstore.sessions import JsonlMedium, SessionLogs, sealed_writer
from attachstore.sessions.names import SessionName
from attachstore.sessions.sealed_glance import glance_at_either
from tests.conformance.session_place import confirm, content_of
from tests.faults import FailingDisk, InterceptedDisk
from tests.sessions.places import SealedPlace, UnsyncedDisk, unpacked
from tests.sessions.sealed_jobs import sealed, unended

TRAILER_BYTES = 24
END_BYTES = 3 + 4 + TRAILER_BYTES
MENDING = "log.jsonl.zst.mending"


@pytest.fixture
def place(tmp_path: Path) -> SealedPlace:
    return SealedPlace(tmp_path, UnsyncedDisk())


@pytest.fixture
def logs(place: SealedPlace) -> SessionLogs:
    return SessionLogs(place.medium(), confirm)


def files(place: SealedPlace) -> set[str]:
    return {path.name for path in place.directory("s-1").iterdir()}


def loaded(place: SealedPlace) -> list[Any]:
    """What a load finds and gives out, after one more append by it."""
    logs = SessionLogs(place.medium(), confirm)
    try:
        log = logs.load("s-1")
        assert log.append("message", "more").seq == log.head
        content = content_of(logs, "s-1")
        assert content.pop() == "more"
    finally:
        logs.close()
    assert unpacked(place.sealed_path("s-1").read_bytes()).count(b"\n") == len(content) + 2
    assert content_of(SessionLogs(place.medium(), confirm), "s-1") == [*content, "more"]
    return content


def appended(place: SealedPlace, data: str) -> None:
    """By a writer of its own, so that the frame ends."""
    logs = SessionLogs(place.medium(), confirm)
    logs.load("s-1").append("message", data)
    logs.close()


# -- what is written ---------------------------------------------------------------------------


def test_a_sealed_session_stays_sealed_whatever_is_done_with_it(
    place: SealedPlace, logs: SessionLogs
) -> None:
    path = sealed(place, "message", "turn/start")
    packed = path.read_bytes()

    log = logs.load("s-1")
    assert log.append("message", 3).seq == 4, "after the closer of the turn"
    log.append_many([("message", number) for number in (4, 5)])
    child = logs.fork("s-1", id="s-2")
    log.close()

    assert files(place) == {"log.jsonl.zst"}
    assert path.read_bytes().startswith(packed), "what was there is not touched"
    expected = [0, 1, {"reason": "interrupted"}, 3, 4, 5]
    assert content_of(logs, "s-1") == expected
    assert content_of(logs, child.id) == expected
    assert logs.load("s-1").head == 6
    assert list(logs.medium.strays()) == []


def test_every_acknowledged_event_comes_out_of_the_file_as_it_is(
    place: SealedPlace, logs: SessionLogs
) -> None:
    """With the tools of others, at the moment of the acknowledgement."""
    path = sealed(place, "message")
    log = logs.load("s-1")
    for number in range(1, 20):
        log.append("message", number)
        lines = unpacked(path.read_bytes()).splitlines(keepends=True)
        assert len(lines) == number + 2
        assert b'"data":%d,' % number in lines[-1]


def test_a_frame_ends_at_its_size_and_with_its_writer(
    place: SealedPlace, logs: SessionLogs
) -> None:
    path = sealed(place, "message")
    log = logs.load("s-1")
    for number in range(5):
        log.append("message", [number, "x" * 400_000])
    log.append_many([("message", [number, "y" * 400_000]) for number in range(5, 10)])
    log.close()
    stored = path.read_bytes()

    assert stored.count(b"\x5b\x2a\x4d\x18") == 3, "two that were full, and that of the batch"
    assert stored[-TRAILER_BYTES:].startswith(b"\x5b\x2a\x4d\x18")
    assert [number for number, _ in content_of(logs, "s-1")[1:]] == list(range(10))
    assert content_of(logs, "s-1", after=9)[0][0] == 8


def test_a_big_batch_lies_in_frames_that_a_reader_can_hold(
    place: SealedPlace, logs: SessionLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed_writer, "_COMMIT_BYTES", 5_000)
    path = sealed(place, "message")
    log = logs.load("s-1")
    events = [[number, "z" * (number % 7) * 1_000] for number in range(100)]
    log.append_many([("message", event) for event in events])
    log.append("message", "w" * 12_000)
    log.close()

    assert content_of(logs, "s-1")[1:] == [*events, "w" * 12_000]
    assert unpacked(path.read_bytes()).count(b"\n") == 103


def test_a_change_by_another_program_stops_the_writer(
    place: SealedPlace, logs: SessionLogs
) -> None:
    path = sealed(place, "message")
    log = logs.load("s-1")
    log.append("message", 1)
    stored = path.read_bytes() + b"\0"
    path.write_bytes(stored)

    with pytest.raises(LogPoisonedError, match="another program"):
        log.append("message", 2)
    logs.close()
    assert path.read_bytes() == stored, "and its frame is not ended behind it"


@pytest.mark.parametrize("method", ["write", "sync_data"])
@pytest.mark.parametrize("effect", ["none", "half", "done"])
def test_a_close_that_cannot_end_its_frame_has_lost_nothing(
    place: SealedPlace, method: str, effect: Any
) -> None:
    sealed(place, "message")
    disk = FailingDisk(effect=effect, sticky=True, methods={method})
    logs = SessionLogs(JsonlMedium(place.root, disk), confirm)
    log = logs.load("s-1")
    log.append("message", 1)
    disk.calls, disk.fail_at = 0, 1

    log.close()

    assert disk.landed
    assert content_of(logs, "s-1") == [0, 1]
    assert loaded(place) == [0, 1]


def test_a_listing_says_the_same_of_ended_and_of_loose_frames(
    place: SealedPlace, logs: SessionLogs
) -> None:
    """The one is seen at a glance, the other is opened."""
    path = sealed(place, "message")
    log = logs.load("s-1")
    for number in range(1, 6):
        log.append("message", number)
    (loose,) = SessionLogs(place.medium(), confirm).list()
    assert glance_at_either(place.disk, place.path("s-1"), path) is None
    log.close()
    (ended,) = SessionLogs(place.medium(), confirm).list()

    assert loose == ended
    assert (ended.head_seq, ended.problem) == (6, None)
    glance = glance_at_either(place.disk, place.path("s-1"), path)
    assert glance is not None
    assert glance.size_bytes == ended.size_bytes


# -- a kill, a cut, zeros ----------------------------------------------------------------------


def test_a_log_cut_at_any_byte_of_its_last_frame_keeps_what_was_acknowledged(
    place: SealedPlace,
) -> None:
    """As if the process was killed, and the power cut, at that byte of what it wrote last."""
    path = sealed(place, "message")
    logs = SessionLogs(place.medium(), confirm)
    log = logs.load("s-1")
    ends = [path.stat().st_size]
    for number in range(1, 6):
        log.append("message", [number] * number)
        ends.append(path.stat().st_size)
    logs.close()
    stored = path.read_bytes()
    ends.append(len(stored))
    assert ends[-1] - ends[-2] == END_BYTES

    for cut in range(ends[0], len(stored) + 1):
        path.write_bytes(stored[:cut])
        count = sum(end <= cut for end in ends[:-1])
        expected = [0, *([number] * number for number in range(1, count))]
        assert content_of(SessionLogs(place.medium(), confirm), "s-1") == expected
        assert loaded(place) == expected
        assert path.read_bytes().startswith(stored[: ends[0]])


def torn_states(before: int, stored: bytes) -> Iterator[bytes]:
    """What a power cut may leave of a write that began at `before`: sectors of it, in any order."""
    sectors = range(before // 512, (len(stored) - 1) // 512 + 1)
    for lost in sectors:
        for all_after in (False, True):
            zeroed = [
                number for number in sectors if number == lost or (all_after and number > lost)
            ]
            state = bytearray(stored)
            for number in zeroed:
                start, stop = max(before, number * 512), min(len(stored), number * 512 + 512)
                state[start:stop] = bytes(stop - start)
            yield bytes(state)
            yield bytes(state) + bytes(-len(state) % 4096)
    yield stored[:before] + bytes(-before % 4096)


@pytest.mark.parametrize("size", [1, 700, 3_000])
def test_sectors_that_an_append_lost_cost_that_append_only(place: SealedPlace, size: int) -> None:
    path = sealed(place, "message")
    logs = SessionLogs(place.medium(), confirm)
    log = logs.load("s-1")
    log.append("message", 1)
    before = path.stat().st_size
    noise = "".join(chr(0x4E00 + number * number % 20_000) for number in range(size))
    log.append_many([("message", noise), ("message", noise[::-1])])
    stored = path.read_bytes()
    logs.close()

    for state in torn_states(before, stored):
        path.write_bytes(state)
        content = loaded(place)
        assert content[:2] == [0, 1]
        assert content[2:] == [noise, noise[::-1]][: len(content) - 2]


@pytest.mark.parametrize("shift", range(0, 32, 3))
def test_sectors_that_a_frames_end_lost_cost_nothing(place: SealedPlace, shift: int) -> None:
    """The end, its checksum and the trailer may lie across two sectors."""
    path = sealed(place, "message")
    logs = SessionLogs(place.medium(), confirm)
    log = logs.load("s-1")
    log.append("message", 1)
    short = 512 - (path.stat().st_size + shift) % 512
    filler = "".join(chr(33 + number * 37 % 59) for number in range(short))
    log.append("message", filler.replace("\\", "/").replace('"', "'"))
    content = content_of(logs, "s-1")
    before = path.stat().st_size
    logs.close()

    for state in torn_states(before, path.read_bytes()):
        path.write_bytes(state)
        assert loaded(place) == content


@pytest.mark.parametrize("before_sector", range(1, 8))
def test_a_frame_that_begins_shortly_before_a_lost_sectors_end_is_torn(
    place: SealedPlace, before_sector: int
) -> None:
    """Of its first bytes, which say what it is, only those in the next sector were written."""
    path = sealed(place, "message")
    packed = path.read_bytes()
    letters = "".join(random.Random(0).choices(string.ascii_letters, k=900))
    # Until the frame that is written last ends where it has to: the time is in it, so any may.
    for length in itertools.islice(itertools.cycle(range(len(letters))), 20_000):
        path.write_bytes(packed)
        appended(place, letters[:length])
        if (path.stat().st_size + before_sector) % 512 == 0:
            break
    before = path.stat().st_size
    assert (before + before_sector) % 512 == 0
    content = content_of(SessionLogs(place.medium(), confirm), "s-1")
    logs = SessionLogs(place.medium(), confirm)
    logs.load("s-1").append("message", "the last")
    stored = path.read_bytes()
    logs.close()

    for state in torn_states(before, stored):
        path.write_bytes(state)
        assert loaded(place) in (content, [*content, "the last"])


def test_what_is_cut_is_kept_and_what_lies_before_is_not_written(place: SealedPlace) -> None:
    path = unended(place, 2, 3)
    stored = path.read_bytes()
    path.write_bytes(stored + b"\x9d\x04\x00 never finished")
    prefix_bytes = stored.rindex(b"\x28\xb5\x2f\xfd")

    assert loaded(place) == [0, 1, 2, 3]
    (kept,) = (place.directory("s-1") / "torn").iterdir()
    assert kept.read_bytes() == stored[prefix_bytes:] + b"\x9d\x04\x00 never finished"
    assert path.read_bytes()[:prefix_bytes] == stored[:prefix_bytes]


# -- changed, not torn -------------------------------------------------------------------------


def test_no_changed_byte_of_a_loose_end_becomes_an_event(place: SealedPlace) -> None:
    """Nor does it take an event before it away; and most changes are told from a tear."""
    path = unended(place, *range(2, 12))
    stored = path.read_bytes()
    start = stored.rindex(b"\x28\xb5\x2f\xfd")
    refused = 0
    for position in range(start, len(stored)):
        changed = bytearray(stored)
        changed[position] ^= 0x41
        path.write_bytes(bytes(changed))
        logs = SessionLogs(place.medium(), confirm)
        seen = content_of(logs, "s-1", damaged="stop")
        assert seen == list(range(len(seen)))
        assert len(seen) >= 2
        with contextlib.suppress(LogDamagedError):
            logs.verify("s-1")
            continue
        refused += 1
        with pytest.raises(LogDamagedError):
            logs.load("s-1")
        assert path.read_bytes() == bytes(changed)
    assert refused > (len(stored) - start) // 2


def test_a_loose_end_with_a_frame_behind_it_is_damage(
    place: SealedPlace, logs: SessionLogs
) -> None:
    """A writer ends a frame before it begins the next, so it was not a crash that cut this one."""
    path = unended(place, 2, 3)
    stored = path.read_bytes()
    path.write_bytes(stored[:-9] + stored[stored.rindex(b"\x28\xb5\x2f\xfd") :])

    assert content_of(logs, "s-1", damaged="stop") == [0, 1, 2]
    for call in (logs.load, logs.verify, logs.seal):
        with pytest.raises(LogDamagedError):
            call("s-1")
    with pytest.raises(StoreLayoutError):
        logs.unseal("s-1")

    assert logs.repair("s-1").head_seq == 3
    assert loaded(place) == [0, 1, 2]


# -- a mending ---------------------------------------------------------------------------------


class WatchedDisk(InterceptedDisk):
    """Calls `watch` before each call that changes something."""

    def __init__(self, watch: Callable[[], object]) -> None:
        super().__init__()
        self.watch = watch
        self.calls = 0

    def intercept(self, method: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        if method in {"write", "truncate", "link_open_file", "unlink", "sync_file"}:
            self.calls += 1
            self.watch()
        return call()


class DyingDisk(InterceptedDisk):
    """Fails before or after a log is truncated; a lock's file is too, at 0."""

    def __init__(self, when: str) -> None:
        super().__init__()
        self.when = when

    def intercept(self, method: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        if method != "truncate" or not arguments[1]:
            return call()
        if self.when == "after":
            call()
        raise OSError(errno.EIO, "injected")


def killed_while_it_mends(place: SealedPlace, when: str) -> Path:
    path = unended(place, 2, 3)
    logs = SessionLogs(JsonlMedium(place.root, DyingDisk(when)), confirm)
    with pytest.raises(StorageIOError):
        logs.load("s-1").append("message", 4)
    logs.close()
    assert files(place) == {"log.jsonl.zst", MENDING}
    return path


def test_readers_see_every_event_while_a_log_is_mended(place: SealedPlace) -> None:
    """Those who come at that moment, and one that has the log open all the time."""
    unended(place, 2, 3)
    reading = SessionLogs(place.medium(), confirm)
    with reading.medium.open(SessionName.of("s-1")) as opened:
        whole = opened.read(0, opened.size())

        def watch() -> None:
            assert content_of(reading, "s-1")[:4] == [0, 1, 2, 3]
            assert reading.inspect("s-1").tail is None
            size_bytes = opened.size()
            assert opened.read(0, size_bytes)[: len(whole)] == whole

        disk = WatchedDisk(watch)
        logs = SessionLogs(JsonlMedium(place.root, disk), confirm)
        logs.load("s-1").append("message", 4)
        watch()
        logs.close()
    assert disk.calls > 8


def test_a_killed_mending_is_read_and_then_done(place: SealedPlace) -> None:
    """The file is truncated, and not written again: all is in the second file."""
    killed_while_it_mends(place, "after")

    reading = SessionLogs(place.medium(), confirm)
    assert content_of(reading, "s-1") == [0, 1, 2, 3]
    assert content_of(reading, "s-1", after=3) == [3]
    assert content_of(reading, reading.fork("s-1", id="s-2").id) == [0, 1, 2, 3]
    assert [each.head_seq for each in reading.list()] == [4, 4]
    assert list(reading.medium.strays()) == []

    assert loaded(place) == [0, 1, 2, 3]
    assert files(place) == {"log.jsonl.zst"}


def test_a_reader_that_looked_before_the_mending_was_done_looks_again(place: SealedPlace) -> None:
    """It saw the truncated file, and came to look for the second one when that had gone."""
    killed_while_it_mends(place, "after")
    done: list[str] = []

    def finish(method: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        if method == "open_read" and arguments[0].name == MENDING and not done:
            done.append(method)
            with contextlib.closing(SessionLogs(place.medium(), confirm)) as logs:
                logs.load("s-1")
            assert files(place) == {"log.jsonl.zst"}
        return call()

    disk = InterceptedDisk()
    disk.intercept = finish
    reading = SessionLogs(JsonlMedium(place.root, disk), confirm)

    assert content_of(reading, "s-1") == [0, 1, 2, 3]
    assert done


@pytest.mark.parametrize("how", ["cut", "changed", "foreign", "elsewhere", "empty", "link", "dir"])
def test_a_mending_that_does_not_belong_is_refused(place: SealedPlace, how: str) -> None:
    path = killed_while_it_mends(place, "before")
    mending = path.with_name(MENDING)
    content = bytearray(mending.read_bytes())
    if how == "cut":
        del content[-3:]
    elif how == "changed":
        content[-9] ^= 1
    elif how == "foreign":
        content[:4] = b"what"
    elif how == "elsewhere":
        content[8] ^= 1
    else:
        content.clear()
    mending.write_bytes(bytes(content))
    if how in {"link", "dir"}:
        mending.unlink()
        mending.mkdir() if how == "dir" else mending.symlink_to(path)
    stored = path.read_bytes()

    logs = SessionLogs(place.medium(), confirm)
    for call in (logs.load, logs.verify, logs.seal, logs.unseal):
        with pytest.raises((StoreLayoutError, LogDamagedError)):
            call("s-1")
    (summary,) = logs.list()
    assert summary.problem is not None
    assert path.read_bytes() == stored
    assert how in {"link", "dir"} or mending.read_bytes() == bytes(content)
    logs.close()


def test_the_disk_of_a_reader_need_not_be_written(place: SealedPlace) -> None:
    """A loose end is read without being mended."""
    path = unended(place, 2)
    stored = path.read_bytes()
    disk = FailingDisk(1, sticky=True, methods={"write", "truncate", "unlink", "sync_directory"})

    logs = SessionLogs(JsonlMedium(place.root, disk), confirm)

    assert content_of(logs, "s-1") == [0, 1, 2]
    assert logs.inspect("s-1").head_seq == 3
    assert path.read_bytes() == stored
    assert Disk().names(path.parent) == ["log.jsonl.zst"]


# -- anything ----------------------------------------------------------------------------------

EDITS = st.lists(
    st.tuples(
        st.sampled_from(["cut", "zero", "flip", "insert", "copy"]),
        st.floats(0, 1),
        st.integers(1, 700),
        st.binary(min_size=1, max_size=9),
    ),
    max_size=3,
)


def edited(stored: bytes, edits: list[tuple[str, float, int, bytes]]) -> bytes:
    content = bytearray(stored)
    for how, where, size, new in edits:
        start = int(where * len(content))
        if how == "cut":
            del content[start:]
        elif how == "zero":
            stop = min(len(content), start + size)
            content[start:stop] = bytes(stop - start)
        elif how == "flip" and start < len(content):
            content[start] ^= new[0] or 1
        elif how == "insert":
            content[start:start] = new
        elif how == "copy":
            content[start:start] = content[size : 2 * size]
    return bytes(content)


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A sealed log with frames of each kind, and a mending of it."""
    place = SealedPlace(tmp_path_factory.mktemp("originals"), UnsyncedDisk())
    path = unended(place, 2, [3, "x" * 2_000])
    logs = SessionLogs(place.medium(), confirm)
    log = logs.load("s-1")
    for number in range(4, 9):
        log.append("message", number)
    whole = path.read_bytes()
    logs.close()
    path.write_bytes(whole)
    logs = SessionLogs(JsonlMedium(place.root, DyingDisk("before")), confirm)
    with pytest.raises(StorageIOError):
        logs.load("s-1").append("message", 9)
    logs.close()
    return {path.name: path.read_bytes() for path in path.parent.iterdir() if path.is_file()}


@given(edits=EDITS, mended=st.none() | EDITS, data=st.data())
@settings(max_examples=300, deadline=None)
def test_whatever_is_done_to_the_files_no_wrong_event_and_no_foreign_error_comes_out(
    originals: dict[str, bytes],
    tmp_path_factory: pytest.TempPathFactory,
    edits: list[Any],
    mended: list[Any] | None,
    data: st.DataObject,
) -> None:
    place = SealedPlace(tmp_path_factory.mktemp("edited"), UnsyncedDisk())
    path = place.sealed_path("s-1")
    path.parent.mkdir()
    path.write_bytes(edited(originals[path.name], edits))
    if mended is not None:
        path.with_name(MENDING).write_bytes(edited(originals[MENDING], mended))
    expected = [0, 1, 2, [3, "x" * 2_000], *range(4, 9)]
    logs = SessionLogs(place.medium(), confirm)
    seen: list[Any] = []
    with contextlib.suppress(AttachstoreError):
        for event in logs.events("s-1"):
            seen.append(event.data)  # noqa: PERF401 - the error ends the loop
    assert seen == expected[: len(seen)]

    call = data.draw(st.sampled_from([logs.load, logs.seal, logs.unseal, logs.repair]))
    with contextlib.suppress(AttachstoreError):
        call("s-1")
        logs.close()
        logs = SessionLogs(place.medium(), confirm)
        content = content_of(logs, "s-1", damaged="stop")
        assert content[: len(seen)] == seen, "what could be read still can"
        assert content == expected[: len(content)]
    logs.close()
