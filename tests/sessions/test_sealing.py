"""Sealed logs: the same log in less room, and one whole log at every moment in between."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from attachstore.disk import Disk
from attachstore.errors import (
    AttachstoreError,
    InvalidConfigurationError,
    LogDamagedError,
    MissingDependencyError,
    SessionBusyError,
    SessionExistsError,
    SessionMissingError,
    StoreLayoutError,
)
from attachstore.integrity import scan
from attachstore.objects.memory import MemoryBackend
from attachstore.objects.store import ObjectStore
from attachstore.sessions import JsonlMedium, MemoryMedium, SessionLogs, zstd_frames
from attachstore.sessions.names import SessionName
from attachstore.sessions.sqlite import SqliteMedium
from attachstore.sessions.zstd_frames import library
from tests.conformance.session_contract import SessionContractConformance
from tests.conformance.session_damage import SessionDamageConformance
from tests.conformance.session_kills import SessionKillConformance
from tests.conformance.session_medium import SessionMediumConformance
from tests.conformance.session_place import confirm, content_of, filled
from tests.conformance.session_suffix import SessionSuffixConformance
from tests.faults import SYNCS, InterceptedDisk, PowerLossDisk, RecordingDisk, failing_disks
from tests.sessions.places import BornSealedPlace, SealedPlace

Change = Callable[[SessionLogs], object]


@pytest.fixture
def place(tmp_path: Path) -> SealedPlace:
    return SealedPlace(tmp_path)


@pytest.fixture
def logs(place: SealedPlace) -> SessionLogs:
    return SessionLogs(place.medium(), confirm)


class _BornSealed:
    """Every log of these suites is sealed from its first event on."""

    @pytest.fixture
    def place(self, tmp_path: Path) -> BornSealedPlace:
        return BornSealedPlace(tmp_path)


class TestSealedMedium(_BornSealed, SessionMediumConformance):
    pass


class TestDamageInSealed(_BornSealed, SessionDamageConformance):
    pass


class TestSuffixInSealed(_BornSealed, SessionSuffixConformance):
    pass


class TestContractInSealed(_BornSealed, SessionContractConformance):
    pass


class TestKillsInSealed(_BornSealed, SessionKillConformance):
    pass


def files(place: SealedPlace, session_id: str = "s-1") -> set[str]:
    return {path.name for path in place.directory(session_id).iterdir()}


# -- there and back ----------------------------------------------------------------------------


def test_a_sealed_log_is_the_same_log_in_less_room(place: SealedPlace, logs: SessionLogs) -> None:
    filled(logs, "s-1", *[{"n": number, "text": "the same again " * 20} for number in range(3000)])
    whole = place.read("s-1")
    events = list(logs.events("s-1"))

    report = logs.seal("s-1")

    assert files(place) == {"log.jsonl.zst"}
    assert place.read("s-1") == whole, "what `zstd -dc` gives is the log"
    assert (report.head_seq, report.head_chain) == (3000, events[-1].chain)
    assert report.size_bytes == len(whole)
    assert report.stored_bytes == place.sealed_path("s-1").stat().st_size < len(whole) / 5
    assert list(logs.events("s-1")) == events
    assert list(logs.events("s-1", after=2990)) == events[2990:]
    assert logs.verify("s-1").head_chain == report.head_chain
    assert logs.seal("s-1") == report, "safe to repeat"

    logs.unseal("s-1")
    logs.unseal("s-1")

    assert files(place) == {"log.jsonl"}
    assert place.path("s-1").read_bytes() == whole


def test_sealed_and_raw_sessions_lie_side_by_side(place: SealedPlace, logs: SessionLogs) -> None:
    for name in ("a", "b", "c"):
        filled(logs, name, name)
    logs.seal("b")

    assert [(each.id, each.head_seq, each.problem) for each in logs.list()] == [
        ("a", 1, None),
        ("b", 1, None),
        ("c", 1, None),
    ]
    assert list(logs.medium.strays()) == []
    with pytest.raises(SessionExistsError):
        logs.create("b")
    assert content_of(logs, logs.fork("b", id="d").id) == ["b"]
    logs.delete("b")
    assert not place.directory("b").exists()


def test_a_log_that_was_appended_to_is_packed_anew(place: SealedPlace, logs: SessionLogs) -> None:
    filled(logs, "s-1", 1, 2)
    logs.seal("s-1")
    for number in range(3, 60):
        with contextlib.closing(logs.load("s-1")) as log:
            log.append("message", number)
    whole, grown_bytes = place.read("s-1"), place.sealed_path("s-1").stat().st_size

    report = logs.seal("s-1")

    assert files(place) == {"log.jsonl.zst"}
    assert place.read("s-1") == whole
    assert report.stored_bytes == place.sealed_path("s-1").stat().st_size < grown_bytes / 2
    assert content_of(logs, "s-1") == list(range(1, 60))


def test_a_tail_is_moved_aside_before_a_log_is_sealed(
    place: SealedPlace, logs: SessionLogs
) -> None:
    filled(logs, "s-1", 1)
    whole = place.read("s-1")
    place.path("s-1").write_bytes(whole + b"torn")

    assert logs.seal("s-1").size_bytes == len(whole)
    assert place.torn("s-1") == [b"torn"]
    assert place.read("s-1") == whole


def test_what_is_open_damaged_or_elsewhere_is_not_sealed(
    place: SealedPlace, logs: SessionLogs, tmp_path: Path
) -> None:
    with pytest.raises(SessionMissingError):
        logs.seal("s-1")
    log = logs.create("s-1")
    log.append("message", 1)
    other = SessionLogs(place.medium(), confirm)
    for each in (logs, other):
        with pytest.raises(SessionBusyError):
            each.seal("s-1")
    log.close()
    damaged = place.path("s-1").read_bytes().replace(b'"data":1', b'"data":2')
    place.path("s-1").write_bytes(damaged)
    with pytest.raises(LogDamagedError):
        logs.seal("s-1")
    assert place.path("s-1").read_bytes() == damaged
    (tmp_path / "other").mkdir()
    for medium in (MemoryMedium(), SqliteMedium.create(tmp_path / "other", Disk())):
        elsewhere = SessionLogs(medium, confirm)
        filled(elsewhere, "s-1", 1)
        for call in (elsewhere.seal, elsewhere.unseal):
            with pytest.raises(InvalidConfigurationError):
                call("s-1")
        elsewhere.close()


def test_a_missing_library_is_named(
    place: SealedPlace, logs: SessionLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(logs, "s-1", 1)
    filled(logs, "s-2", 2)
    logs.seal("s-1")
    monkeypatch.setitem(__import__("sys").modules, "backports", None)
    monkeypatch.setitem(__import__("sys").modules, "compression", None)

    for call in (logs.seal, logs.load):
        with pytest.raises(MissingDependencyError, match="attachstore\\[zstd\\]"):
            call("s-1" if call == logs.load else "s-2")
    (summary, _) = logs.list()
    assert isinstance(summary.problem, MissingDependencyError)
    assert files(place, "s-2") == {"log.jsonl"}


def test_what_came_out_wrong_takes_nobodys_place(
    place: SealedPlace, logs: SessionLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(logs, "s-1", 1, 2)

    def compress(content: Iterable[bytes]) -> list[bytes]:
        return [library().compress(b"".join(content)[:-90])]

    monkeypatch.setattr(zstd_frames, "compress", compress)

    with pytest.raises(LogDamagedError, match="sealed"):
        logs.seal("s-1")
    assert files(place) == {"log.jsonl"}


# -- at every moment ---------------------------------------------------------------------------


def prepared(place: SealedPlace, *, sealed: bool) -> None:
    logs = SessionLogs(place.medium(), confirm)
    filled(logs, "s-1", *range(5))
    if sealed:
        logs.seal("s-1")
    logs.close()


@pytest.mark.parametrize("sealed", [False, True], ids=["seal", "unseal"])
@pytest.mark.parametrize("effect", ["none", "done"])
def test_whichever_call_fails_the_log_is_whole_and_the_next_try_ends_it(
    tmp_path: Path, sealed: bool, effect: str
) -> None:
    for number, disk in enumerate(failing_disks(effect=effect)):
        root = tmp_path / str(number)
        root.mkdir()
        place = SealedPlace(root)
        prepared(place, sealed=sealed)
        logs = SessionLogs(JsonlMedium(root, disk), confirm)
        with contextlib.suppress(AttachstoreError):
            (logs.unseal if sealed else logs.seal)("s-1")

        after = SessionLogs(place.medium(), confirm)
        assert content_of(after, "s-1") == list(range(5))
        (after.unseal if sealed else after.seal)("s-1")
        assert files(place) - {"torn"} == {"log.jsonl" if sealed else "log.jsonl.zst"}
        assert content_of(after, "s-1") == list(range(5))


@pytest.mark.parametrize("sealed", [False, True], ids=["seal", "unseal"])
def test_power_may_be_cut_at_any_call(tmp_path: Path, sealed: bool) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    prepared(SealedPlace(root), sealed=sealed)
    disk = PowerLossDisk(root)
    logs = SessionLogs(JsonlMedium(root, disk), confirm)
    (logs.unseal if sealed else logs.seal)("s-1")
    disk.acknowledge("done")

    states = 0
    for state, _ in disk.crash_moments(into=tmp_path):
        after = SessionLogs(JsonlMedium(state, Disk()), confirm)
        assert content_of(after, "s-1") == list(range(5))
        assert after.load("s-1").append("message", 5).seq == 6
        assert content_of(after, "s-1") == list(range(6))
        states += 1
    assert states > 3


def test_the_new_file_is_durable_before_the_old_one_goes(place: SealedPlace) -> None:
    prepared(place, sealed=False)
    disk = RecordingDisk(place.root)
    logs = SessionLogs(JsonlMedium(place.root, disk), confirm)
    for change in (logs.seal, logs.unseal):
        disk.trace.clear()
        change("s-1")
        order = [call for call, _ in disk.trace if call in {*SYNCS, "link_open_file", "unlink"}]
        assert order[order.index("link_open_file") :] == [
            "link_open_file",
            "sync_directory",
            "unlink",
            "sync_directory",
        ]


# -- both files --------------------------------------------------------------------------------


def both(place: SealedPlace, logs: SessionLogs, raw_events: int, sealed_events: int) -> None:
    """Two files of one history, one shorter than the other or not."""
    filled(logs, "s-1", *range(max(raw_events, sealed_events)))
    lines = place.read("s-1").splitlines(keepends=True)
    place.write("s-1", b"".join(lines[: sealed_events + 1]))
    place.path("s-1").write_bytes(b"".join(lines[: raw_events + 1]))


@pytest.mark.parametrize(("raw_events", "sealed_events"), [(5, 5), (3, 5), (5, 3), (0, 5)])
def test_of_two_files_the_one_that_is_proven_further_stays(
    place: SealedPlace, logs: SessionLogs, raw_events: int, sealed_events: int
) -> None:
    both(place, logs, raw_events, sealed_events)

    assert content_of(logs, "s-1") == list(range(5)), "also for readers, who change nothing"
    assert files(place) == {"log.jsonl", "log.jsonl.zst"}
    assert logs.load("s-1").head == 5
    stays = "log.jsonl.zst" if sealed_events == 5 else "log.jsonl"
    assert files(place) - {"torn"} == {stays}
    assert len(place.torn("s-1")) == (raw_events != sealed_events)


def test_damage_in_one_file_lets_the_other_stay(place: SealedPlace, logs: SessionLogs) -> None:
    both(place, logs, 5, 5)
    damaged = place.path("s-1").read_bytes().replace(b'"data":2', b'"data":7')
    place.path("s-1").write_bytes(damaged)

    assert content_of(logs, "s-1") == list(range(5))
    logs.seal("s-1")
    assert content_of(logs, "s-1") == list(range(5))
    assert damaged in place.torn("s-1"), "nothing that differs is thrown away"


class MeanwhileDisk(InterceptedDisk):
    """Lets something happen just before the n-th look at a log's files."""

    def __init__(self, number: int, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self.looks = 0
        self.number = number
        self.meanwhile = meanwhile

    def intercept(self, method: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        if method in {"status", "open_read"}:
            self.looks += 1
            if self.looks == self.number:
                self.meanwhile()
        return call()


@pytest.mark.parametrize("sealed", [False, True], ids=["seal", "unseal"])
def test_a_reader_finds_a_log_that_changes_its_form_under_it(tmp_path: Path, sealed: bool) -> None:
    for number in range(1, 8):
        root = tmp_path / str(number)
        root.mkdir()
        place = SealedPlace(root)
        prepared(place, sealed=sealed)
        writing = SessionLogs(place.medium(), confirm)
        change = writing.unseal if sealed else writing.seal
        disk = MeanwhileDisk(number, lambda change=change: change("s-1"))
        reading = SessionLogs(JsonlMedium(root, disk), confirm)

        assert reading.medium.exists(SessionName.of("s-1"))
        assert content_of(reading, "s-1") == list(range(5))
        assert [(each.head_seq, each.problem) for each in reading.list()] == [(5, None)]


# -- damaged frames ----------------------------------------------------------------------------


def sealed_in_one_frame(place: SealedPlace, logs: SessionLogs) -> tuple[bytes, list[object]]:
    """A log of about 1 MiB, in blocks of 128 KiB."""
    filled(logs, "s-1", *[[number, "y" * (number % 700)] for number in range(2000)])
    events = content_of(logs, "s-1")
    logs.seal("s-1")
    return place.sealed_path("s-1").read_bytes(), events


@pytest.mark.parametrize("how", ["cut", "zeroed"])
def test_a_last_frame_without_its_end_gives_back_what_the_chain_proves(
    place: SealedPlace, logs: SessionLogs, how: str
) -> None:
    stored, events = sealed_in_one_frame(place, logs)
    counts: list[int] = []
    for kept_bytes in (len(stored) - 1, len(stored) // 2, len(stored) * 3 // 4):
        zeros = b"\0" * (len(stored) - kept_bytes - 1) if how == "zeroed" else b""
        place.sealed_path("s-1").write_bytes(stored[:kept_bytes] + zeros)
        content = content_of(logs, "s-1")
        assert content == events[: len(content)]
        view = logs.inspect("s-1")
        assert view.tail is not None
        assert view.head_seq == len(content)
        counts.append(len(content))

        broken = place.sealed_path("s-1").read_bytes()
        assert logs.load("s-1").append("message", "next").seq == len(content) + 1
        torn = (place.directory("s-1") / "torn").iterdir()
        assert broken in [path.read_bytes() for path in torn], "the frame itself is kept"
        logs.close()
        logs = SessionLogs(place.medium(), confirm)
        assert content_of(logs, "s-1") == [*content, "next"]
    assert max(counts) > 1000


def broken_in_the_middle(place: SealedPlace, logs: SessionLogs) -> tuple[list[bytes], list[bytes]]:
    """Lines and frames, one in each; the third event's is broken."""
    filled(logs, "s-1", *range(1, 7))
    lines = place.read("s-1").splitlines(keepends=True)
    place.write("s-1", b"".join(lines))
    frames = [b"".join(zstd_frames.compress([line])) for line in lines]  # with checksums
    broken = bytearray(frames[3])
    broken[-6] ^= 1
    frames[3] = bytes(broken)
    place.sealed_path("s-1").write_bytes(b"".join(frames))
    return lines, frames


def test_what_is_said_of_a_sealed_log_names_the_file_that_is_there(
    place: SealedPlace, logs: SessionLogs
) -> None:
    broken_in_the_middle(place, logs)
    sealed_path = str(place.sealed_path("s-1"))

    def read(session_id: str) -> object:
        return list(logs.events(session_id))

    calls: list[Callable[[str], object]] = [logs.load, logs.verify, logs.seal, read]
    for call in calls:
        with pytest.raises(LogDamagedError) as damage:
            call("s-1")
        assert damage.value.where == sealed_path
    (found,) = scan(ObjectStore(MemoryBackend()), logs).findings
    assert found.path == sealed_path
    logs.repair("s-1")
    logs.unseal("s-1")
    assert logs.medium.where(SessionName.of("s-1")) == str(place.path("s-1"))


def test_what_is_left_of_a_sealed_log_without_a_header_is_not_unsealed(
    place: SealedPlace, logs: SessionLogs
) -> None:
    """It would be an empty log, which nobody would take for a damaged one."""
    filled(logs, "s-1", 1)
    logs.seal("s-1")
    path = place.sealed_path("s-1")
    for size_bytes in (100, 1, 0):
        stored = path.read_bytes()[:size_bytes]
        path.write_bytes(stored)
        with pytest.raises(LogDamagedError) as damage:
            logs.unseal("s-1")
        assert damage.value.where == str(path)
        assert (path.read_bytes(), place.path("s-1").exists()) == (stored, False)


def test_what_unsealing_leaves_out_is_told(
    place: SealedPlace, logs: SessionLogs, caplog: pytest.LogCaptureFixture
) -> None:
    filled(logs, "s-1", *range(1, 7))
    lines = place.read("s-1").splitlines(keepends=True)
    place.write("s-1", b"".join(lines))
    path = place.sealed_path("s-1")
    path.write_bytes(b"".join(b"".join(zstd_frames.compress([line])) for line in lines)[:-5])

    logs.unseal("s-1")

    (kept,) = (path.parent / "torn").iterdir()
    assert [str(kept) in record.getMessage() for record in caplog.records] == [True]
    assert content_of(logs, "s-1") == [1, 2, 3, 4, 5]


def test_a_broken_frame_with_its_end_is_damage_and_refused(
    place: SealedPlace, logs: SessionLogs
) -> None:
    lines, frames = broken_in_the_middle(place, logs)
    stored = b"".join(frames)

    assert content_of(logs, "s-1", damaged="stop") == [1, 2]
    with pytest.raises(LogDamagedError) as damage:
        logs.verify("s-1")
    assert (damage.value.line, damage.value.offset_bytes) == (4, len(b"".join(lines[:3])))
    assert content_of(logs, "s-1", damaged="resync") == [1, 2, 4, 5, 6]
    for call in (logs.load, logs.seal):
        with pytest.raises(LogDamagedError):
            call("s-1")
    with pytest.raises(StoreLayoutError, match="damaged at byte"):
        logs.unseal("s-1")
    assert place.sealed_path("s-1").read_bytes() == stored
    assert logs.fork("s-1", at=2, id="s-2").append("message", "saved").seq == 3

    report = logs.repair("s-1")

    assert (report.head_seq, report.offset_bytes) == (2, len(b"".join(lines[:3])))
    assert place.sealed_path("s-1").read_bytes() == b"".join(frames[:3])
    assert Path(report.kept or "").read_bytes() == b"".join(frames[3:])
    assert logs.load("s-1").append("message", "on").seq == 3


@pytest.mark.parametrize(
    "stored",
    [b"", b"something else", b"\x28\xb5\x2f\xfd", b"\0" * 600, b"\x28\xb5\x2f\xfd\xff\xff\xff\xff"],
    ids=["empty", "foreign", "magic-only", "zeros", "reserved"],
)
def test_what_is_no_sealed_log_is_never_taken_for_one(
    place: SealedPlace, logs: SessionLogs, stored: bytes
) -> None:
    filled(logs, "s-1", 1)
    logs.seal("s-1")
    place.sealed_path("s-1").write_bytes(stored)

    (summary,) = logs.list()
    assert summary.problem is not None
    for call in (logs.verify, logs.load):
        with pytest.raises((LogDamagedError, StoreLayoutError)):
            call("s-1")


def test_frames_that_do_not_say_what_they_hold_are_refused(
    place: SealedPlace, logs: SessionLogs
) -> None:
    """A writer of ours leaves one such frame at most, the last."""
    filled(logs, "s-1", 1, 2)
    header, *events = place.read("s-1").splitlines(keepends=True)
    logs.seal("s-1")
    stored = b""
    for content in (header, *events):
        compressor = library().ZstdCompressor()
        stored += compressor.compress(content) + compressor.flush()
    place.sealed_path("s-1").write_bytes(stored)

    for call in (logs.verify, logs.load, logs.seal):
        with pytest.raises(LogDamagedError):
            call("s-1")
    assert place.sealed_path("s-1").read_bytes() == stored


def test_no_changed_byte_of_a_sealed_log_becomes_an_event(
    place: SealedPlace, logs: SessionLogs
) -> None:
    filled(logs, "s-1", *range(1, 30))
    events = content_of(logs, "s-1")
    logs.seal("s-1")
    stored = place.sealed_path("s-1").read_bytes()
    for position in range(len(stored)):
        changed = bytearray(stored)
        changed[position] ^= 0x41
        place.sealed_path("s-1").write_bytes(bytes(changed))
        seen: list[object] = []
        with contextlib.suppress(LogDamagedError, StoreLayoutError):
            for event in logs.events("s-1"):
                seen.append(event.data)  # noqa: PERF401 - the error ends the loop
        assert seen == events[: len(seen)]
