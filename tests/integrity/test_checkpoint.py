"""Checkpoint: the file that tells a scan where an earlier one stopped."""

from __future__ import annotations

import json
import logging
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attachstore.digest import Digest
from attachstore.disk import Disk
from attachstore.errors import AttachstoreError, DestinationError, InvalidConfigurationError
from attachstore.integrity import Finding, Kind
from attachstore.integrity.checkpoint import Checkpoint, Covered, Keeper, Subject
from attachstore.integrity.claims import Claim
from attachstore.integrity.suspects import Suspect
from tests.faults import PowerLossDisk, RecordingDisk, failing_disks
from tests.intercepted_disk import MeanwhileDisk

SUBJECT = Subject(store="id-1", root="/store")
DIGEST = Digest.of(b"words")
SUSPECT = Suspect(
    Finding(
        kind=Kind.OBJECT_CORRUPT,
        what="it holds 3 bytes",
        digest=DIGEST,
        path="objects/blake3/\udcff",
        size_bytes=3,
        differences=(("size", "5", "3"),),
        quarantined=True,
        hint="look there",
    ),
    Claim(5, "image/gif", 4, 3, frames=2),
    unmended="no copy",
)
EARLY = Covered(started_at="2026-11-30T01:02:03Z", upto=DIGEST, bytes_read=5, found=(SUSPECT,))
LATE = replace(EARLY, upto=Digest("f" * 64), bytes_read=10)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "scan.json"


def test_what_was_covered_comes_back_as_it_was(path: Path) -> None:
    checkpoint = Checkpoint(path, Disk(), SUBJECT)
    assert checkpoint.load() is None

    for covered in (Covered.nothing(), EARLY, LATE):
        checkpoint.save(covered)
        assert checkpoint.load() == covered

    assert [it.name for it in path.parent.iterdir()] == ["scan.json"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600, "it tells what a store holds"
    checkpoint.remove()
    assert checkpoint.load() is None
    checkpoint.remove()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"store": "id-2"}, "another store"),
        ({"root": "/copy"}, "another store"),
        ({"subset": (1, 7)}, "subset was None"),
        ({"deep": True}, "deep was False"),
        ({"quarantine": True}, "quarantine was False"),
        ({"repair_from": "/backup"}, "repair_from was None"),
    ],
)
def test_it_is_refused_for_another_store_or_other_options(
    path: Path, changes: dict[str, Any], told: str
) -> None:
    Checkpoint(path, Disk(), SUBJECT).save(EARLY)
    before = path.read_bytes()

    with pytest.raises(InvalidConfigurationError, match=told) as caught:
        Checkpoint(path, Disk(), replace(SUBJECT, **changes)).load()

    assert f"Remove {path}" in str(caught.value)
    assert path.read_bytes() == before


def as_json(**changes: Any) -> bytes:
    value = {"kind": "attachstore scan", "format": 1, "subject": SUBJECT.to_json()}
    return json.dumps({**value, "covered": EARLY.to_json(), **changes}).encode()


def covered_but(**changes: Any) -> bytes:
    return as_json(covered={**EARLY.to_json(), **changes})


def found_but(**changes: Any) -> bytes:
    return covered_but(found=[{**EARLY.to_json()["found"][0], **changes}])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"[" * 100_000,
        b'{"kind": 1' + b"1" * 5000 + b"}",
        b"\xff\xfe",
        as_json(kind="another"),
        as_json(format=2),
        as_json(subject=[]),
        as_json(covered=None),
        covered_but(upto="blake3:../../etc"),
        covered_but(upto=7),
        covered_but(bytes_read="5"),
        covered_but(found={}),
        covered_but(found=[None]),
        found_but(kind="nothing"),
        found_but(digest="x"),
        found_but(claim={"shell": "rm"}),
        found_but(differences=[["a"]]),
        found_but(quarantined=1),
    ],
)
def test_what_is_no_checkpoint_is_refused_and_kept(path: Path, content: bytes) -> None:
    path.write_bytes(content)

    with pytest.raises(InvalidConfigurationError):
        Checkpoint(path, Disk(), SUBJECT).load()

    assert path.read_bytes() == content


@pytest.mark.parametrize("kind", ["fifo", "folder", "link"])
def test_what_is_no_file_is_refused_at_once(path: Path, kind: str) -> None:
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/etc/passwd")

    with pytest.raises(AttachstoreError):
        Checkpoint(path, Disk(), SUBJECT).load()


def test_a_place_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DestinationError):
        Checkpoint(tmp_path / "absent" / "scan.json", Disk(), SUBJECT).save(EARLY)


@pytest.mark.parametrize("effect", ["none", "done"])
def test_a_fault_at_any_call_leaves_the_old_or_the_new(tmp_path: Path, effect: Any) -> None:
    for number, disk in enumerate(failing_disks(effect=effect)):
        path = tmp_path / str(number) / "scan.json"
        path.parent.mkdir()
        Checkpoint(path, Disk(), SUBJECT).save(EARLY)
        checkpoint = Checkpoint(path, disk, SUBJECT)

        try:
            checkpoint.save(LATE)
        except AttachstoreError:
            assert disk.landed
        disk.heal()

        assert checkpoint.load() in (EARLY, LATE) if disk.landed else checkpoint.load() == LATE
        checkpoint.sweep()
        assert {it.name for it in path.parent.iterdir()} == {"scan.json"}


def test_power_loss_at_any_moment_leaves_a_whole_one(tmp_path: Path) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    Checkpoint(root / "scan.json", Disk(), SUBJECT).save(EARLY)
    disk = PowerLossDisk(root)
    checkpoint = Checkpoint(root / "scan.json", disk, SUBJECT)
    checkpoint.save(LATE)
    disk.acknowledge(LATE)

    states = 0
    for state, acknowledged in disk.crash_moments(into=tmp_path):
        states += 1
        found = Checkpoint(state / "scan.json", Disk(), SUBJECT)
        assert found.load() == LATE if acknowledged else found.load() in (EARLY, LATE)
    assert states >= 4


def test_what_a_kill_left_is_swept_and_what_is_being_written_is_not(path: Path) -> None:
    disk = Disk()
    stale, live = (path.with_name(f"scan.json.{name}.part") for name in ("0" * 16, "1" * 16))
    stale.touch()
    descriptor = disk.create(live, 0o600)
    disk.lock(descriptor, exclusive=True, wait=False)
    other = path.with_name("scan.json.mine")
    other.touch()

    Checkpoint(path, disk, SUBJECT).sweep()

    assert sorted(it.name for it in path.parent.iterdir()) == [live.name, other.name]
    disk.close(descriptor)


def test_what_is_being_saved_is_not_swept_by_another_scan(path: Path) -> None:
    disk = MeanwhileDisk("rename", Checkpoint(path, Disk(), SUBJECT).sweep)

    Checkpoint(path, disk, SUBJECT).save(EARLY)

    assert Checkpoint(path, Disk(), SUBJECT).load() == EARLY


def test_a_name_that_leads_elsewhere_by_now_is_not_swept(path: Path) -> None:
    stale = path.with_name(f"scan.json.{'0' * 16}.part")
    stale.touch()

    def change() -> None:
        stale.rename(path.with_name("elsewhere"))
        stale.write_bytes(b"another's")

    Checkpoint(path, MeanwhileDisk("lock", change), SUBJECT).sweep()

    assert stale.read_bytes() == b"another's"


def test_a_removed_one_does_not_come_back(tmp_path: Path) -> None:
    """It would say of an older state of the store what was covered."""
    root = tmp_path / "disk"
    root.mkdir()
    Checkpoint(root / "scan.json", Disk(), SUBJECT).save(EARLY)
    disk = PowerLossDisk(root)

    Checkpoint(root / "scan.json", disk, SUBJECT).remove()

    for state in disk.crash_states(into=tmp_path):
        assert list(state.iterdir()) == []


def test_what_is_no_file_is_not_read(path: Path) -> None:
    path.mkdir()
    (path / "entry").write_bytes(b"so that it has a size everywhere")
    disk = RecordingDisk(path.parent, methods={"read", "read_into"})

    with pytest.raises(InvalidConfigurationError, match="it is no checkpoint"):
        Checkpoint(path, disk, SUBJECT).load()
    assert disk.trace == []


def test_a_scan_outlives_a_checkpoint_that_cannot_be_saved(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The disk of the home directory is full: the scan goes on, and says so once."""
    keeper = Keeper(Checkpoint(tmp_path / "absent" / "scan.json", Disk(), SUBJECT))

    with caplog.at_level(logging.WARNING, "attachstore"):
        keeper.save(EARLY)
        keeper.save(LATE)

    assert len(caplog.records) == 1
