"""Export: files with safe names, a manifest, and nothing anywhere else."""

import contextlib
import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attachstore.disk import Disk
from attachstore.errors import (
    DestinationError,
    InvalidNameError,
    LogDamagedError,
    ObjectCorruptError,
    StorageFullError,
    StorageReadOnlyError,
)
from attachstore.objects.store import ObjectStore
from attachstore.objects.stream import VerifiedStream
from attachstore.reference import Reference
from attachstore.replay import ExportReport, ExportWriter, Step, export
from attachstore.threads import CancelFlag, Cancelled
from tests.replay.samples import SampleSession, showcase
from tests.replay.test_filenames import complaints, names


def exported(session: SampleSession, directory: Path, **options: Any) -> ExportReport:
    return export(session.steps(), directory, session.view(), session.objects, **options)


def manifest(directory: Path) -> dict[str, Any]:
    return json.loads((directory / "manifest.json").read_text("utf-8"))


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_every_attachment_is_a_file_with_its_bytes(tmp_path: Path) -> None:
    session = showcase()
    report = exported(session, tmp_path / "out")

    entries = manifest(tmp_path / "out")["attachments"]
    written = files(tmp_path / "out")
    listed = [entry for entry in entries if entry["file"]]

    assert len(entries) == sum(len(step.attachments) for step in session.steps())
    for entry in listed:
        reference = Reference.from_json(entry["reference"])
        assert written[entry["file"]] == session.backend.objects[reference.digest]
    assert written.keys() == {entry["file"] for entry in listed} | {"manifest.json"}
    assert report.files == len(written) - 1
    assert report.attachments == len(entries)


def test_the_manifest_says_where_each_file_came_from(tmp_path: Path) -> None:
    """Event, place in it, name, file, reference, outcome; and the session with its fork."""
    session = showcase()
    exported(session, tmp_path / "out", at=9)

    head = manifest(tmp_path / "out")
    first, second = head["attachments"][:2]

    assert (head["application"], head["export"], head["at"]) == ("attachstore", 1, 9)
    assert head["session"]["id"] == session.header.id
    assert head["session"]["parent"] == {"id": "agents/night-build", "seq": 3, "chain": "3" * 32}
    assert (first["seq"], first["pointer"]) == (3, "/content/1")
    assert first["name"] == first["file"] == "harbour at dusk.jpg"
    assert first["outcome"] == "ok"
    assert second["reference"]["$attach"]["width"] == 1280


def test_what_is_broken_is_listed_and_not_written(tmp_path: Path) -> None:
    """A file under the right name with wrong bytes would be worse than none."""
    report = exported(showcase(), tmp_path / "out")

    broken = [it for it in manifest(tmp_path / "out")["attachments"] if it["outcome"] != "ok"]

    assert [it["outcome"] for it in broken] == ["missing", "corrupt", "header-mismatch"]
    assert [it["file"] for it in broken] == [None] * 3
    assert broken[0]["error"]["code"] == "object-missing"
    assert report.broken == 3
    assert "gone.webp" not in files(tmp_path / "out")


def test_an_object_is_written_once_for_each_name(tmp_path: Path) -> None:
    """The same bytes under two names are two files; under one name, one."""
    session = SampleSession()
    one = session.commit(b"a: 1\n", "text/plain", name="config.yaml")
    for reference in (one, dataclasses.replace(one, name="b.yaml"), one):
        session.append("message", reference)

    report = exported(session, tmp_path / "out")

    chosen = [entry["file"] for entry in manifest(tmp_path / "out")["attachments"]]
    assert chosen == ["config.yaml", "b.yaml", "config.yaml"]
    assert (report.files, report.size_bytes) == (2, 10)


def test_hostile_names_stay_inside(tmp_path: Path) -> None:
    """Traversal, absolute paths, devices, our own manifest: labels only, and said to be renamed."""
    session = SampleSession()
    hostile = [
        "../../evil",
        "/etc/passwd",
        "..\\x",
        "C:\\y",
        ".",
        "..",
        "NUL",
        "manifest.json",
        "a/b",
    ]
    for name in hostile:
        session.append("message", session.commit(name.encode(), "text/plain", name=name))
    before = sorted(tmp_path.parent.rglob("*"))

    report = exported(session, tmp_path / "out")

    assert sorted(set(tmp_path.parent.rglob("*")) - set(before)) == sorted(
        [tmp_path / "out", *(tmp_path / "out").iterdir()]
    )
    entries = manifest(tmp_path / "out")["attachments"]
    assert all(entry["renamed"] for entry in entries)
    assert report.renamed == len(hostile)
    for entry in entries:
        assert (tmp_path / "out" / entry["file"]).read_bytes() == entry["name"].encode()


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given_names=st.lists(names, max_size=6))
def test_any_names_are_exported(
    given_names: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """On the real file system: each file opens under the name that the manifest gives."""
    session = SampleSession()
    for number, name in enumerate(given_names):
        data = str(number).encode()
        with contextlib.suppress(InvalidNameError):  # no reference takes a lone surrogate
            session.append("message", session.commit(data, "text/plain", name=name))
    directory = tmp_path_factory.mktemp("any") / "out"

    exported(session, directory)

    for entry in manifest(directory)["attachments"]:
        digest = Reference.from_json(entry["reference"]).digest
        assert (directory / entry["file"]).read_bytes() == session.backend.objects[digest]
        assert complaints(entry["file"]) == []


@pytest.mark.parametrize("kind", ["file in it", "a file", "no parent", "file as parent"])
def test_a_destination_in_use_is_refused_and_left_alone(tmp_path: Path, kind: str) -> None:
    """New or empty: an export never mixes with what is there, not even an earlier export."""
    target = tmp_path / "out"
    if kind == "file in it":
        target.mkdir()
        (target / "notes.txt").write_text("mine")
    elif kind == "a file":
        target.write_text("mine")
    elif kind == "file as parent":
        (tmp_path / "x").write_text("mine")
        target = tmp_path / "x" / "out"
    else:
        target = tmp_path / "x" / "out"
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(DestinationError):
        exported(showcase(), target)

    assert sorted(tmp_path.rglob("*")) == before


def test_an_empty_folder_is_taken_and_kept(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()

    with pytest.raises(StorageFullError):
        exported(showcase(), target, disk=FullDisk())
    assert files(target) == {}
    exported(showcase(), target)

    assert "manifest.json" in files(target)


class FullDisk(Disk):
    """Takes `left` bytes, then has no room."""

    def __init__(self, left: int = 0) -> None:
        self.left = left

    def write(self, descriptor: int, data: bytes | memoryview, offset_bytes: int) -> int:
        if self.left <= 0:
            raise OSError(28, "no space")
        self.left -= len(data)
        return super().write(descriptor, data, offset_bytes)


@pytest.mark.parametrize("left", [0, 20_000, 600_000])
def test_a_full_disk_is_raised_and_everything_removed(tmp_path: Path, left: int) -> None:
    """It is the destination that fails, not an attachment; half an export helps nobody."""
    with pytest.raises(StorageFullError):
        exported(showcase(), tmp_path / "out", disk=FullDisk(left))

    assert list(tmp_path.iterdir()) == []


class ForbiddingDisk(Disk):
    """Folders may be made, files may not."""

    def create(self, path: Path, mode: int) -> int:
        raise PermissionError(13, "permission denied", str(path))


def test_a_folder_without_permission_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageReadOnlyError, match="out"):
        exported(showcase(), tmp_path / "out", disk=ForbiddingDisk())

    assert list(tmp_path.iterdir()) == []


def test_damage_in_the_log_ends_the_export_after_what_came_before(tmp_path: Path) -> None:
    session = showcase()

    def steps() -> Any:
        yield from session.steps()[:3]
        raise LogDamagedError(
            where="log", session="s", line=5, offset_bytes=9, reason="?", head_seq=3
        )

    with pytest.raises(LogDamagedError):
        export(steps(), tmp_path / "out", session.view(), session.objects)

    assert len(manifest(tmp_path / "out")["attachments"]) == 2


def test_a_cancelled_export_leaves_nothing(tmp_path: Path) -> None:
    session = showcase()
    cancel = CancelFlag()
    pending = iter(session.steps())

    def run() -> None:
        with ExportWriter(
            tmp_path / "out", session.view(), session.objects, cancel=cancel
        ) as writer:
            for step in pending:
                writer.add(step)
                if step.attachments:
                    cancel.set()

    with pytest.raises(Cancelled):
        run()

    assert list(tmp_path.iterdir()) == []


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    session = showcase()
    with ExportWriter(tmp_path / "out", session.view(), session.objects) as writer:
        (tmp_path / "out" / "harbour at dusk.jpg").write_text("mine")
        with pytest.raises(DestinationError, match="meanwhile"):
            writer.add(session.steps()[2])

    assert files(tmp_path / "out") == {"harbour at dusk.jpg": b"mine"}


class RottingStore(ObjectStore):
    """Objects that go bad between replay and export."""

    def stream(self, wanted: Any, cancel: CancelFlag | None = None) -> VerifiedStream:
        return _Rotting(super().stream(wanted, cancel))


class _Rotting:
    def __init__(self, stream: VerifiedStream) -> None:
        self._stream = stream
        self.size = stream.size

    def read_block(self) -> bytes:
        raise ObjectCorruptError(where="memory", digest="x", actual="y", size_bytes=1)

    def close(self) -> None:
        self._stream.close()


def test_an_object_that_goes_bad_meanwhile_is_an_outcome(tmp_path: Path) -> None:
    """The bytes are verified again as they are copied; half a file does not stay."""
    session = showcase()
    step: Step = session.steps()[2]
    rotting = RottingStore(session.backend)

    report = export([step], tmp_path / "out", session.view(), rotting)

    assert [it["outcome"] for it in manifest(tmp_path / "out")["attachments"]] == ["corrupt"] * 2
    assert files(tmp_path / "out").keys() == {"manifest.json"}
    assert report.broken == 2


def test_files_take_the_users_own_mode(tmp_path: Path) -> None:
    """Objects are read-only; their copies are the user's to edit."""
    previous = os.umask(0o027)
    try:
        exported(showcase(), tmp_path / "out")
    finally:
        os.umask(previous)

    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "out").iterdir()}
    assert modes == {0o640}
