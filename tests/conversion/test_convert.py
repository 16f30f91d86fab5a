"""A conversion: everything comes along, proven, or nothing has changed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from attachstore import layout
from attachstore.blocking import Store
from attachstore.conversion import (
    ConversionProgress,
    ConversionStep,
    convert,
    convert_sessions,
    work,
)
from attachstore.disk import Disk
from attachstore.errors import (
    InvalidConfigurationError,
    LogDamagedError,
    SessionBusyError,
    StoreForeignError,
    StoreLayoutError,
    StoreMissingError,
)
from attachstore.sessions.medium import SessionMedium
from attachstore.sessions.names import SessionName
from attachstore.threads import CancelFlag, Cancelled
from tests.conversion.scene import OTHER, contents, entries, make, medium_in, write


@pytest.fixture(params=["jsonl", "sqlite"])
def source(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once, copied for each test."""
    place = tmp_path_factory.mktemp("scenes")
    for kind in OTHER:
        make(place / kind, kind)
    return place


@pytest.fixture
def root(tmp_path: Path, source: str, scenes: Path) -> Path:
    return shutil.copytree(scenes / source, tmp_path / "store")


def test_every_session_comes_along_as_it_is(root: Path, source: str) -> None:
    """Events, chains, headers, lineage, and what a load has to settle."""
    before = contents(root)

    report = convert(Disk(), root, OTHER[source])

    assert (report.source, report.target, report.converted) == (source, OTHER[source], True)
    assert report.sessions == len(before) == 5
    assert report.events == sum(len(content.events) for content in before.values())
    assert contents(root) == before
    assert before["tail"].tail_bytes > 0
    with Store.open(root, sessions=OTHER[source], decode_in_process=True) as store:
        assert store.scan().clean
        assert store.sessions.load("tail").append("message", "goes on").seq == 4
        assert store.sessions.load("turn").head == 2


def test_the_old_logs_are_kept_as_they_were(root: Path, source: str) -> None:
    """The old medium at its place, under the old attachstore.json, is the old store again."""
    before, marker = contents(root), (root / "attachstore.json").read_text()

    report = convert(Disk(), root, OTHER[source])

    assert report.kept is not None
    kept = Path(report.kept)
    assert kept.parent == root / "converted"
    assert not any((root / name).exists() for name in layout.SESSION_NAMES[source])
    for path in kept.iterdir():
        path.rename(root / path.name)
    (root / "attachstore.json").write_text(marker)
    assert contents(root) == before


def test_nothing_else_is_left_behind(root: Path, source: str) -> None:
    before = entries(root)
    report = convert(Disk(), root, OTHER[source])
    there = entries(root)

    assert report.kept is not None
    kept = str(Path(report.kept).relative_to(root))
    new = {"sessions.db", "staging"} if source == "jsonl" else {"sessions"}
    known = {"attachstore.json", "staging", "quarantine", "converted", kept}
    assert {
        path for path in there - known - new if not path.startswith((kept, "sessions/"))
    } == set()
    assert before - there  # the old medium's entries


def test_it_goes_back_and_forth(root: Path, source: str) -> None:
    before = contents(root)

    for target in (OTHER[source], source, OTHER[source]):
        assert convert(Disk(), root, target).converted

    assert contents(root) == before
    assert len(list((root / "converted").iterdir())) == 3


def test_what_is_there_already_is_not_converted(root: Path, source: str) -> None:
    before = entries(root)

    report = convert(Disk(), root, source)

    assert (report.converted, report.kept) == (False, None)
    assert entries(root) == before


def test_a_dry_run_reads_and_changes_nothing(root: Path, source: str) -> None:
    before = entries(root)

    report = convert(Disk(), root, OTHER[source], dry_run=True)

    assert (report.converted, report.sessions, report.kept) == (False, 5, None)
    assert entries(root) == before


@pytest.mark.parametrize("source", ["jsonl"])
def test_a_sealed_log_comes_out_plain(root: Path) -> None:
    before = contents(root)
    with Store.open(root, decode_in_process=True) as store:
        store.sessions.seal("s-1")
    assert not (root / "sessions/s-1/log.jsonl").exists()

    convert(Disk(), root, "sqlite")
    convert(Disk(), root, "jsonl")

    assert contents(root) == before
    assert (root / "sessions/s-1/log.jsonl").exists()


# -- what stands in the way ----------------------------------------------------------------------


def test_a_damaged_log_stops_it_before_anything_changes(root: Path, source: str) -> None:
    write(root, source, "s-1", b"not a record\n")
    before, was = entries(root), contents(root)

    with pytest.raises(LogDamagedError, match="'s-1'"):
        convert(Disk(), root, OTHER[source])

    assert entries(root) == before
    assert contents(root) == was
    assert [error.session for error in convert(Disk(), root, OTHER[source], dry_run=True).damaged]


def test_damage_is_carried_over_as_it_is_on_demand(root: Path, source: str) -> None:
    """Byte for byte: what a reader was told before, it is told after."""
    write(root, source, "s-1", b"not a record\nneither is this")
    before = contents(root)
    assert before["s-1"].damage is not None

    report = convert(Disk(), root, OTHER[source], with_damaged=True)

    assert [error.session for error in report.damaged] == ["s-1"]
    assert contents(root) == before


@pytest.mark.parametrize("source", ["jsonl"])
def test_a_log_without_a_header_is_carried_over_too(root: Path) -> None:
    log = root / "sessions/s-1/log.jsonl"
    content = b"#" + log.read_bytes()[1:]
    log.write_bytes(content)

    convert(Disk(), root, "sqlite", with_damaged=True)
    convert(Disk(), root, "jsonl", with_damaged=True)

    assert log.read_bytes() == content


def test_a_session_that_is_open_stands_in_the_way(root: Path, source: str) -> None:
    with Store.open(root, decode_in_process=True) as store:
        session = store.sessions.load("s-1")
        before = entries(root)

        with pytest.raises(SessionBusyError, match=r"'s-1' .* process \d+"):
            convert(Disk(), root, OTHER[source])

        assert entries(root) == before
        session.append("message", "goes on")
    convert(Disk(), root, OTHER[source])
    assert contents(root)["s-1"].events[-1].data == "goes on"


def test_a_session_that_another_process_has_open_stands_in_the_way(root: Path, source: str) -> None:
    script = (
        "import sys; from attachstore.blocking import Store\n"
        "store = Store.open(sys.argv[1], decode_in_process=True)\n"
        "session = store.sessions.load('s-1')\n"
        "print('open', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(SessionBusyError, match=f"process {other.pid}"):
            convert(Disk(), root, OTHER[source])
        other.kill()
    assert convert(Disk(), root, OTHER[source]).converted


@pytest.mark.parametrize("source", ["sqlite"])
def test_a_reader_in_sqlite_stands_in_the_way_too(root: Path) -> None:
    """The last to close the database removes its write-ahead log, by its name."""
    with Store.open(root, decode_in_process=True) as store:
        store.sessions.list()
        with pytest.raises(SessionBusyError):
            convert(Disk(), root, "jsonl")


@pytest.mark.parametrize("source", ["jsonl"])
def test_a_store_that_was_open_and_idle_is_told(root: Path) -> None:
    with Store.open(root, decode_in_process=True) as store:
        created = store.sessions.create("s-2")
        convert(Disk(), root, "sqlite")

        for work in (
            lambda: created.append("message", 1),
            lambda: store.sessions.load("s-1"),
            lambda: list(store.sessions.read("s-1")),
            store.sessions.list,
        ):
            with pytest.raises(StoreLayoutError, match="open the store again"):
                work()
    assert "s-2" not in contents(root)


def test_only_media_there_are_can_be_asked_for(root: Path) -> None:
    with pytest.raises(InvalidConfigurationError, match="postgres"):
        convert(Disk(), root, "postgres")


def test_only_a_store_is_converted(tmp_path: Path) -> None:
    with pytest.raises(StoreMissingError):
        convert(Disk(), tmp_path / "nothing", "sqlite")
    (tmp_path / "letter.txt").write_text("Dear")
    with pytest.raises(StoreForeignError):
        convert(Disk(), tmp_path, "sqlite")
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


# -- what earlier conversions left ---------------------------------------------------------------


def test_what_lies_in_the_new_place_is_put_aside(root: Path, source: str) -> None:
    """Also a write-ahead log alone, which SQLite would take for that of the new database."""
    before = contents(root)
    stray = {"jsonl": "sessions.db-wal", "sqlite": "sessions"}[source]
    if source == "jsonl":
        (root / stray).write_bytes(b"an old commit")
    else:
        (root / stray).mkdir()
        (root / stray / "kept.txt").write_text("somebody's")

    convert(Disk(), root, OTHER[source])

    assert contents(root) == before
    kept = [path for path in (root / "converted").rglob("*") if path.name in {stray, "kept.txt"}]
    assert kept


def test_a_conversion_killed_in_the_last_moment_is_finished_by_the_next(
    root: Path, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(root)
    with monkeypatch.context() as patch:
        patch.setattr(work, "_finish", _killed)
        with pytest.raises(KeyboardInterrupt):
            convert(Disk(), root, OTHER[source])
    assert medium_in(root) == OTHER[source]

    report = convert(Disk(), root, OTHER[source])

    assert not report.converted
    assert report.kept is not None
    assert Path(report.kept).exists()
    assert not (root / "converting").exists()
    assert contents(root) == before


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_copy_that_is_not_the_same_is_not_taken(
    root: Path, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, was = contents(root), entries(root)
    copy_log = work.copy_log

    def copied(
        old: SessionMedium, new: SessionMedium, name: SessionName, *, cancel: CancelFlag | None
    ) -> None:
        copy_log(old, new, name, cancel=cancel)
        if name.id == "s-1":
            with new.open_writer(name) as log:
                log.cut(log.size() - 10)

    monkeypatch.setattr(work, "copy_log", copied)
    with pytest.raises(LogDamagedError, match="the copy is not what was read"):
        convert(Disk(), root, OTHER[source])

    assert contents(root) == before
    assert entries(root) == was


# -- the asynchronous edge -----------------------------------------------------------------------


async def test_progress_is_told_step_by_step(root: Path, source: str) -> None:
    told: list[ConversionProgress] = []

    report = await convert_sessions(root, OTHER[source], progress=told.append)

    assert list(dict.fromkeys(each.step for each in told)) == list(ConversionStep)
    assert {each.bytes_total for each in told if each.step is not ConversionStep.CHECKING} == {
        report.size_bytes
    }


def test_cancelled_it_leaves_the_old_store(root: Path, source: str) -> None:
    before, was = contents(root), entries(root)
    flag = CancelFlag()

    def cancel(progress: ConversionProgress) -> None:
        if progress.step is ConversionStep.PROVING:
            flag.set()

    with pytest.raises(Cancelled):
        convert(Disk(), root, OTHER[source], progress=cancel, cancel=flag)

    assert contents(root) == before
    assert entries(root) == was


async def test_a_copy_of_a_store_converts_like_the_store(root: Path, source: str) -> None:
    copy = root.with_name("copy")
    shutil.copytree(root, copy)

    await convert_sessions(f"file://{copy}", OTHER[source])

    assert contents(copy) == contents(root)
    fields = [json.loads((each / "attachstore.json").read_text()) for each in (root, copy)]
    assert fields[0] | {"sessions": OTHER[source]} == fields[1]
