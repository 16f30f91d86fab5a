"""The oracle is right about whole stores, and red about each way in which one can be wrong.

A rig that reports nothing proves nothing before this is seen.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from attachstore import Digest
from attachstore.disk import Disk
from tests.rigs.journal import Journal, Record
from tests.rigs.oracle import judge
from tests.rigs.workloads import ALL_WORKLOADS
from tests.rigs.workloads.contents import SMALL
from tests.rigs.workloads.objects import object_path

HEX = Digest.of(SMALL[0]).hex


def done(name: str, place: Path) -> tuple[Path, list[Record]]:
    """A store on which a workload was done, undisturbed."""
    root = place / "store"
    records = ALL_WORKLOADS[name].prepare(root)
    journal = Journal()
    ALL_WORKLOADS[name].run(root, journal)
    return root, [*records, *journal.records]


@pytest.mark.parametrize("name", ALL_WORKLOADS)
def test_undisturbed_work_satisfies_it(tmp_path: Path, name: str) -> None:
    root, records = done(name, tmp_path)

    assert not [it for it in records if it.step in {"failed", "seen"}]
    assert judge(root, records) == []


def test_it_knows_what_a_workload_began_with(tmp_path: Path) -> None:
    """What was promised before the work began is promised still."""
    root = tmp_path / "store"
    records = ALL_WORKLOADS["append-one"].prepare(root)

    assert judge(root, records) == []
    shutil.rmtree(root / "sessions" / "s-1")
    assert any("s-1 is lost" in it for it in judge(root, records))


def log_of(root: Path) -> Path:
    return root / "sessions" / "s-1" / "log.jsonl"


def drop_last_line(root: Path) -> None:
    lines = log_of(root).read_bytes().splitlines(keepends=True)
    log_of(root).write_bytes(b"".join(lines[:-1]))


def spoil_a_line(root: Path) -> None:
    log_of(root).write_bytes(log_of(root).read_bytes().replace(b"start/2", b"start/X"))


def remove_object(root: Path) -> None:
    object_path(root, Digest.of(SMALL[0])).unlink()


def change_object(root: Path) -> None:
    path = object_path(root, Digest.of(SMALL[0]))
    path.chmod(0o644)
    path.write_bytes(SMALL[0].upper())
    path.chmod(0o444)


def make_writable(root: Path) -> None:
    object_path(root, Digest.of(SMALL[0])).chmod(0o664)


def leave_a_file(root: Path) -> None:
    (root / "staging" / "not-a-name-of-ours").write_bytes(b"left")


def add_a_session(root: Path) -> None:
    shutil.copytree(root / "sessions" / "s-1", root / "sessions" / "s-9")


TAMPERING: list[tuple[Callable[[Path], None], str]] = [
    (drop_last_line, "acknowledged more/2 is lost"),
    (spoil_a_line, "is damaged at line 3"),
    (remove_object, "missing object"),
    (change_object, "holds other bytes"),
    (make_writable, "may be written to"),
    (leave_a_file, "left in staging"),
    (add_a_session, "s-9, unknown, is listed"),
]


@pytest.mark.parametrize(("tamper", "said"), TAMPERING, ids=lambda it: getattr(it, "__name__", ""))
def test_it_finds_what_is_wrong_with_a_store(
    tmp_path: Path, tamper: Callable[[Path], None], said: str
) -> None:
    root, records = done("append-one", tmp_path)

    tamper(root)

    assert any(said in it for it in judge(root, records)), judge(root, records)


def test_a_second_opening_that_changes_anything_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if each load were to write down that it was there."""
    root, records = done("append-one", tmp_path)
    real = Disk.open_write

    def open_write(disk: Disk, path: Path) -> int:
        seen = root / "sessions" / "s-1" / "seen"
        seen.write_bytes(seen.read_bytes() + b"x" if seen.exists() else b"x")
        return real(disk, path)

    monkeypatch.setattr(Disk, "open_write", open_write)

    assert any("opening again changes" in it for it in judge(root, records))


EVENTS = {"id": "s-1", "handle": 1, "marks": ["m/1"]}
OPENED = Record("attempt", "opened", {})
WRITTEN = Record("acknowledge", "events", {**EVENTS, "marks": ["start/4"], "chains": []})
LOG_SYNC = {"call": "fdatasync", "path": "sessions/s-1/log.jsonl", "error": "EIO"}
SHARD_SYNC = {"call": "fsync", "path": "objects/blake3/00", "error": "EIO"}


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([Record("seen", "leak", {"what": "descriptor of x"})], "left behind in the process"),
        (
            [Record("acknowledge", "served", {"digest": HEX, "actual": "00"})],
            "other bytes were served",
        ),
        (
            [Record("failed", "object", {"error_code": "escaped:OSError"})],
            "object: escaped:OSError",
        ),
        (
            [
                OPENED,
                Record("failed", "events", {**EVENTS, "error_code": "storage-io"}),
                WRITTEN,
                Record("seen", "fault", LOG_SYNC),
            ],
            "taken after a failed append",
        ),
        (
            [
                OPENED,
                Record("failed", "object", {"digest": HEX, "error_code": "storage-io"}),
                Record("acknowledge", "object", {"digest": HEX, "size": 1}),
                Record("seen", "fault", SHARD_SYNC),
            ],
            "taken after a shard's failed sync",
        ),
        (
            [Record("attempt", "state", {"path": "beside/x", "digest": "00"})],
            "holds neither the last acknowledged value",
        ),
        (
            [Record("given", "tail", {"id": "s-1", "bytes": "0102"})],
            "cut-off bytes are not kept",
        ),
        ([Record("acknowledge", "deleted", {"id": "s-1"})], "s-1 was deleted and is there"),
    ],
    ids=["leak", "served", "escaped", "append", "shard", "state", "kept", "deleted"],
)
def test_it_finds_what_is_wrong_with_the_work(
    tmp_path: Path, records: list[Record], said: str
) -> None:
    """What a journal shows, on a store that is as it should be."""
    root = tmp_path / "store"
    given = ALL_WORKLOADS["append-one"].prepare(root)

    found = judge(root, [*given, *records])

    assert any(said in it for it in found), found


def test_a_batch_may_be_there_in_part_only_if_nobody_was_told(tmp_path: Path) -> None:
    root, records = done("append-batch", tmp_path)
    drop_last_line(root)

    assert any("acknowledged batch/5 is lost" in it for it in judge(root, records))
    told = [it for it in records if it.facts.get("marks") != ["batch/4", "batch/5"]]
    tried = Record("attempt", "events", {"id": "s-1", "handle": 1, "marks": ["batch/4", "batch/5"]})
    assert judge(root, [*told, tried]) == []
