"""Every benchmark runs and gives figures. What the figures are is nobody's promise here."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import events
from benchmarks.measure import (
    ROUNDS_MIN,
    Measure,
    Plan,
    Question,
    Rounds,
    Row,
    interleave,
    kibibytes,
    table,
)
from benchmarks.peers.catalog import CATALOG
from benchmarks.peers.peer import AbsentError, Peer, sync
from benchmarks.place import best_place
from benchmarks.runner import ALL

ROOT = Path(__file__).parents[2]
QUESTION = Question(
    text="ours / theirs", floor="theirs", target=1.5, ours_durable="durable", floor_durable="lost"
)


@pytest.fixture(autouse=True)
def path_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that was looked for puts its folder on the path for as long as the process lives."""
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.mark.parametrize("measure", ALL, ids=lambda measure: measure.__module__)
async def test_each_benchmark_answers_with_finite_ratios(measure: Measure, tmp_path: Path) -> None:
    rows = await measure(Plan(directory=tmp_path, quick=True))

    assert rows
    for row in rows:
        assert row.ratios
        assert all(math.isfinite(ratio) and ratio > 0 for ratio in row.ratios)
        assert row.question.text in table(rows)


NO_BENCHMARKS = {"__init__", "__main__", "measure", "place", "runner", "let_in"}
"""What benchmarks are made of, and a comparison that needs other stores and has no ratio."""


def test_every_script_is_part_of_the_one_table() -> None:
    scripts = {path.stem for path in (ROOT / "benchmarks").glob("*.py")}

    assert {measure.__module__ for measure in ALL} == {
        f"benchmarks.{name}" for name in scripts - NO_BENCHMARKS
    }


def test_one_script_alone_prints_its_table_and_where_it_ran(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "--quick", "--only", "append"]

    done = subprocess.run(
        [*command, "--directory", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.startswith("question")
    assert "append an event" in done.stdout
    assert "measured on" in done.stderr
    assert [*tmp_path.iterdir()] == []


async def test_both_sides_run_in_every_round_and_not_always_in_the_same_order() -> None:
    order = list[str]()

    async def ours() -> None:
        order.append("ours")

    async def floor() -> None:
        order.append("floor")

    ratios = await interleave(ours, floor, rounds=Rounds(50), prepare=lambda: order.append("|"))

    rounds = "".join(f"{name} " for name in order).split("| ")[1:]
    assert len(ratios) == 50
    assert set(rounds) == {"ours floor ", "floor ours "}
    assert len(rounds) == 51


async def test_rounds_end_when_their_time_is_over_but_not_before_a_few() -> None:
    async def side() -> None: ...

    assert len(await interleave(side, side, rounds=Rounds(1000, seconds=0.0))) == ROUNDS_MIN


@pytest.mark.parametrize("peer", CATALOG, ids=lambda peer: peer.name)
async def test_a_peer_gives_back_what_it_was_given(peer: Peer, tmp_path: Path) -> None:
    """Those that are installed; `make peers` does, and a test run need not."""
    data = b"given" * 1000
    try:
        async with peer.open(tmp_path) as opened:
            key = await opened.put(data)
            assert await opened.read(key) == data
            assert await opened.read(await opened.put(data)) == data
            if not peer.syncs:
                assert sum(path.stat().st_size for path in opened.files(key)) > 0
                sync(opened.files(key))
    except AbsentError as error:
        assert "make peers" in str(error) or "PATH" in str(error)  # noqa: PT017 - an answer too


PEER = """
import sqlite3

class SQLiteSession:
    def __init__(self, session_id, path):
        self.connection = sqlite3.connect(path)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("CREATE TABLE item (item TEXT)")

    async def add_items(self, items):
        self.connection.execute("INSERT INTO item VALUES (?)", (repr(items),))
        self.connection.commit()

    def close(self):
        self.connection.close()
"""


async def test_a_peer_is_measured_if_it_is_there_and_named_if_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is installed for the benchmark alone, so it may be missing, but not unnoticed."""
    folder = tmp_path / "peers" / "agents" / "memory"
    monkeypatch.setattr(events, "PEERS", tmp_path / "peers")
    (tmp_path / "without").mkdir()
    rows = await events.measure(Plan(directory=tmp_path / "without", quick=True))
    assert [row for row in rows if events.PEER in row.question.text] == []
    assert "SQLiteSession.add_items: not measured" in capsys.readouterr().err

    folder.mkdir(parents=True)
    (folder / "sqlite_session.py").write_text(PEER)
    (tmp_path / "with").mkdir()
    try:
        rows = await events.measure(Plan(directory=tmp_path / "with", quick=True))
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "agents"]:
            del sys.modules[name]
    assert [row.question.text for row in rows if events.PEER in row.question.text] == [
        "append / SQLiteSession.add_items",
        "emit, flush / SQLiteSession.add_items",
    ]
    assert capsys.readouterr().err == ""


def test_a_row_is_met_by_its_median_and_shows_its_spread() -> None:
    row = Row(question=QUESTION, size="4 KiB", ratios=(1.0, 1.4, 9.0))

    assert (row.median, row.met) == (1.4, True)
    assert 7 < row.p90 < 9
    line = table([row]).splitlines()[1]
    assert line.split() == [
        "ours",
        "/",
        "theirs",
        "4",
        "KiB",
        "1.40",
        "7.48",
        "<=",
        "1.5",
        "met",
        "3",
    ]
    assert "NOT MET" in table([Row(question=QUESTION, size="4 KiB", ratios=(2.0,))])


def test_a_plain_directory_is_used_and_told_where_no_image_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with best_place(tmp_path) as place:
        assert place.directory.is_relative_to(tmp_path)
        assert "no loop image" in place.described
    assert [*tmp_path.iterdir()] == []


def test_sizes_are_written_in_binary_units() -> None:
    assert [kibibytes(size) for size in (4 << 10, 1 << 20, 64 << 20)] == [
        "4 KiB",
        "1 MiB",
        "64 MiB",
    ]
