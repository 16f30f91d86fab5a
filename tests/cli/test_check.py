"""check: every finding, no store, and statuses that scripts can rely on."""

from __future__ import annotations

from pathlib import Path

import pytest

from attachstore.admission import decoders
from attachstore.errors import AdmissionError, MissingDependencyError
from tests.admission import documents
from tests.admission.test_cases import CASES
from tests.cli.conftest import picture
from tests.cli.running import Cli


def test_check_says_what_would_be_let_in_and_makes_no_store(cli: Cli, photo: Path) -> None:
    ran = cli.run("check", photo)

    assert ran.status == 0
    assert ran.text == f"admissible  {photo}  image/jpeg  64x48\n"
    assert not cli.store.exists()


def test_check_says_why_not_with_every_finding(cli: Cli, cut_photo: Path) -> None:
    """So that a file is mended once."""
    ran = cli.run("check", cut_photo, "--type", "image/png", "--side-max", "10", "--json")

    assert ran.status == 6
    assert ran.record["admissible"] is False
    codes = [finding["code"] for finding in ran.record["findings"]]
    assert codes == ["media-type-mismatch", "dimension-limit"]
    text = cli.run("check", cut_photo).text
    assert text.startswith(f"refused     {cut_photo}  image/jpeg  64x48\n  truncated-image: ")


def test_check_of_several_files_says_8_if_some_would_be_refused(
    cli: Cli, photo: Path, cut_photo: Path, note: Path
) -> None:
    ran = cli.run("check", photo, cut_photo, note)

    assert ran.status == 8
    assert [line.split()[0] for line in ran.text.splitlines() if line[0] != " "] == [
        "admissible",
        "refused",
        "admissible",
    ]


def test_a_source_that_cannot_be_read_is_a_finding(cli: Cli, tmp_path: Path) -> None:
    for source, code in ((tmp_path / "nothing", "source-missing"), (tmp_path, "source-not-a-file")):
        ran = cli.run("check", source, "--json")
        assert ran.status == 6
        assert [finding["code"] for finding in ran.record["findings"]] == [code]


def test_a_file_over_the_limit_is_examined_all_the_same(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "large.bmp"
    path.write_bytes(picture("BMP", (900, 900)))
    assert path.stat().st_size > 2 << 20

    ran = cli.run("check", path, "--bytes-max", "1MiB", "--json")

    codes = [finding["code"] for finding in ran.record["findings"]]
    assert codes == ["too-many-bytes", "unsupported-media-type"]
    assert (ran.record["width"], ran.record["height"]) == (900, 900)


def test_check_knows_the_presets(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "sound.mp3"
    path.write_bytes((b"\xff\xfb\x90\x00" + bytes(413)) * 4)

    assert cli.run("check", path, "--preset", "openai").status == 0
    assert cli.run("check", path, "--preset", "anthropic").status == 6


def test_check_says_how_long_a_sound_is(cli: Cli, tmp_path: Path) -> None:
    """With the extra `audio`; a reference has no place for it."""
    sound = tmp_path / "note.wav"
    sound.write_bytes(documents.wav(20_000))

    ran = cli.run("check", sound, "--json")

    assert ran.record["duration_s"] == 2.5
    assert cli.run("check", sound).text == f"admissible  {sound}  audio/wav  2.5 s\n"


def test_check_of_every_reported_file_ends_in_a_reference_or_an_error_of_ours(cli: Cli) -> None:
    """All files that ever poisoned somebody's session, and logs and notes beside them."""
    files = sorted(path for path in CASES.glob("*/*") if path.is_file())

    ran = cli.run("check", *files, "--json")

    assert ran.status == 8
    assert ran.message == ""
    assert [record["source"] for record in ran.records] == [str(path) for path in files]
    known = {error.code for error in AdmissionError.__subclasses__()}
    for record in ran.records:
        codes = [finding["code"] for finding in record["findings"]]
        assert record["admissible"] == (not codes), record
        assert set(codes) <= known, record


@pytest.mark.parametrize("place", ["flag", "environment", "file"])
def test_a_limit_may_stand_in_any_place(
    cli: Cli, photo: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One policy, however it was said: 64 is admitted, 63 is not."""
    for side_max, status in ((64, 0), (63, 6)):
        flags: list[str] = []
        if place == "flag":
            flags = [f"--side-max={side_max}"]
        elif place == "environment":
            monkeypatch.setenv("ATTACHSTORE_SIDE_MAX", str(side_max))
        else:
            Path("attachstore.toml").write_text(f"side_max = {side_max}\n")
        assert cli.run("check", photo, *flags).status == status
        assert cli.run("put", photo, *flags).status == status


def test_a_missing_library_is_a_finding_of_the_file_that_needs_it(
    cli: Cli, photo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files after it are examined all the same."""

    def missing(*_: object) -> str:
        raise MissingDependencyError(where="admission", package="x", reason="y", command="z")

    monkeypatch.setattr(decoders, "guess", missing)
    unread = tmp_path / "program"
    unread.write_bytes(b"\x7fELF\2\1\1" + bytes(60))

    ran = cli.run("check", unread, photo, "--json")

    assert ran.status == 8
    assert [finding["code"] for finding in ran.records[0]["findings"]] == ["missing-dependency"]
    assert ran.records[1]["admissible"] is True
    assert cli.run("check", unread).status == 1
