"""What a scan says of a store, whatever the media: here in memory."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from attachstore.digest import Digest
from attachstore.errors import StorageIOError
from attachstore.integrity import Kind, Phase, Progress, Severity, Use
from attachstore.objects.backend import StoredObject
from attachstore.objects.memory import MemoryBackend
from attachstore.reference import Reference
from attachstore.sessions.memory import MemoryMedium
from attachstore.sessions.names import SessionName
from attachstore.threads import CancelFlag, Cancelled
from tests.integrity.workshop import Workshop, in_memory, png


@pytest.fixture
def shop() -> Workshop:
    return in_memory()


def stored(shop: Workshop) -> dict[Digest, bytes]:
    assert isinstance(shop.backend, MemoryBackend)
    return shop.backend.objects


def log_of(shop: Workshop, session: str) -> bytearray:
    assert isinstance(shop.medium, MemoryMedium)
    return shop.medium.logs[session]


def test_an_empty_store_is_clean(shop: Workshop) -> None:
    report = shop.scan()

    assert report.clean
    assert report.counts() == {}
    assert (report.objects, report.sessions, report.events) == (0, 0, 0)


def test_a_whole_store_is_clean_and_counted(shop: Workshop) -> None:
    text, image = shop.put(b"words"), shop.put(png(), "image/png")
    shop.log("s-1", {"files": [text, image]}, "no reference here")
    shop.logs.fork("s-1", id="s-2").close()

    report = shop.scan()

    assert report.clean
    assert report.notes == []
    assert len(report.unreferenced) == 0
    assert (report.objects, report.sessions, report.events, report.references) == (2, 2, 4, 4)
    assert report.bytes_read == text.size + image.size


def test_an_object_that_nothing_refers_to_is_told_with_its_size_and_kept(shop: Workshop) -> None:
    """A crash between commit and append leaves one; it is legal."""
    reference = shop.put(b"words")

    report = shop.scan()

    assert report.clean
    assert list(report.unreferenced) == [(reference.digest, 5)]
    assert report.logs_complete
    assert report.unreferenced.size_bytes == 5
    assert report.counts() == {Kind.UNREFERENCED: 1}
    assert reference.digest in stored(shop)


@pytest.mark.parametrize("bad", [b"wordt", b"", b"wor", b"words and more", png()])
def test_other_bytes_under_a_name_are_corrupt_and_all_their_uses_are_named(
    shop: Workshop, bad: bytes
) -> None:
    """Also those in forks, and twice in one event."""
    reference, other = shop.put(b"words"), shop.put(b"other")
    shop.log("s-1", "hello", {"a/b": [reference, other], "c": reference})
    shop.logs.fork("s-1", id="s-2").close()
    stored(shop)[reference.digest] = bad

    report = shop.scan()

    (finding,) = report.findings
    assert finding.kind is Kind.OBJECT_CORRUPT
    assert finding.digest == reference.digest
    assert finding.size_bytes == len(bad)
    assert str(Digest.of(bad)) in finding.what
    assert finding.uses == (
        Use("s-1", 2, "/a~1b/0"),
        Use("s-1", 2, "/c"),
        Use("s-2", 2, "/a~1b/0"),
        Use("s-2", 2, "/c"),
    )
    assert report.worst is not None
    assert report.worst.severity is Severity.CORRUPT
    assert report.objects == 2


def test_a_corrupt_object_that_nothing_refers_to_is_still_a_fault(shop: Workshop) -> None:
    reference = shop.put(b"words")
    stored(shop)[reference.digest] = b"other"

    report = shop.scan()

    assert [finding.kind for finding in report.findings] == [Kind.OBJECT_CORRUPT]
    assert report.findings[0].uses_total == 0
    assert len(report.unreferenced) == 0


def test_a_reference_without_an_object_dangles_and_is_named(shop: Workshop) -> None:
    reference = shop.put(b"words")
    shop.log("s-1", reference)
    del stored(shop)[reference.digest]

    report = shop.scan()

    (finding,) = report.findings
    assert finding.kind is Kind.DANGLING_REFERENCE
    assert finding.digest == reference.digest
    assert finding.uses == (Use("s-1", 1, ""),)
    assert "text/plain, 5 bytes" in finding.what
    assert finding.kind.severity is Severity.MISSING


def test_a_missing_object_with_a_whole_copy_in_quarantine_says_so(shop: Workshop) -> None:
    """Quarantined by mistake, say: moving it back mends everything."""
    reference = shop.put(b"words")
    shop.log("s-1", reference)
    stored(shop)[reference.digest] = b"wrong"
    shop.scan(quarantine=True)
    assert isinstance(shop.backend, MemoryBackend)
    (digest, note, _), *_ = shop.backend.moved_aside
    shop.backend.moved_aside[0] = (digest, note, b"words")

    (finding,) = shop.scan().findings

    assert finding.kind is Kind.DANGLING_REFERENCE
    assert "quarantine" in finding.mend


def edited(reference: Reference, **fields: object) -> Reference:
    body = reference.to_json()["$attach"] | fields
    return Reference.from_json(
        {"$attach": {key: value for key, value in body.items() if value is not None}}
    )


@pytest.mark.parametrize(
    ("fields", "differences"),
    [
        ({"media_type": "image/jpeg"}, (("media_type", "image/jpeg", "something else"),)),
        ({"size": 30}, (("size", "30", "33"),)),
        ({"width": 2, "height": 3}, (("width", "2", "3"), ("height", "3", "2"))),
        ({"width": None}, (("width", "absent", "3"),)),
        ({"width": 2**40}, (("width", str(2**40), "3"),)),
    ],
)
def test_a_reference_that_says_something_else_than_the_object_is_named_alone(
    shop: Workshop, fields: dict[str, object], differences: tuple[tuple[str, str, str], ...]
) -> None:
    """The object is whole, and the right references to it are right."""
    reference = shop.put(png(3, 2), "image/png")
    assert reference.size == 33
    wrong = edited(reference, **fields)
    shop.log("s-1", reference, {"seen": wrong}, [reference])

    report = shop.scan()

    (finding,) = report.findings
    assert finding.kind is Kind.HEADER_MISMATCH
    assert finding.differences == differences
    assert finding.uses == (Use("s-1", 2, "/seen"),)


@pytest.mark.parametrize(
    ("fields", "differences"),
    [
        ({"size": 4}, (("size", "4", "5"),)),
        ({"width": 2, "height": 3}, (("width", "2", "absent"), ("height", "3", "absent"))),
        ({"media_type": "image/png"}, (("media_type", "image/png", "something else"),)),
        ({"media_type": "application/zip"}, (("media_type", "application/zip", "something else"),)),
    ],
)
def test_a_label_that_is_compared_with_nothing_is_still_held_to_its_numbers(
    shop: Workshop, fields: dict[str, object], differences: tuple[tuple[str, str, str], ...]
) -> None:
    """No byte of a text is looked at for its type; its size is, and that it has no sides."""
    reference = shop.put(b"texts")
    shop.log("s-1", reference, edited(reference, **fields))

    (finding,) = shop.scan().findings

    assert finding.kind is Kind.HEADER_MISMATCH
    assert finding.differences == differences


def test_the_header_of_an_object_larger_than_a_block_is_compared(shop: Workshop) -> None:
    """What is in the buffer by then is the end of it."""
    reference = shop.put(png(3, 2) + bytes(1_500_000), "image/png")
    shop.log("s-1", reference, edited(reference, width=4))

    (finding,) = shop.scan().findings

    assert finding.differences == (("width", "4", "3"),)
    assert finding.uses == (Use("s-1", 2, ""),)


def test_names_are_labels_and_never_compared(shop: Workshop) -> None:
    reference = shop.put(b"words", name="a.txt")
    shop.log("s-1", edited(reference, name="b.txt"), edited(reference, name=None))

    assert shop.scan().clean


def test_two_different_wrong_references_are_two_findings(shop: Workshop) -> None:
    reference = shop.put(png(), "image/png")
    shop.log("s-1", edited(reference, width=7), edited(reference, width=8))

    report = shop.scan()

    assert [finding.uses for finding in report.findings] == [
        (Use("s-1", 1, ""),),
        (Use("s-1", 2, ""),),
    ]


def test_an_unfinished_last_line_is_a_note(shop: Workshop) -> None:
    """It may be a writer at work; it was not acknowledged in any case."""
    shop.log("s-1", "one")
    whole = len(log_of(shop, "s-1"))
    log_of(shop, "s-1").extend(b'{"seq":2,"time":"')

    report = shop.scan()

    assert report.clean
    (note,) = report.notes
    assert note.kind is Kind.UNCOMMITTED_TAIL
    assert (note.session, note.offset_bytes, note.size_bytes) == ("s-1", whole, 17)


def test_damage_in_the_middle_of_a_log_is_told_with_line_and_offset(shop: Workshop) -> None:
    shop.log("s-1", "one", "two", "three")
    log = log_of(shop, "s-1")
    offset_bytes = log.index(b'{"seq":2')
    log[log.index(b"two")] ^= 1

    report = shop.scan()

    (finding,) = report.findings
    assert finding.kind is Kind.LOG_DAMAGED
    assert (finding.session, finding.line, finding.offset_bytes) == ("s-1", 3, offset_bytes)
    assert "chain" in finding.what
    assert not report.logs_complete


def test_a_damaged_header_is_told_and_the_events_still_count(shop: Workshop) -> None:
    """Else their objects would be called unreferenced, ready to be collected one day."""
    reference = shop.put(b"words")
    shop.log("s-1", reference)
    log_of(shop, "s-1")[5] ^= 1

    report = shop.scan()

    assert [finding.kind for finding in report.findings] == [Kind.LOG_DAMAGED]
    assert (report.findings[0].line, report.findings[0].offset_bytes) == (1, 0)
    assert len(report.unreferenced) == 0


def test_references_beyond_damage_are_checked(shop: Workshop) -> None:
    before, within, after = shop.put(b"before"), shop.put(b"within"), shop.put(b"after")
    shop.log("s-1", {"n": before}, {"n": within}, {"n": after})
    log = log_of(shop, "s-1")
    log[log.index(b"message", log.index(b'"seq":2'))] ^= 1
    del stored(shop)[after.digest]

    report = shop.scan()

    assert [finding.kind for finding in report.findings] == [
        Kind.LOG_DAMAGED,
        Kind.DANGLING_REFERENCE,
    ]
    assert report.findings[1].digest == after.digest
    assert len(report.unreferenced) == 0


def test_a_damaged_line_accuses_no_object(shop: Workshop) -> None:
    """A flipped digit of a digest is damage of the log, not a missing object."""
    reference = shop.put(b"words")
    shop.log("s-1", reference, "two")
    log = log_of(shop, "s-1")
    place = log.index(reference.digest.hex.encode())
    log[place] = ord("0") if log[place] != ord("0") else ord("1")

    report = shop.scan()

    assert [finding.kind for finding in report.findings] == [Kind.LOG_DAMAGED]


def test_quarantine_moves_corrupt_objects_aside_and_nothing_else(shop: Workshop) -> None:
    good, bad = shop.put(b"good"), shop.put(b"bad")
    shop.log("s-1", good, bad)
    stored(shop)[bad.digest] = b"rot"

    report = shop.scan(quarantine=True)

    (finding,) = report.findings
    assert finding.kind is Kind.OBJECT_CORRUPT
    assert finding.quarantined
    assert finding.uses == (Use("s-1", 2, ""),)
    assert set(stored(shop)) == {good.digest}
    assert isinstance(shop.backend, MemoryBackend)
    ((digest, note, data),) = shop.backend.moved_aside
    assert (digest, note.found_by, data) == (bad.digest, "scan", b"rot")
    assert [finding.kind for finding in shop.scan().findings] == [Kind.DANGLING_REFERENCE]


def test_without_quarantine_a_scan_changes_nothing(shop: Workshop) -> None:
    reference = shop.put(b"words")
    shop.log("s-1", reference)
    stored(shop)[reference.digest] = b"other"
    log_of(shop, "s-1").extend(b"{")
    before = dict(stored(shop)), bytes(log_of(shop, "s-1"))

    shop.scan()

    assert (dict(stored(shop)), bytes(log_of(shop, "s-1"))) == before


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_the_parts_of_a_store_cover_it_once(shop: Workshop, parts: int) -> None:
    """Every object in exactly one part, every fault in the part of its object."""
    references = [shop.put(str(number).encode()) for number in range(60)]
    shop.log("s-1", *references)
    corrupt, missing = references[3].digest, references[4].digest
    stored(shop)[corrupt] = b"?"
    del stored(shop)[missing]

    reports = [shop.scan(subset=(part, parts)) for part in range(1, parts + 1)]

    assert sum(report.objects for report in reports) == 60
    found = [finding.digest for report in reports for finding in report.findings]
    assert sorted(found, key=str) == sorted([corrupt, missing], key=str)
    assert all(report.sessions == 1 for report in reports)
    assert [report.subset for report in reports] == [(part, parts) for part in range(1, parts + 1)]


@pytest.mark.parametrize(
    "subset", [(0, 1), (2, 1), (1, 0), (-1, 3), (1,), (1, 2, 3), "1/3", ("1", "3"), (1.0, 2.0)]
)
def test_a_part_that_does_not_exist_is_a_wrong_call(shop: Workshop, subset: Any) -> None:
    with pytest.raises(ValueError, match="subset"):
        shop.scan(subset=subset)


def test_progress_ends_with_everything_done(shop: Workshop) -> None:
    references = [shop.put(str(number).encode() * 9) for number in range(200)]
    shop.log("s-1", *references)
    seen = list[Progress]()

    report = shop.scan(progress=seen.append)

    phases = [progress.phase for progress in seen]
    assert [*dict.fromkeys(phases)] == [Phase.LISTING, Phase.LOGS, Phase.OBJECTS]
    last = seen[-1]
    assert last.objects_done == last.objects_total == report.objects == 200
    assert last.bytes_done == last.bytes_total == report.bytes_read
    assert last.sessions_done == 1


class SlowObject(StoredObject):
    """A thousand blocks of zeros, each after a moment; `blocks` counts those that were read."""

    def __init__(self) -> None:
        self.blocks = 0

    @property
    def location(self) -> str:
        return "slow"

    @property
    def size(self) -> int:
        return 1000 << 20

    def read_into(self, buffer: memoryview, offset_bytes: int) -> int:
        self.blocks += 1
        time.sleep(0.002)
        return len(buffer) if offset_bytes < self.size else 0

    def read(self, size_bytes: int, offset_bytes: int) -> bytes:
        buffer = bytearray(size_bytes)
        return bytes(buffer[: self.read_into(memoryview(buffer), offset_bytes)])

    def close(self) -> None:
        return


def test_a_cancelled_scan_stops_within_a_block_and_leaves_no_thread(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.put(b"words")
    slow, flag = SlowObject(), CancelFlag()

    def open_slow(digest: Digest, *, fresh: bool = False) -> SlowObject:
        return slow

    monkeypatch.setattr(shop.backend, "open", open_slow)

    def stop(progress: Progress) -> None:
        if progress.bytes_done:
            flag.set()

    before = threading.active_count()
    with pytest.raises(Cancelled):
        shop.scan(progress=stop, cancel=flag)

    assert 0 < slow.blocks < 1000
    assert threading.active_count() == before


def test_a_report_is_the_same_for_any_number_of_threads(shop: Workshop) -> None:
    references = [shop.put(str(number).encode()) for number in range(300)]
    shop.log("s-1", *references)
    for number in range(0, 300, 7):
        stored(shop)[references[number].digest] = b"?"

    written = list[str]()
    for workers in (1, 2, 8):
        report = shop.scan(workers=workers).to_json()
        del report["elapsed_s"]
        written.append(json.dumps(report))

    assert len(set(written)) == 1
    assert json.loads(written[0])["counts"] == {"object-corrupt": 43}


def test_a_session_that_vanishes_while_the_scan_runs_is_no_finding(shop: Workshop) -> None:
    """Its references go with it, also one that dangled."""
    kept, lost = shop.put(b"kept"), shop.put(b"lost")
    shop.log("s-1", kept)
    shop.log("s-2", lost)
    del stored(shop)[lost.digest]

    def delete_at_objects(progress: Progress) -> None:
        if progress.phase is Phase.OBJECTS and "s-2" in {s.id for s in shop.logs.list()}:
            shop.logs.delete("s-2")

    report = shop.scan(progress=delete_at_objects)

    assert report.clean


def test_a_session_that_is_gone_when_its_turn_comes_is_no_finding(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.log("s-1", "one")
    shop.log("s-2", "two")
    listed = [*shop.medium.names()]
    shop.logs.delete("s-1")
    monkeypatch.setattr(shop.medium, "names", lambda: iter(listed))

    report = shop.scan()

    assert report.clean
    assert report.logs_complete
    assert report.sessions == 1


def test_an_object_moved_away_that_no_readable_log_needs_is_no_finding(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where a log cannot be read: nobody knows that it needs the object."""
    moved = shop.put(b"moved")
    shop.log("s-1", "unreadable")
    listed = [*shop.backend.entries()]
    del stored(shop)[moved.digest]
    monkeypatch.setattr(shop.backend, "entries", lambda: iter(listed))

    def refuse(name: SessionName) -> None:
        raise StorageIOError(where=name.id, reason="injected")

    monkeypatch.setattr(shop.medium, "open", refuse)

    report = shop.scan()

    assert [finding.kind for finding in report.findings] == [Kind.LOG_UNREADABLE]
    assert not report.logs_complete
    assert len(report.unreferenced) == 0
