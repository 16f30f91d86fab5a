"""replay and scan: what they print beside the faults that tests/cli/test_scenarios.py makes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attachstore.digest import Digest
from tests.cli.running import Cli
from tests.cli.test_objects import flip, object_path
from tests.cli.test_sessions import append, damage, log_of


def damage_header(cli: Cli) -> None:
    log = log_of(cli, "s-1")
    log.write_bytes(log.read_bytes().replace(b'"created_at"', b'"crested_at"', 1))


@pytest.fixture
def told(cli: Cli, photo: Path, note: Path) -> Cli:
    append(cli, "s-1", {"text": "look"}, "--attach", photo)
    append(cli, "s-1", {"text": "and read"}, "--attach", note)
    append(cli, "s-1", {"text": "thanks"})
    return cli


def test_replay_prints_events_and_what_became_of_their_references(told: Cli, photo: Path) -> None:
    ran = told.run("replay", "s-1")
    lines = ran.text.splitlines()

    assert ran.status == 0
    assert lines[0] == "session s-1, 3 events"
    assert lines[1].split()[0] == "1"
    assert f"ok               /attachments/0  {Digest.of(photo.read_bytes())}  " in lines[2]
    assert ran.message == "attachstore: 3 events, 2 attachments: 2 ok\n"


def test_replay_as_json_is_one_step_a_line_and_its_data_can_be_appended_again(told: Cli) -> None:
    steps = told.run("--json", "replay", "s-1").records
    for step in steps:
        ran = told.run("session", "append", "s-2", stdin=json.dumps(step["data"]).encode())
        assert ran.status == 0

    again = told.run("--json", "replay", "s-2").records

    assert [step["data"] for step in again] == [step["data"] for step in steps]
    assert [each["outcome"] for step in again for each in step["attachments"]] == ["ok", "ok"]


def test_replay_up_to_an_event(told: Cli, note: Path) -> None:
    object_path(told.store, str(Digest.of(note.read_bytes()))).unlink()

    assert told.run("replay", "s-1", "--at", 1).status == 0
    assert len(told.run("--json", "replay", "s-1", "--at", 1).records) == 1
    assert told.run("replay", "s-1", "--at", 2).status == 3


def test_damage_behind_the_last_event_asked_for_is_not_looked_at(told: Cli) -> None:
    damage(log_of(told, "s-1"), line=4)

    assert told.run("replay", "s-1", "--at", 2).status == 0
    whole = told.run("replay", "s-1")
    assert whole.status == 4
    assert "attachstore: log-damaged: " in whole.message


def test_the_first_event_behind_damage_is_listed_as_unverified(told: Cli) -> None:
    damage(log_of(told, "s-1"), line=3)

    steps = told.run("--json", "replay", "s-1").records

    assert [(step["seq"], step.get("verified", True)) for step in steps] == [
        (1, True),
        (2, False),
        (3, True),
    ]


def test_replay_of_a_damaged_log_says_how_many_events_are_proven(told: Cli) -> None:
    damage(log_of(told, "s-1"), line=3)

    ran, as_json = told.run("replay", "s-1"), told.run("--json", "replay", "s-1")
    before = told.run("replay", "s-1", "--at", 1)

    assert ran.text.startswith("session s-1, 1 event before the damage at line 3\n")
    assert ran.text.count("(after damage, unverified)") == 1
    assert ran.message.endswith(": 3 events (1 proven by the chain), 2 attachments: 2 ok\n")
    assert json.loads(as_json.message.splitlines()[-1])["summary"] == {
        "events": 3,
        "proven": 1,
        "outcomes": {"ok": 2},
    }
    assert before.message == "attachstore: 1 event, 1 attachment: 1 ok\n"


def test_events_behind_a_damaged_header_are_still_read(told: Cli, tmp_path: Path) -> None:
    """The header says whose log it is; the chain of the events does without."""
    damage_header(told)

    replayed = told.run("replay", "s-1", "--html", tmp_path / "s.html")
    steps = told.run("--json", "replay", "s-1").records
    shown = told.run("--json", "session", "show", "s-1", "--events")

    assert (replayed.status, shown.status) == (4, 4)
    assert ": 3 events (3 proven by the chain), 2 attachments: 2 ok" in replayed.message
    assert replayed.text.startswith("session s-1, its header damaged\n")
    assert [each["outcome"] for step in steps for each in step["attachments"]] == ["ok", "ok"]
    assert [event["seq"] for event in shown.records] == [step["seq"] for step in steps] == [1, 2, 3]
    page = (tmp_path / "s.html").read_text("utf-8")
    assert "The log is damaged at line 1, byte 0: " in page
    assert 'id="e3"' in page


@pytest.mark.parametrize("at", [0, 2, 9])
def test_a_damaged_header_comes_before_any_event(told: Cli, at: int) -> None:
    damage_header(told)

    ran = told.run("--json", "replay", "s-1", "--at", at)

    assert ran.status == 4
    assert [step["seq"] for step in ran.records] == [1, 2, 3][:at]
    assert [each["code"] for each in ran.errors] == ["log-damaged"]


def test_what_is_advised_about_a_damaged_header_can_be_done(told: Cli, tmp_path: Path) -> None:
    damage_header(told)

    finding = told.run("--json", "scan").record["findings"][0]
    exported = told.run("replay", "s-1", "--export", tmp_path / "out")

    for advice in (finding["mend"], told.run("session", "show", "s-1").message, exported.message):
        assert "Restore the log from a copy" in advice
        assert "`attachstore replay` shows the events" in advice
        assert "session repair" not in advice
        assert "before it are intact" not in advice
    assert "nothing was exported" in exported.message
    assert not (tmp_path / "out").exists()


def test_replay_exports_files_and_a_page(told: Cli, photo: Path, tmp_path: Path) -> None:
    ran = told.run("replay", "s-1", "--export", tmp_path / "out", "--html", tmp_path / "s.html")

    assert ran.status == 0
    assert (tmp_path / "out/photo.jpg").read_bytes() == photo.read_bytes()
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "photo.jpg",
        "note.txt",
        "manifest.json",
    }
    assert "photo.jpg" in (tmp_path / "s.html").read_text("utf-8")
    assert f"wrote {tmp_path / 's.html'}, " in ran.message


def test_replay_replaces_nobody_elses_file(told: Cli, note: Path, tmp_path: Path) -> None:
    ran = told.run("replay", "s-1", "--html", note)
    full = told.run("replay", "s-1", "--export", tmp_path)

    assert ran.status == full.status == 6
    assert ran.message.splitlines()[-1].startswith("attachstore: destination-refused: ")
    assert note.read_bytes() == b"to do: nothing\n"


def test_a_clean_scan_says_what_it_read(told: Cli) -> None:
    ran = told.run("scan")

    assert ran.status == 0
    assert ran.text.startswith("read 2 objects, ")
    assert "1 session, 3 events, 2 references in " in ran.text
    assert ran.text.endswith("\nclean\n")


def test_the_report_as_json_is_one_object(told: Cli) -> None:
    report = told.run("--json", "scan").record

    assert report["clean"] is True
    assert (report["objects"], report["events"], report["references"]) == (2, 3, 2)
    assert report["findings"] == []


def test_what_nothing_refers_to_is_listed_in_json(
    told: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list is written piece by piece; what comes out is one line all the same."""
    digests = sorted(line.split()[0] for line in told.run("ls").text.splitlines())
    told.run("session", "delete", "--yes", "s-1")
    monkeypatch.setattr("attachstore.integrity.report._PART_OBJECTS", 1)
    monkeypatch.setattr("attachstore.cli.output._WRITE_BYTES", 1)

    report = told.run("--json", "scan").record

    assert [each["digest"] for each in report["unreferenced"]["list"]] == digests
    assert report["unreferenced"]["objects"] == len(digests) == 2


def test_unreferenced_objects_are_a_note(told: Cli) -> None:
    told.run("session", "delete", "--yes", "s-1")

    ran = told.run("scan")

    assert ran.status == 0
    assert "note   unreferenced  2 objects, " in ran.text
    assert ran.text.endswith("\nclean\n")


def test_an_event_that_there_is_not_is_no_lost_race(told: Cli, tmp_path: Path) -> None:
    """ "Append again" is no advice to somebody who reads, or forks."""
    where = f"({log_of(told, 's-1')})"
    for arguments in (
        ["replay", "s-1", "--at", "9"],
        ["replay", "s-1", "--at", "9", "--export", tmp_path / "files"],
        ["session", "fork", "s-1", "--at", "9", "--id", "s-2"],
    ):
        ran = told.run(*arguments)
        assert ran.status == 7
        assert "is at event 3" in ran.message
        assert where in ran.message
        assert "Name an event that it has" in ran.message
        assert "append" not in ran.message
    ran = told.run("session", "append", "s-1", "--after", "9", stdin=b"{}")
    assert "then append again" in ran.message


def test_replay_names_the_file_that_is_damaged(told: Cli) -> None:
    damage(log_of(told, "s-1"), line=3)

    assert f"({log_of(told, 's-1')})" in told.run("replay", "s-1").message


def test_a_scan_says_that_the_folder_of_the_logs_is_gone(told: Cli, tmp_path: Path) -> None:
    """To every reader that is a store without sessions: nothing else tells of the loss."""
    (told.store / "sessions").rename(tmp_path / "aside")

    ran = told.run("scan")
    (note,) = told.run("--json", "scan").record["notes"]

    assert ran.status == 0
    assert ran.text.splitlines()[0].startswith("note   sessions-absent  ")
    assert "restore it from a copy" in ran.text
    assert (note["kind"], note["path"]) == ("sessions-absent", "sessions")
    (tmp_path / "aside").rename(told.store / "sessions")
    assert "sessions-absent" not in told.run("scan").text


def test_a_store_without_objects_has_lost_nothing(cli: Cli) -> None:
    """Some tools leave out empty directories."""
    cli.run("init")
    (cli.store / "sessions").rmdir()

    assert cli.run("--json", "scan").record["notes"] == []


def test_the_parts_of_a_scan_make_the_whole(told: Cli) -> None:
    reports = [told.run("--json", "scan", "--subset", f"{part}/3").record for part in (1, 2, 3)]

    assert [report["subset"] for report in reports] == [[1, 3], [2, 3], [3, 3]]
    assert sum(report["objects"] for report in reports) == 2


def test_quarantine_moves_the_bad_bytes_aside(told: Cli, photo: Path) -> None:
    path = object_path(told.store, str(Digest.of(photo.read_bytes())))
    flip(path)
    bad = path.read_bytes()

    ran = told.run("--json", "scan", "--quarantine")

    assert ran.status == 4
    assert ran.record["findings"][0]["quarantined"] is True
    assert not path.exists()
    assert bad in [each.read_bytes() for each in (told.store / "quarantine").iterdir()]
    assert told.run("scan").status == 3, "the object is missing now"
