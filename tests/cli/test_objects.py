"""init, put, get, stat, ls: what they print, and with which status they end."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from attachstore.digest import Digest
from attachstore.disk import Disk
from tests.cli.conftest import picture
from tests.cli.running import Cli


def object_path(store: Path, digest: str) -> Path:
    digits = digest.removeprefix("blake3:")
    return store / "objects" / "blake3" / digits[:2] / digits


def flip(path: Path, offset_bytes: int = 100) -> None:
    """Change one bit, as a failing disk does."""
    data = bytearray(path.read_bytes())
    data[offset_bytes] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)
    path.chmod(0o444)


# -- init --------------------------------------------------------------------------------------


def test_init_makes_a_store_and_says_when_there_is_one(cli: Cli) -> None:
    first, second = cli.run("init"), cli.run("init")

    assert (first.status, second.status) == (0, 0)
    assert first.text == f"created a store in {cli.store}\n"
    assert second.text == f"there is already a store in {cli.store}\n"


def test_init_refuses_somebody_elses_directory(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters/dear.txt").touch()

    ran = cli.run("init", store=tmp_path / "letters")

    assert ran.status == 1
    assert ran.message.startswith("attachstore: store-foreign: ")


# -- put ---------------------------------------------------------------------------------------


def test_put_prints_digest_type_dimensions_size_name(cli: Cli, photo: Path) -> None:
    ran = cli.run("put", photo)
    digest = Digest.of(photo.read_bytes())

    assert ran.status == 0
    assert ran.text == f"{digest}  image/jpeg  64x48  {photo.stat().st_size}  photo.jpg\n"
    assert ran.message == ""


def test_put_of_the_same_bytes_says_duplicate(cli: Cli, photo: Path) -> None:
    cli.run("put", photo)

    assert cli.run("put", photo).text.endswith("  photo.jpg  (duplicate)\n")


def test_put_as_json_holds_the_reference_that_get_and_events_take(cli: Cli, photo: Path) -> None:
    record = cli.run("--json", "put", photo).record

    assert record == {
        "source": str(photo),
        "outcome": "stored",
        "reference": {
            "$attach": {
                "digest": str(Digest.of(photo.read_bytes())),
                "size": photo.stat().st_size,
                "media_type": "image/jpeg",
                "width": 64,
                "height": 48,
                "frames": 1,
                "name": "photo.jpg",
            }
        },
    }


def test_put_with_a_name_and_a_claim(cli: Cli, photo: Path) -> None:
    record = cli.run("--json", "put", photo, "--name", "a b.jpg", "--type", "image/jpg").record

    assert record["reference"]["$attach"]["name"] == "a b.jpg"
    assert record["reference"]["$attach"]["media_type"] == "image/jpeg"


def test_a_wrong_claim_is_rejected(cli: Cli, photo: Path) -> None:
    ran = cli.run("put", photo, "--type", "image/png")

    assert (ran.status, ran.out) == (6, b"")
    assert ran.message.startswith("attachstore: media-type-mismatch: ")


def test_a_name_with_a_line_break_stays_one_record(cli: Cli, photo: Path) -> None:
    ran = cli.run("put", photo, "--name", "a\nblake3:0  \x1b[2J")

    assert ran.text.count("\n") == 1
    assert "a\\nblake3:0  \\x1b[2J" in ran.text


def test_of_several_files_the_good_ones_are_stored_and_the_bad_one_is_named(
    cli: Cli, photo: Path, cut_photo: Path, note: Path
) -> None:
    ran = cli.run("put", photo, cut_photo, note, "--json")

    assert ran.status == 8
    assert [record["source"] for record in ran.records] == [str(photo), str(note)]
    (error,) = ran.errors
    assert (error["code"], error["source"]) == ("truncated-image", str(cut_photo))


def test_if_all_of_several_are_refused_the_status_is_the_first_ones(
    cli: Cli, cut_photo: Path, tmp_path: Path
) -> None:
    ran = cli.run("put", cut_photo, tmp_path / "nowhere.jpg")

    assert ran.status == 6
    assert ran.message.count("attachstore: ") == 2


@pytest.mark.parametrize(
    ("flag", "code"),
    [
        ("--bytes-max=100", "too-many-bytes"),
        ("--pixels-max=100", "too-many-pixels"),
        ("--side-max=50", "dimension-limit"),
        ("--media-types=text/*", "unsupported-media-type"),
    ],
)
def test_a_limit_can_be_set_for_one_call(cli: Cli, photo: Path, flag: str, code: str) -> None:
    ran = cli.run("put", photo, flag)

    assert ran.status == 6
    assert ran.message.startswith(f"attachstore: {code}: ")


def test_a_bad_setting_in_the_environment_is_named(
    cli: Cli, photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTACHSTORE_BYTE_MAX", "1")

    ran = cli.run("put", photo)

    assert ran.status == 1
    assert ran.message.startswith("attachstore: invalid-configuration: the setting byte_max ")
    assert not cli.store.exists()


def test_put_appends_one_event_for_each_file_to_a_session(
    cli: Cli, photo: Path, note: Path
) -> None:
    ran = cli.run("put", photo, note, "--session", "s-1", "--json")
    events = cli.run("session", "show", "s-1", "--events", "--json").records

    assert [record["event"]["seq"] for record in ran.records] == [1, 2]
    assert [event["type"] for event in events] == ["attachment", "attachment"]
    assert [event["data"] for event in events] == [
        {"file": record["reference"]} for record in ran.records
    ]


def test_a_refused_file_leaves_no_event(cli: Cli, photo: Path, cut_photo: Path) -> None:
    cli.run("put", photo, "--session", "s-1")

    assert cli.run("put", cut_photo, "--session", "s-1").status == 6
    assert cli.run("session", "show", "s-1", "--json").record["head_seq"] == 1


# -- get ---------------------------------------------------------------------------------------


@pytest.fixture
def reference(cli: Cli, photo: Path) -> dict[str, dict[str, Any]]:
    return cli.run("--json", "put", photo).record["reference"]


def test_get_takes_a_digest_a_prefix_and_a_reference(
    cli: Cli, photo: Path, reference: dict[str, dict[str, Any]]
) -> None:
    digest = reference["$attach"]["digest"]
    for ref in (digest, digest[7:], digest[:13], digest[7:13], json.dumps(reference)):
        ran = cli.run("get", ref)

        assert (ran.status, ran.out) == (0, photo.read_bytes()), ref


def test_json_says_what_could_be_verified(
    cli: Cli, photo: Path, reference: dict[str, dict[str, Any]]
) -> None:
    """Standard output carries the bytes, so the report goes to standard error."""
    by_digest = cli.run("--json", "get", reference["$attach"]["digest"])
    by_reference = cli.run("--json", "get", json.dumps(reference))

    assert by_digest.out == by_reference.out == photo.read_bytes()
    assert json.loads(by_digest.message)["verified"] == "digest"
    assert json.loads(by_reference.message)["verified"] == "reference"


def test_get_into_a_file(
    cli: Cli, photo: Path, reference: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    digest = reference["$attach"]["digest"]
    quiet = cli.run("get", digest, "-o", tmp_path / "out.jpg")
    told = cli.run("--json", "get", digest, "-o", tmp_path / "out.jpg")

    assert (quiet.status, quiet.out, quiet.err) == (0, b"", b"")
    assert told.record == {
        "digest": digest,
        "size": photo.stat().st_size,
        "verified": "digest",
        "path": str(tmp_path / "out.jpg"),
    }
    assert (tmp_path / "out.jpg").read_bytes() == photo.read_bytes()


@pytest.mark.parametrize(
    ("field", "value"),
    [("width", 65), ("height", 1), ("size", 1), ("media_type", "image/png")],
)
def test_an_edited_reference_is_a_header_mismatch(
    cli: Cli, reference: dict[str, dict[str, Any]], tmp_path: Path, field: str, value: object
) -> None:
    reference["$attach"][field] = value
    ran = cli.run("get", json.dumps(reference))
    into_file = cli.run("get", json.dumps(reference), "-o", tmp_path / "out")

    assert (ran.status, ran.out) == (into_file.status, into_file.out) == (5, b"")
    assert ran.message.startswith("attachstore: header-mismatch: ")
    assert f"{field} logged {value}" in ran.message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("ref", "status", "code"),
    [
        ("12345", 2, "invalid-reference"),
        ("xyz", 2, "invalid-reference"),
        ("sha256:" + "0" * 64, 2, "invalid-reference"),
        ("{", 2, "invalid-reference"),
        ("[" * 100_000, 2, "invalid-reference"),
        ("{" * 100_000, 2, "invalid-reference"),
        ('{"$attach": 1}', 2, "invalid-reference"),
        ('{"$attach": {"digest": "blake3:00", "size": 1, "media_type": "a/b"}}', 2, None),
        ("0" * 64, 3, "object-missing"),
        ("000000", 3, "object-missing"),
    ],
)
def test_a_ref_that_leads_nowhere(
    cli: Cli,
    reference: dict[str, dict[str, Any]],
    ref: str,
    status: int,
    code: str | None,
) -> None:
    assert reference
    ran = cli.run("--json", "get", ref)

    assert (ran.status, ran.out) == (status, b"")
    assert ran.errors[0]["code"] == (code or "invalid-reference")


def test_a_prefix_that_fits_several_objects_is_ambiguous(cli: Cli, photo: Path) -> None:
    digest = cli.run("--json", "put", photo).record["reference"]["$attach"]["digest"]
    prefix = digest[7:15]
    other = object_path(cli.store, prefix + "0" * 56)
    other.write_bytes(b"x")

    ran = cli.run("get", prefix)

    assert (ran.status, ran.out) == (2, b"")
    assert ran.message.startswith("attachstore: ambiguous-reference: ")


def test_corrupt_bytes_are_not_handed_out(
    cli: Cli, reference: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    digest = reference["$attach"]["digest"]
    flip(object_path(cli.store, digest))

    for arguments in (["get", digest], ["get", digest, "-o", tmp_path / "out"]):
        ran = cli.run(*arguments)

        assert (ran.status, ran.out) == (4, b"")
        assert ran.message.startswith("attachstore: object-corrupt: ")
    assert not (tmp_path / "out").exists()


def test_without_a_store_nothing_is_made_by_reading(cli: Cli) -> None:
    for arguments in (["get", "123456"], ["stat"], ["ls"], ["session", "list"], ["scan"]):
        ran = cli.run(*arguments)

        assert ran.status == 3, arguments
        assert ran.message.startswith("attachstore: store-missing: ")
    assert not cli.store.exists()


def test_from_a_directory_that_is_gone_an_absolute_store_still_works(
    cli: Cli, note: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    assert cli.run("put", note, "--session", "s-1").status == 0
    relative = cli.run("ls", store=Path("store"))

    assert relative.status == 1
    assert relative.message.startswith("attachstore: invalid-configuration: ")


# -- stat and ls -------------------------------------------------------------------------------


def test_stat_shows_the_header_and_who_refers_to_it(cli: Cli, photo: Path) -> None:
    cli.run("put", photo, "--session", "s-1")
    record = cli.run("put", photo, "--session", "s-2", "--json").record
    digest = record["reference"]["$attach"]["digest"]

    people, programs = cli.run("stat", digest), cli.run("--json", "stat", digest).record

    assert people.status == 0
    assert "media type  image/jpeg\n" in people.text
    assert "session s-2, event 1, /file as photo.jpg" in people.text
    assert programs == {
        "digest": digest,
        "verified": True,
        "size": photo.stat().st_size,
        "media_type": "image/jpeg",
        "width": 64,
        "height": 48,
        "uses": [
            {"session": name, "seq": 1, "pointer": "/file", "reference": record["reference"]}
            for name in ("s-1", "s-2")
        ],
        "uses_complete": True,
    }


def test_stat_of_a_lost_object_still_says_who_needs_it(cli: Cli, photo: Path) -> None:
    record = cli.run("put", photo, "--session", "s-1", "--json").record
    digest = record["reference"]["$attach"]["digest"]
    object_path(cli.store, digest).unlink()

    ran = cli.run("stat", digest)

    assert ran.status == 3
    assert "session s-1, event 1, /file" in ran.text
    assert ran.message.startswith("attachstore: object-missing: ")


def test_stat_does_not_count_what_it_could_not_read(cli: Cli, photo: Path) -> None:
    record = cli.run("put", photo, "--session", "s-1", "--json").record
    cli.run("put", photo, "--session", "s-2")
    digest = record["reference"]["$attach"]["digest"]
    log = cli.store / "sessions" / "s-1" / "log.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"$attach"', b'"$att\0ch"'))

    people, programs = cli.run("stat", digest), cli.run("--json", "stat", digest)

    assert people.status == programs.status == 4
    assert "at least 1 time;" in people.text
    assert "session s-2, event 1" in people.text
    assert people.message.startswith("attachstore: log-damaged: session 's-1' ")
    assert (programs.record["verified"], programs.record["uses_complete"]) == (True, False)
    assert [use["session"] for use in programs.record["uses"]] == ["s-2"]


def test_stat_without_ref_shows_the_store_and_what_its_file_system_promises(
    cli: Cli, photo: Path, note: Path
) -> None:
    cli.run("put", photo, note, "--session", "s-1")

    for arguments in (["stat"], ["stat", "--store"]):
        record = cli.run("--json", *arguments).record

        assert record["store"] == str(cli.store)
        assert (record["objects"], record["sessions"], record["format"]) == (2, 1, 1)
        assert record["size_bytes"] == photo.stat().st_size + note.stat().st_size
        assert set(record["file_system"]) == {"kind", "promise"}
        assert "file system" in cli.run(*arguments).text


def test_ls_lists_digests_and_sizes_in_order(cli: Cli, photo: Path, note: Path) -> None:
    cli.run("put", photo, note)
    expected = sorted(
        (str(Digest.of(path.read_bytes())), path.stat().st_size) for path in (photo, note)
    )

    assert cli.run("ls").text == "".join(f"{digest}  {size}\n" for digest, size in expected)
    assert cli.run("--json", "ls").records == [
        {"digest": digest, "size": size} for digest, size in expected
    ]


def test_one_wrong_thing_hides_no_object(cli: Cli, photo: Path, note: Path) -> None:
    cli.run("put", photo, note)
    wrong, right = Digest.of(photo.read_bytes()), Digest.of(note.read_bytes())
    path = cli.store / "objects" / "blake3" / wrong.hex[:2] / wrong.hex
    path.unlink()
    path.mkdir()

    ran = cli.run("ls")

    assert ran.status == 4
    assert ran.text.split()[0] == str(right)
    assert "store-layout" in ran.message
    assert "2 objects" in cli.run("stat").text


@pytest.mark.parametrize(
    ("number", "code", "status"), [(errno.EIO, "storage-io", 1), (errno.ENOTDIR, "store-layout", 4)]
)
def test_a_directory_that_cannot_be_listed_hides_no_other(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: str, status: int
) -> None:
    paths = [tmp_path / f"{count}.txt" for count in range(8)]
    for path in paths:
        path.write_text(f"{path.stem}\n")
    assert cli.run("put", *paths).status == 0
    first, *others = sorted(Digest.of(path.read_bytes()) for path in paths)
    allow = Disk.names

    def refuse(disk: Disk, directory: Path) -> list[str]:
        if directory.name == first.hex[:2]:
            raise OSError(number, os.strerror(number), str(directory))
        return allow(disk, directory)

    monkeypatch.setattr(Disk, "names", refuse)
    ran = cli.run("ls")
    shown = cli.run("--json", "stat")

    assert [line.split()[0] for line in ran.text.splitlines()] == [str(it) for it in others]
    assert (ran.status, ran.message.count("\n")) == (status, 1)
    assert ran.message.startswith(f"attachstore: {code}: ")
    assert cli.run("ls", others[0].hex[:2]).status == 0
    assert (shown.status, shown.record["objects"]) == (status, 7)
    assert shown.record["objects_complete"] is False
    assert [each["code"] for each in shown.errors] == [code]
    assert "at least 7 objects, 14 B" in cli.run("stat").text


def test_ls_takes_the_beginning_of_a_digest(cli: Cli, photo: Path, note: Path) -> None:
    cli.run("put", photo, note)
    digest = str(Digest.of(photo.read_bytes()))

    for prefix in (digest[7:10], digest[:10], digest):
        assert cli.run("ls", prefix).text.split()[0] == digest
    for prefix in ("4F", "blake3:x", digest + "0"):
        assert cli.run("ls", prefix).status == 2


def test_an_empty_store_lists_nothing(cli: Cli) -> None:
    cli.run("init")

    assert cli.run("ls") == cli.run("session", "list")
    assert cli.run("ls").out == b""


def test_another_picture_is_another_object(cli: Cli, tmp_path: Path) -> None:
    for number, colour in enumerate(("red", "green")):
        (tmp_path / f"{number}.png").write_bytes(picture("PNG", colour=colour))
    cli.run("put", tmp_path / "0.png", tmp_path / "1.png")

    assert len(cli.run("ls").text.splitlines()) == 2
