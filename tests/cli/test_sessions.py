"""session list, show, append, fork, delete, verify, repair."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Cli, Ran


def append(cli: Cli, session: str, data: object, *arguments: object) -> Ran:
    return cli.run("session", "append", session, *arguments, stdin=json.dumps(data).encode())


def events(cli: Cli, session: str) -> list[Any]:
    return cli.run("--json", "session", "show", session, "--events").records


def log_of(cli: Cli, session: str) -> Path:
    return cli.store / "sessions" / session / "log.jsonl"


def damage(path: Path, line: int) -> None:
    """Change one character in the middle of a line, as no crash does."""
    lines = path.read_bytes().split(b"\n")
    lines[line - 1] = lines[line - 1].replace(b'"type":"message"', b'"type":"massage"')
    path.write_bytes(b"\n".join(lines))


# -- append ------------------------------------------------------------------------------------


def test_append_makes_the_session_and_numbers_the_events(cli: Cli) -> None:
    first, second = append(cli, "s-1", {"text": "one"}), append(cli, "s-1", ["two"], "--json")

    assert first.text == "s-1  1  message\n"
    assert second.record["seq"] == 2
    assert [event["data"] for event in events(cli, "s-1")] == [{"text": "one"}, ["two"]]


@pytest.mark.parametrize("data", [{}, [], "text", 7, 1.5, None, True, {"$attach": 1, "b": 2}])
def test_any_json_is_data(cli: Cli, data: object) -> None:
    append(cli, "s-1", data, "--type", "tool/result")

    (event,) = events(cli, "s-1")
    assert (event["type"], event["data"]) == ("tool/result", data)


def test_a_reference_in_the_data_is_one(cli: Cli, photo: Path) -> None:
    """What `put --json` prints can be put anywhere into an event, and is then verified."""
    reference = cli.run("--json", "put", photo).record["reference"]

    assert append(cli, "s-1", {"content": ["what is this?", reference]}).status == 0
    shown = cli.run("--json", "session", "show", "s-1").record
    assert shown["attachments"] == {
        "references": 1,
        "objects": 1,
        "size_bytes": photo.stat().st_size,
    }


def test_a_reference_to_nothing_is_refused(cli: Cli, photo: Path) -> None:
    reference = cli.run("--json", "put", photo).record["reference"]
    reference["$attach"]["digest"] = "blake3:" + "0" * 64

    ran = append(cli, "s-1", reference)

    assert ran.status == 3
    assert ran.message.startswith("attachstore: dangling-reference: ")
    assert cli.run("session", "list").out == b""


def test_attached_files_become_references_under_attachments(
    cli: Cli, photo: Path, note: Path
) -> None:
    ran = append(cli, "s-1", {"role": "user"}, "--attach", photo, "--attach", note, "--json").record

    (event,) = events(cli, "s-1")
    assert event["data"] == {"role": "user", "attachments": ran["attachments"]}
    names = [each["$attach"]["name"] for each in ran["attachments"]]
    assert names == ["photo.jpg", "note.txt"]


def test_one_refused_file_keeps_the_event_out(cli: Cli, photo: Path, cut_photo: Path) -> None:
    ran = append(cli, "s-1", {}, "--attach", photo, "--attach", cut_photo)

    assert ran.status == 6
    assert ran.message.startswith("attachstore: truncated-image: ")
    assert cli.run("session", "list").out == b""


@pytest.mark.parametrize("data", [[], {"attachments": []}], ids=["no object", "taken"])
def test_attached_files_need_a_place_in_the_data(cli: Cli, photo: Path, data: object) -> None:
    ran = append(cli, "s-1", data, "--attach", photo)

    assert ran.status == 6
    assert ran.message.startswith("attachstore: invalid-event: ")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"{} {}",
        b"NaN",
        b"[1e999]",
        b"-Infinity",
        b'{"a":1,"a":2}',
        b'"\xff"',
        b"\xef\xbb\xbf{}",
        b'"\\ud800"',
        b"[" * 201 + b"]" * 201,
        b"[" * 100_000,
        b"9223372036854775808",
        b"1" * 5000,
        b'{"$attach":{"digest":"blake3:00"}}',
    ],
    ids=lambda text: ascii(text[:20]),
)
def test_data_that_json_leaves_open_is_refused(cli: Cli, text: bytes) -> None:
    ran = cli.run("session", "append", "s-1", stdin=text)

    assert (ran.status, ran.out) == (6, b"")
    assert ran.message.startswith("attachstore: invalid-event: ")


@pytest.mark.parametrize("text", [b"", b" \n"], ids=["nothing", "blank"])
def test_no_data_at_all_is_called_so(cli: Cli, text: bytes) -> None:
    assert "nothing was given" in cli.run("session", "append", "s-1", stdin=text).message


def test_an_event_over_the_limit_is_refused(cli: Cli) -> None:
    ran = append(cli, "s-1", "x" * 2000, "--event-bytes-max", "1KiB")

    assert ran.status == 6
    assert ran.message.startswith("attachstore: event-too-large: ")


def test_input_far_over_the_limit_is_not_read_to_its_end(cli: Cli) -> None:
    ran = append(cli, "s-1", "x" * 20_000, "--event-bytes-max", "1KiB")

    assert ran.message.startswith("attachstore: event-too-large: ")


def test_append_after_an_event_that_is_not_the_head_is_a_conflict(cli: Cli) -> None:
    append(cli, "s-1", 1, "--after", 0)
    assert append(cli, "s-1", 2, "--after", 1).status == 0

    again = append(cli, "s-1", 2, "--after", 1)

    assert again.status == 7
    assert again.message.startswith("attachstore: sequence-conflict: ")
    assert len(events(cli, "s-1")) == 2


def test_appending_from_a_shell_leaves_an_open_turn_open(cli: Cli) -> None:
    append(cli, "s-1", {}, "--type", "turn/start")
    append(cli, "s-1", {"text": "still thinking"})

    assert [event["type"] for event in events(cli, "s-1")] == ["turn/start", "message"]
    assert cli.run("--json", "session", "show", "s-1").record["closers"][0]["type"] == "turn/end"


# -- list and show -----------------------------------------------------------------------------


def test_list_shows_one_line_for_each_session(cli: Cli) -> None:
    append(cli, "s-1", 1)
    append(cli, "s-2", 1)
    append(cli, "s-2", 2)

    lines = cli.run("session", "list").text.splitlines()
    records = cli.run("--json", "session", "list").records

    assert [line.split()[:2] for line in lines] == [["s-1", "1"], ["s-2", "2"]]
    assert [(each["id"], each["head_seq"], each["problem"]) for each in records] == [
        ("s-1", 1, None),
        ("s-2", 2, None),
    ]


def test_an_id_that_is_no_word_keeps_to_its_line(cli: Cli) -> None:
    session = "a b/c\n\x1b[2J ü"
    append(cli, session, 1)

    assert cli.run("session", "list").text.startswith("a b/c\\n\\x1b[2J ü  1  ")
    assert cli.run("--json", "session", "list").record["id"] == session


@pytest.mark.parametrize("session", ["", "x" * 513, b"\xff"], ids=["empty", "long", "no text"])
def test_a_bad_id_is_a_matter_of_usage(cli: Cli, session: object) -> None:
    for arguments in (["append", session], ["show", session], ["verify", session]):
        cli.run("init")
        ran = cli.run("session", *arguments, stdin=b"{}")

        assert ran.status == 2, arguments
        assert ran.message.startswith("attachstore: invalid-session-id: ")


def test_show_tells_what_the_log_holds(cli: Cli, photo: Path) -> None:
    cli.run("put", photo, "--session", "s-1")

    text = cli.run("session", "show", "s-1").text
    record = cli.run("--json", "session", "show", "s-1").record

    assert "head         event 1\n" in text
    assert "attachments  1 reference to 1 object, " in text
    assert record["tail"] is None
    assert record["damage"] is None
    assert record["cwd"] == str(Path.cwd())


def test_a_session_that_is_not_there_is_not_found(cli: Cli) -> None:
    cli.run("init")
    for arguments in (
        ["show", "s-1"],
        ["show", "s-1", "--events"],
        ["verify", "s-1"],
        ["repair", "s-1"],
        ["fork", "s-1"],
        ["delete", "--yes", "s-1"],
    ):
        ran = cli.run("session", *arguments)

        assert (ran.status, ran.out) == (3, b"") or arguments[0] == "verify"
        assert ran.status == 3
        assert ran.message.startswith("attachstore: session-missing: ")


def test_events_after_one(cli: Cli) -> None:
    for number in range(4):
        append(cli, "s-1", number)

    records = cli.run("--json", "session", "show", "s-1", "--events", "--after", 2).records

    assert [each["data"] for each in records] == [2, 3]


# -- fork and delete ---------------------------------------------------------------------------


def test_a_fork_begins_with_its_parents_events(cli: Cli) -> None:
    for number in range(3):
        append(cli, "s-1", number)

    ran = cli.run("session", "fork", "s-1", "--at", 2, "--id", "s-2", "--json")

    assert (ran.record["id"], ran.record["head_seq"]) == ("s-2", 2)
    assert ran.record["parent"]["id"] == "s-1"
    assert [event["data"] for event in events(cli, "s-2")] == [0, 1]


def test_a_fork_without_an_id_prints_the_one_it_got(cli: Cli) -> None:
    append(cli, "s-1", 0)

    name = cli.run("session", "fork", "s-1").text.strip()

    assert len(events(cli, name)) == 1


def test_a_fork_cannot_take_an_id_or_an_event_that_is_not_free(cli: Cli) -> None:
    append(cli, "s-1", 0)
    append(cli, "s-2", 0)

    assert cli.run("session", "fork", "s-1", "--id", "s-2").status == 7
    assert cli.run("session", "fork", "s-1", "--at", 9, "--id", "s-3").status == 7


def test_delete_removes_logs_and_no_object(cli: Cli, photo: Path) -> None:
    cli.run("put", photo, "--session", "s-1")
    append(cli, "s-2", 0)

    ran = cli.run("session", "delete", "--yes", "s-1", "s-2")

    assert (ran.status, ran.text) == (0, "deleted s-1\ndeleted s-2\n")
    assert cli.run("session", "list").out == b""
    assert len(cli.run("ls").text.splitlines()) == 1


def test_delete_of_some_that_are_there(cli: Cli) -> None:
    append(cli, "s-1", 0)

    ran = cli.run("session", "delete", "--yes", "s-0", "s-1")

    assert ran.status == 8
    assert ran.text == "deleted s-1\n"


# -- verify and repair -------------------------------------------------------------------------


@pytest.fixture
def damaged(cli: Cli) -> Cli:
    for number in range(4):
        append(cli, "s-1", number)
    damage(log_of(cli, "s-1"), line=4)
    append(cli, "s-2", 0)
    return cli


def test_verify_tells_where_a_log_is_damaged(damaged: Cli) -> None:
    lines = log_of(damaged, "s-1").read_bytes().split(b"\n")
    offset_bytes = sum(len(line) + 1 for line in lines[:3])

    ran = damaged.run("session", "verify")
    first, second = damaged.run("--json", "session", "verify").records

    assert ran.status == 4
    assert ran.text == "s-1  log-damaged\ns-2  ok  1 event\n"
    assert f"line 4, byte {offset_bytes}" in ran.message
    assert (first["ok"], first["error"]["line"]) == (False, 4)
    assert (second["ok"], second["head_seq"]) == (True, 1)


def test_readers_get_the_events_before_the_damage(damaged: Cli) -> None:
    ran = damaged.run("--json", "session", "show", "s-1", "--events")

    assert ran.status == 4
    assert [event["data"] for event in ran.records] == [0, 1]
    assert ran.errors[0]["code"] == "log-damaged"
    assert damaged.run("--json", "session", "show", "s-1").record["damage"]["line"] == 4


def test_a_damaged_log_is_not_appended_to_until_it_is_repaired(damaged: Cli) -> None:
    assert append(damaged, "s-1", 9).status == 4

    repaired = damaged.run("--json", "session", "repair", "s-1").record
    appended = append(damaged, "s-1", 9, "--json").record

    assert repaired["head_seq"] == 2
    assert repaired["cut_bytes"] > 0
    assert appended["seq"] == 3
    assert [event["data"] for event in events(damaged, "s-1")] == [0, 1, 9]


def test_what_a_repair_cuts_is_kept(damaged: Cli) -> None:
    before = log_of(damaged, "s-1").read_bytes()

    repaired = damaged.run("--json", "session", "repair", "s-1").record

    kept = log_of(damaged, "s-1").parent / "torn"
    assert before.endswith(b"".join(path.read_bytes() for path in kept.iterdir()))
    assert repaired["cut_bytes"] == sum(path.stat().st_size for path in kept.iterdir())


def test_a_whole_log_needs_no_repair(damaged: Cli) -> None:
    ran = damaged.run("session", "repair", "s-2")

    assert (ran.status, ran.text) == (0, "s-2 needs no repair; its head is event 1\n")
