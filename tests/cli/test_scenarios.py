"""What must hold, end to end: the installed command on a store of its own, as a user types it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from attachstore.digest import Digest
from tests.cli.running import Cli
from tests.cli.test_objects import flip, object_path
from tests.cli.test_sessions import log_of


@pytest.fixture
def attached(cli: Cli, photo: Path, note: Path) -> Cli:
    """Session s-1 with two attachments and a message."""
    assert cli.process("put", photo, note, "--session", "s-1").status == 0
    assert cli.run("session", "append", "s-1", stdin=b'{"text":"done"}').status == 0
    return cli


def test_a_fork_outlives_its_parent(attached: Cli, photo: Path) -> None:
    digest = Digest.of(photo.read_bytes()).hex

    assert attached.process("get", digest[:8]).out == photo.read_bytes()
    assert attached.run("session", "fork", "s-1", "--at", 2, "--id", "s-2").status == 0
    assert attached.run("session", "delete", "--yes", "s-1").status == 0

    replayed = attached.process("--json", "replay", "s-2")

    assert replayed.status == 0
    outcomes = [each["outcome"] for step in replayed.records for each in step["attachments"]]
    assert outcomes == ["ok", "ok"]


def test_a_flipped_bit_is_found_by_all_and_healed_by_put(attached: Cli, photo: Path) -> None:
    digest = Digest.of(photo.read_bytes())
    path = object_path(attached.store, str(digest))
    good = path.read_bytes()
    flip(path)
    bad = path.read_bytes()

    got = attached.process("get", digest)
    replayed = attached.run("--json", "replay", "s-1")
    scanned = attached.run("--json", "scan")
    listed = attached.run("scan")

    assert (got.status, got.out) == (4, b"")
    assert replayed.status == 4
    assert len(replayed.records) == 3, "all of it is listed, whatever is found"
    (corrupt,) = replayed.records[0]["attachments"]
    assert (replayed.records[0]["seq"], corrupt["outcome"]) == (1, "corrupt")
    assert corrupt["error"]["code"] == "object-corrupt"
    assert scanned.status == listed.status == 4
    (finding,) = scanned.record["findings"]
    assert (finding["kind"], finding["digest"]) == ("object-corrupt", str(digest))
    assert finding["uses"] == [{"session": "s-1", "seq": 1, "pointer": "/file"}]
    assert str(digest) in listed.text
    assert "in session s-1, event 1, /file" in listed.text

    healed = attached.run("put", photo)

    assert healed.status == 0
    assert healed.text.endswith("  photo.jpg  (healed)\n")
    assert "healed object" in healed.message
    assert path.read_bytes() == good
    assert attached.run("get", digest).status == 0
    assert attached.run("replay", "s-1").status == 0
    assert attached.run("scan").status == 0
    quarantined = [each.read_bytes() for each in (attached.store / "quarantine").iterdir()]
    assert bad in quarantined


def test_an_edited_reference_is_told_apart_from_damage(attached: Cli, photo: Path) -> None:
    reference = attached.run("--json", "put", photo).record["reference"]
    reference["$attach"]["width"] += 1

    ran = attached.process("get", json.dumps(reference))

    assert (ran.status, ran.out) == (5, b"")
    assert "width logged 65, actual 64" in ran.message


def test_a_record_cut_in_the_middle_is_no_damage(attached: Cli) -> None:
    """The next append goes on at the right number; the cut bytes are kept in torn/."""
    log = log_of(attached, "s-1")
    whole = log.read_bytes()
    os.truncate(log, len(whole) - 20)

    assert attached.run("session", "verify", "s-1").status == 0
    assert attached.run("session", "show", "s-1", "--json").record["head_seq"] == 2
    appended = attached.process("session", "append", "s-1", "--json", stdin=b"{}")

    assert appended.record["seq"] == 3
    (torn,) = (log.parent / "torn").iterdir()
    assert whole[:-20].endswith(torn.read_bytes())
    assert attached.run("scan").status == 0


def test_a_byte_changed_in_the_middle_of_a_log_is_damage(attached: Cli) -> None:
    log = log_of(attached, "s-1")
    text = log.read_bytes()
    assert text.count(b'"width":64') == 1
    offset_bytes = text.index(b"\n") + 1
    log.write_bytes(text.replace(b'"width":64', b'"width":65'))

    verified = attached.process("session", "verify", "s-1")
    refused = attached.run("session", "append", "s-1", stdin=b"{}")
    read = attached.run("--json", "session", "show", "s-1", "--events")
    scanned = attached.run("--json", "scan")
    replayed = attached.run("--json", "replay", "s-1")

    assert verified.status == refused.status == read.status == 4
    assert f"line 2, byte {offset_bytes}" in verified.message
    assert read.records == []
    assert (scanned.status, scanned.record["worst"]) == (4, "log-damaged")
    (finding,) = scanned.record["findings"]
    assert (finding["session"], finding["line"], finding["offset_bytes"]) == (
        "s-1",
        2,
        offset_bytes,
    )
    assert replayed.status == 4
    assert replayed.errors[-1]["code"] == "log-damaged"


def test_a_lost_object_is_status_3_and_a_lost_and_a_bad_one_status_4(
    attached: Cli, photo: Path, note: Path
) -> None:
    object_path(attached.store, str(Digest.of(note.read_bytes()))).unlink()

    for command in (["replay", "s-1"], ["scan"], ["get", str(Digest.of(note.read_bytes()))]):
        assert attached.run(*command).status == 3, command

    flip(object_path(attached.store, str(Digest.of(photo.read_bytes()))))

    for command in (["replay", "s-1"], ["scan"]):
        assert attached.run(*command).status == 4, command


def test_twelve_megabytes_of_output_leave_a_short_log(cli: Cli, tmp_path: Path) -> None:
    output = tmp_path / "output.txt"
    output.write_bytes(b"x" * 12_000_000)

    assert cli.run("put", output, "--session", "s-1").status == 0

    assert max(map(len, log_of(cli, "s-1").read_bytes().splitlines())) < 1024


def test_a_read_only_copy_of_a_store_can_be_read(attached: Cli, tmp_path: Path) -> None:
    """Nothing is locked, made or repaired: only the owner may write, and nobody is."""
    before = sorted(attached.store.rglob("*"))
    for path in [attached.store, *before]:
        path.chmod(path.stat().st_mode & ~0o222)
    try:
        for command in (["replay", "s-1"], ["scan"], ["ls"], ["session", "verify"], ["stat"]):
            assert attached.run(*command).status == 0, command
        page = tmp_path / "page.html"
        assert attached.run("replay", "s-1", "--html", page).status == 0
        assert page.read_text("utf-8").startswith("<!doctype html>")
        assert sorted(attached.store.rglob("*")) == before
    finally:
        for path in [attached.store, *before]:
            path.chmod(path.stat().st_mode | 0o200)
