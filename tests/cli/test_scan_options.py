"""`attachstore scan` with all its options: deep, rate, resume, repair-from."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import Cli


@pytest.fixture
def told(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """A session with three texts, and a whole copy of the store beside it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text(f"text {number}\n")
    files = [str(tmp_path / f"{number}.txt") for number in range(3)]
    assert cli.run("put", "--session", "s-1", *files).status == 0
    shutil.copytree(cli.store, tmp_path / "copy", symlinks=True)
    return cli


def objects(store: Path) -> list[Path]:
    return sorted(path for path in (store / "objects").rglob("*") if path.is_file())


def damage(store: Path) -> None:
    """One object is corrupt, one is missing."""
    corrupt, missing, _ = objects(store)
    corrupt.unlink()
    corrupt.write_bytes(b"bad")
    corrupt.chmod(0o444)
    missing.unlink()


def checkpoints(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "state").rglob("*") if path.is_file()]


def test_repair_from_a_copy_ends_clean_and_tells_what_it_did(told: Cli, tmp_path: Path) -> None:
    damage(told.store)
    assert told.run("scan").status == 4

    done = told.run("--json", "scan", "--repair-from", str(tmp_path / "copy"))

    report = done.record
    assert done.status == 0
    assert report["clean"]
    assert report["counts"]["mended"] == 2
    assert all(note["uses_total"] == 1 for note in report["notes"] if note["kind"] == "mended")
    assert told.run("scan").status == 0
    assert told.run("replay", "s-1").status == 0


def test_what_the_copy_does_not_have_stays_a_fault(told: Cli, tmp_path: Path) -> None:
    damage(told.store)
    for path in objects(tmp_path / "copy")[:2]:
        path.unlink()

    done = told.run("scan", "--repair-from", str(tmp_path / "copy"))

    assert done.status == 4
    assert "could not be mended from" in done.text


@pytest.mark.parametrize(
    ("place", "status", "code"),
    [("nowhere", 3, "store-missing"), (".", 1, "invalid-configuration")],
)
def test_a_copy_that_is_none_is_told_before_anything_is_read(
    told: Cli, place: str, status: int, code: str
) -> None:
    done = told.run("scan", "--repair-from", str(told.store / place))

    assert done.status == status
    assert f"attachstore: {code}: " in done.message


def test_deep_compares_frames_and_pages(told: Cli) -> None:
    done = told.run("--json", "scan", "--deep")

    assert done.status == 0
    assert done.record["deep"] is True


@pytest.mark.parametrize("rate", ["0", "-1", "nan", "inf", "fast", ""])
def test_a_rate_that_is_none_is_a_usage_error(told: Cli, rate: str) -> None:
    done = told.run("scan", "--rate", rate)

    assert done.status == 2
    assert "megabytes per second" in done.message


def test_a_rate_slows_nothing_else_down(told: Cli) -> None:
    assert told.run("scan", "--rate", "1000.5").status == 0


def test_resume_says_where_it_keeps_its_checkpoint_and_leaves_none(
    told: Cli, tmp_path: Path
) -> None:
    done = told.run("scan", "--resume")

    assert done.status == 0
    assert f"is kept in {tmp_path / 'state' / 'attachstore' / 'scan-'}" in done.message
    assert checkpoints(tmp_path) == []


def interrupted(store: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Start a scan that takes an hour, and press Ctrl-C once it has begun to read."""
    script = (
        "import sys\n"
        "from attachstore.cli.main import main\n"
        "from attachstore.integrity import pace\n"
        "slow = pace.Pace.spend\n"
        "def spend(self, size_bytes, check):\n"
        "    print('reading', flush=True)\n"
        "    slow(self, size_bytes, check)\n"
        "pace.Pace.spend = spend\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    command = [sys.executable, "-c", script, "--store", str(store), "scan", "--resume"]
    with subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "reading\n"
        process.send_signal(signal.SIGINT)
        out, message = process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, out, message)


def test_ctrl_c_keeps_the_checkpoint_and_the_same_command_goes_on(
    told: Cli, tmp_path: Path
) -> None:
    done = interrupted(told.store, "--rate", "0.000001")
    assert done.returncode == 130
    assert len(checkpoints(tmp_path)) == 1
    assert "goes on from where it was interrupted" in done.stderr

    resumed = told.run("--json", "scan", "--resume")

    assert resumed.status == 0
    assert resumed.record["objects"] == 3
    assert checkpoints(tmp_path) == []


def test_a_checkpoint_of_other_options_is_refused_and_named(told: Cli, tmp_path: Path) -> None:
    interrupted(told.store, "--rate", "0.000001")
    (kept,) = checkpoints(tmp_path)

    done = told.run("scan", "--resume", "--deep")

    assert done.status == 1
    assert "deep was False" in done.message
    assert str(kept) in done.message


def test_a_copy_of_a_store_is_another_store(told: Cli, tmp_path: Path) -> None:
    """It has the same id; what is damaged in one may be whole in the other."""
    interrupted(told.store, "--rate", "0.000001")
    told.store = tmp_path / "copy"

    done = told.run("--json", "scan", "--resume")

    assert done.status == 0
    assert done.record["resumed"] is None


def test_without_a_home_directory_resume_says_what_is_missing(
    told: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "relative/is/to/be/ignored")

    def no_home() -> Path:
        message = "Could not determine home directory."
        raise RuntimeError(message)

    monkeypatch.setattr(Path, "home", no_home)

    done = told.run("scan", "--resume")

    assert done.status == 1
    assert "XDG_STATE_HOME" in done.message
