"""session tree."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from attachstore.confinement import UnreadableError
from attachstore.disk import Disk
from tests.cli.running import Cli


def append(cli: Cli, session: str, *items: object) -> None:
    for item in items:
        ran = cli.run("session", "append", session, stdin=json.dumps(item).encode())
        assert ran.status == 0


def family(cli: Cli) -> None:
    append(cli, "s-1", 1, 2, 3)
    cli.run("session", "fork", "s-1", "--at", 2, "--id", "s-2")
    append(cli, "s-2", "own")
    cli.run("session", "fork", "s-2", "--id", "s-3")
    cli.run("session", "fork", "s-1", "--id", "s-4")


def test_forks_stand_below_their_parents(cli: Cli) -> None:
    family(cli)

    assert cli.run("session", "tree").text == (
        "s-1  3 events\n"
        "├─ s-2  from event 2  3 events\n"
        "│  └─ s-3  from event 3  3 events\n"
        "└─ s-4  from event 3  3 events\n"
    )
    assert cli.run("session", "tree", "s-2").text == (
        "s-2  from event 2  3 events\n└─ s-3  from event 3  3 events\n"
    )
    assert cli.run("session", "tree", "nobody").status == 3


def test_json_is_one_object_for_each_session_with_its_depth(cli: Cli) -> None:
    family(cli)

    records = cli.run("--json", "session", "tree").records

    assert [(each["depth"], each["id"]) for each in records] == [
        (0, "s-1"),
        (1, "s-2"),
        (2, "s-3"),
        (1, "s-4"),
    ]
    assert records[0]["origin"] is None
    assert records[1]["origin"]["basis"] == "proven"
    assert (records[1]["origin"]["id"], records[1]["origin"]["seq"]) == ("s-1", 2)


def test_a_fork_whose_parent_is_gone_names_it(cli: Cli) -> None:
    family(cli)
    cli.run("session", "delete", "s-1", "--yes")

    text = cli.run("session", "tree").text

    assert text.startswith("s-2  from event 2 of s-1, which is not here  3 events\n")


def test_compare_tells_the_last_common_event(cli: Cli) -> None:
    family(cli)
    append(cli, "other", 1)

    assert cli.run("session", "tree", "s-4", "--compare", "s-3").text.startswith(
        "s-4  s-3  the same up to event 2  "
    )
    record = cli.run("--json", "session", "tree", "s-1", "--compare", "other").record
    assert record == {"session": "s-1", "other": "other", "seq": 0, "chain": "0" * 32}
    assert cli.run("session", "tree", "--compare", "s-1").status == 2


def test_a_fork_in_another_store_is_compared_by_its_chain(cli: Cli) -> None:
    for number in range(3):
        cli.run("session", "append", "s-1", stdin=b'{"n":%d}' % number)
    other = Cli(cli.store.with_name("other"), cli.environ)
    assert other.run("init", "--sessions", "sqlite").status == 0

    made = cli.run(
        "--json", "session", "fork", "s-1", "--at", "2", "--id", "s-9", "--into", str(other.store)
    )
    assert (made.status, made.record["id"], made.record["head_seq"]) == (0, "s-9", 2)
    assert cli.run("session", "show", "s-9").status == 3
    assert "which is not here" in other.run("session", "tree").text
    compared = cli.run(
        "--json", "session", "tree", "s-1", "--compare", "s-9", "--in", str(other.store)
    )
    assert compared.record["seq"] == 2
    assert cli.run("session", "fork", "s-1", "--into", str(cli.store / "nothing")).status == 3
    assert cli.run("session", "tree", "s-1", "--in", str(other.store)).status == 2


@pytest.fixture
def unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of s-2 may not be read."""
    allow = Disk.open_read

    def refuse(disk: Disk, path: Path) -> int:
        if path.parent.name == "s-2":
            raise UnreadableError(errno.EACCES, "Permission denied", str(path))
        return allow(disk, path)

    monkeypatch.setattr(Disk, "open_read", refuse)


def test_an_unreadable_log_hides_no_other_and_is_the_exit_status(
    cli: Cli, request: pytest.FixtureRequest
) -> None:
    family(cli)
    request.getfixturevalue("unreadable")

    ran = cli.run("session", "tree")

    assert ran.text == (
        "s-1  3 events\n"
        "└─ s-4  from event 3  3 events\n"
        "s-2  (storage-read-only)\n"
        "└─ s-3  from event 3, says its header; the parent's log does not tell  3 events\n"
    )
    assert ran.status == 1
    assert ran.message.count("this user may not read it") == 1
    told = cli.run("--json", "session", "tree")
    assert [each["id"] for each in told.records] == ["s-1", "s-4", "s-2", "s-3"]
    assert [(each["code"], each["session"]) for each in told.errors] == [
        ("storage-read-only", "s-2")
    ]
    assert cli.run("session", "tree", "s-1").status == 0


def test_a_listing_says_nothing_of_an_unreadable_log_but_that(
    cli: Cli, request: pytest.FixtureRequest
) -> None:
    append(cli, "s-2", 1)
    request.getfixturevalue("unreadable")

    ran = cli.run("session", "list")

    assert ran.text.split() == ["s-2", "-", "-", "-", "(storage-read-only)"]
    assert (ran.status, ran.message.count("this user may not read it")) == (1, 1)
    told = cli.run("--json", "session", "list")
    assert (told.status, told.record["problem"]["code"]) == (1, "storage-read-only")
    assert [(each["code"], each["session"]) for each in told.errors] == [
        ("storage-read-only", "s-2")
    ]
