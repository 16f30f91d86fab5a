"""The demo tells the whole story, and removes nothing that it did not make."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from attachstore.admission import samples
from attachstore.cli.demo_store import MARKER
from tests.cli.running import Cli


@pytest.fixture(autouse=True)
def short_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """12 MB of text take half a second to make; every other run may have less."""
    monkeypatch.setattr(samples, "TOOL_OUTPUT_BYTES", 1_200_000)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store that a demo has left; it may be copied."""
    place = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(samples, "TOOL_OUTPUT_BYTES", 1_200_000)
        for name in list(os.environ):
            if name.startswith(("ATTACHSTORE_", "XDG_")):
                patch.delenv(name)
        assert Cli(place / "store", {}).run("demo", "--html", place / "page.html").status == 0
    return place / "store"


def test_the_demo_runs_the_whole_line_and_leaves_a_page(cli: Cli, tmp_path: Path) -> None:
    ran = cli.run("demo")
    page = tmp_path / "here/demo.html"

    assert ran.status == 0
    assert ran.message == ""
    for part in ("Attach", "Fork", "Delete the parent", "8 references ok", "clean", "saved"):
        assert part in ran.text
    assert f"page to look at             {page}\n" in ran.text
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert cli.run("replay", "demo-fork").status == 0
    assert cli.run("session", "list").text.split()[0] == "demo-fork"


def test_the_demo_in_numbers(cli: Cli) -> None:
    numbers = cli.run("--json", "demo").record

    assert numbers["outcomes"] == {"ok": 8}
    assert numbers["clean"] is True
    assert numbers["largest_line_bytes"] < 1024
    assert numbers["inline_bytes"] > 2 * numbers["object_bytes"] + numbers["log_bytes"]
    kinds = [each["$attach"]["media_type"] for each in numbers["references"]]
    assert kinds == [
        "image/jpeg",
        "image/png",
        "image/gif",
        "image/webp",
        "application/pdf",
        "audio/wav",
        "text/plain",
        "image/jpeg",
    ]


def test_the_demo_takes_files_of_the_user_and_names_those_it_refuses(
    cli: Cli, photo: Path, cut_photo: Path
) -> None:
    ran = cli.run("demo", photo, cut_photo)

    assert ran.status == 8
    assert "photo.jpg" in ran.text
    assert "cut.jpg: truncated-image: " in ran.text


def test_the_demo_starts_afresh_each_time(cli: Cli) -> None:
    first, second = cli.run("--json", "demo"), cli.run("--json", "demo")

    assert (first.status, second.status) == (0, 0)
    assert first.record["references"] == second.record["references"], "samples are always alike"


def test_the_demo_stands_in_the_current_directory_unless_told_otherwise(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that the user has configured is none of its business."""
    monkeypatch.setenv("ATTACHSTORE_STORE", str(tmp_path / "mine"))
    ran = cli.process("demo")

    assert ran.status == 0
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("kind", ["store", "letters", "file", "link", "mixed"])
def test_the_demo_removes_nothing_that_it_did_not_make(
    cli: Cli, photo: Path, tmp_path: Path, kind: str
) -> None:
    place = cli.store
    if kind == "store":
        cli.run("put", photo)
    elif kind == "letters":
        place.mkdir()
        (place / "dear.txt").touch()
    elif kind == "file":
        place.touch()
    elif kind == "link":
        cli.run("demo", store=tmp_path / "real")
        place.symlink_to(tmp_path / "real")
    else:
        cli.run("demo")
        (place / "my-notes.txt").touch()
    before = sorted(tmp_path.rglob("*"))

    ran = cli.run("demo")

    assert ran.status == 6
    assert ran.message.startswith("attachstore: destination-refused: ")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("kind", ["session", "object", "event", "kept", "link", "killed"])
def test_what_was_done_in_the_demos_store_is_not_removed(
    cli: Cli, made: Path, photo: Path, kind: str
) -> None:
    """It is a store as any other, and its name is one that people remember."""
    shutil.copytree(made, cli.store)
    if kind == "session":
        cli.run("session", "append", "mine", stdin=b"{}")
    elif kind == "object":
        cli.run("put", photo)
    elif kind == "event":
        cli.run("session", "append", "demo-fork", stdin=b"{}")
    elif kind == "kept":
        (cli.store / "quarantine/kept").write_bytes(b"bad bytes")
    elif kind == "link":
        (cli.store / "objects/link").symlink_to(photo.parent)
    else:
        (cli.store / MARKER).write_bytes(b"")
    before = sorted(cli.store.rglob("*"))

    ran = cli.run("demo")

    assert ran.status == 6
    assert ran.message.startswith("attachstore: destination-refused: nothing was written there: ")
    assert "remove it yourself to go on" in ran.message
    assert sorted(cli.store.rglob("*")) == before


def test_looking_at_the_demos_store_does_not_keep_it(cli: Cli, made: Path) -> None:
    shutil.copytree(made, cli.store)
    for command in (["scan"], ["replay", "demo-fork"], ["session", "list"], ["stat"]):
        cli.run(*command)
    cli.run("session", "append", "demo-fork", "--after", 1, stdin=b"{}")

    assert cli.run("demo").status == 0


@pytest.mark.parametrize("medium", ["jsonl", "sqlite"])
def test_a_demo_that_fails_may_run_again(
    cli: Cli, note: Path, monkeypatch: pytest.MonkeyPatch, medium: str
) -> None:
    monkeypatch.setenv("ATTACHSTORE_SESSIONS", medium)

    assert cli.run("demo", "--html", note).status == 6, "its page is somebody's file"
    assert cli.run("demo").status == 0
    assert cli.run("replay", "demo-fork").status == 0
    assert cli.run("demo").status == 0


def test_an_empty_directory_may_become_the_demos(cli: Cli) -> None:
    cli.store.mkdir()

    assert cli.run("demo").status == 0


def test_the_samples_of_a_full_run_are_as_promised(tmp_path: Path) -> None:
    """12 MB of text, and the same bytes on every run."""
    whole = samples.tool_output()

    assert len(whole) == samples.TOOL_OUTPUT_BYTES
    assert whole == samples.tool_output()
    assert whole.endswith(b"\n")
    paths = samples.write_samples(tmp_path)
    assert [path.name for path in paths] == list(samples.SAMPLES)
