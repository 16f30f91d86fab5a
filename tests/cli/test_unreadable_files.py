"""Files that the user may not read: each command says so of that file, and does the rest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from attachstore.admission import samples
from attachstore.digest import Digest
from tests.cli.running import Cli

NOBODY = 65_534


@pytest.fixture
def tmp_path(reachable_path: Path) -> Path:
    return reachable_path


@pytest.fixture
def ordinary_user(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], None]]:
    """Call it to go on as somebody whom permissions bind; whoever is not root is that already."""
    monkeypatch.setattr(samples, "TOOL_OUTPUT_BYTES", 1_200_000)
    # All code is loaded before: it may lie where only root reads.
    cli.run("demo", store=tmp_path / "rehearsed")
    cli.run("check", tmp_path)
    if os.geteuid() != 0:
        yield lambda: None
        return
    for path in (tmp_path, *filter(Path.is_dir, tmp_path.rglob("*"))):
        os.chown(path, NOBODY, NOBODY)
    # The real user too: that is the one who is asked about by access(2).
    yield lambda: os.setresuid(NOBODY, NOBODY, 0)
    os.setresuid(0, 0, 0)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.txt"
    path.write_bytes(b"for nobody\n")
    path.chmod(0)
    return path


def test_put_stores_the_others(
    cli: Cli, note: Path, secret: Path, photo: Path, ordinary_user: Callable[[], None]
) -> None:
    ordinary_user()
    ran = cli.run("--json", "put", note, secret, photo)

    assert ran.status == 8
    assert [record["source"] for record in ran.records] == [str(note), str(photo)]
    assert [(each["code"], each["source"]) for each in ran.errors] == [
        ("source-unreadable", str(secret))
    ]
    assert cli.run("put", secret).status == 6


def test_check_examines_the_others(
    cli: Cli, note: Path, secret: Path, ordinary_user: Callable[[], None]
) -> None:
    ordinary_user()
    ran = cli.run("--json", "check", secret, note)

    assert ran.status == 8
    assert [record["admissible"] for record in ran.records] == [False, True]
    assert ran.records[0]["findings"][0]["code"] == "source-unreadable"


def test_append_refuses_the_event(
    cli: Cli, secret: Path, ordinary_user: Callable[[], None]
) -> None:
    ordinary_user()
    ran = cli.run("session", "append", "s-1", "--attach", secret, stdin=b"{}")

    assert ran.status == 6
    assert ran.message.startswith("attachstore: source-unreadable: ")


def test_the_demo_attaches_the_others(
    cli: Cli, note: Path, secret: Path, ordinary_user: Callable[[], None]
) -> None:
    ordinary_user()
    ran = cli.run("demo", secret, note)

    assert ran.status == 8
    assert "secret.txt: source-unreadable: " in ran.text
    assert "note.txt" in ran.text


def test_an_output_that_cannot_be_read_is_judged_by_what_writes_it(
    cli: Cli, note: Path, secret: Path, ordinary_user: Callable[[], None]
) -> None:
    """`get -o` replaces it; a page replaces pages only, and has to look; DIR has to be a folder."""
    ordinary_user()
    cli.run("put", note, "--session", "s-1")
    page = cli.run("replay", "s-1", "--html", secret)
    folder = cli.run("replay", "s-1", "--export", secret)
    got = cli.run("get", Digest.of(note.read_bytes()).hex, "-o", secret)

    assert page.message.splitlines()[-1].startswith("attachstore: storage-read-only: ")
    assert folder.message.splitlines()[-1].startswith("attachstore: destination-refused: ")
    assert (page.status, folder.status, got.status) == (1, 6, 0)
    assert secret.read_bytes() == note.read_bytes()
