"""Files in the making: whole under their name, or not there."""

import errno
from pathlib import Path

import pytest

from attachstore.errors import AttachstoreError, UnavailableError
from attachstore.replay import export
from attachstore.replay.output import Draft
from attachstore.replay.page import write_page
from tests.faults import FailingDisk, RecordingDisk, failing_disks
from tests.replay.samples import small_session


@pytest.mark.parametrize("effect", ["none", "half", "done"])
def test_a_fault_at_any_call_leaves_nothing_of_an_export(tmp_path: Path, effect: str) -> None:
    """Fail the first call, then the second, until an export gets through; each can be repeated."""
    session = small_session()
    tried = 0
    for disk in failing_disks(effect=effect):
        tried += 1
        target = tmp_path / str(tried)
        try:
            export(session.steps(), target, session.view(), session.objects, disk=disk)
        except AttachstoreError:
            # A folder that was made and then reported as a failure is not known to be ours.
            left = list(target.iterdir()) if target.exists() else []
            unclean = disk.landed[0] in {"create", "unlink"} and effect == "done"
            assert left == [] or unclean
        else:
            assert len(list(target.iterdir())) == 3
    assert tried > 10


@pytest.mark.parametrize("effect", ["none", "half", "done"])
def test_a_fault_at_any_call_leaves_nothing_of_a_page(tmp_path: Path, effect: str) -> None:
    """And an earlier page stays, until the new one has taken its name."""
    session = small_session()
    target = tmp_path / "page.html"
    write_page([], target, session.view(), session.objects)
    earlier = target.read_bytes()
    for disk in failing_disks(effect=effect):
        target.write_bytes(earlier)
        try:
            write_page(session.steps(), target, session.view(), session.objects, disk=disk)
        except AttachstoreError:
            renamed = disk.landed[0] in {"close", "sync_directory"} or effect == "done"
            assert target.read_bytes() == earlier or renamed
            unclean = disk.landed[0] == "create" and effect == "done"
            assert list(tmp_path.iterdir()) == [target] or unclean
        for path in set(tmp_path.iterdir()) - {target}:
            path.unlink()
    assert b"a.txt" in target.read_bytes()


def test_bytes_are_synced_before_they_get_their_name(tmp_path: Path) -> None:
    """Else a crash may leave the name with nothing behind it."""
    disk = RecordingDisk(tmp_path)
    with Draft(disk, tmp_path) as draft:
        draft.write(b"text")
        draft.publish(tmp_path / "name")

    draft = ".<random>.attachstore-draft"
    assert disk.trace == [
        ("create", draft),
        ("write", draft),
        ("sync_file", draft),
        ("rename", f"{draft} name"),
    ]
    assert (tmp_path / "name").read_bytes() == b"text"


def test_a_draft_is_used_once(tmp_path: Path) -> None:
    draft = Draft(FailingDisk(), tmp_path)
    draft.discard()
    draft.discard()

    with pytest.raises(ValueError, match="discarded"):
        draft.publish(tmp_path / "name")
    assert list(tmp_path.iterdir()) == []


def test_large_drafts_are_copied_in_blocks(tmp_path: Path) -> None:
    data = bytes(range(256)) * 16_384
    with Draft(FailingDisk(), tmp_path) as one, Draft(FailingDisk(), tmp_path) as two:
        one.write(data)
        two.write(b"head ")
        two.copy_from(one)
        two.publish(tmp_path / "whole")

    assert (tmp_path / "whole").read_bytes() == b"head " + data
    assert len(list(tmp_path.iterdir())) == 1


def test_errors_of_the_disk_are_told_in_the_packages_own(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="EIO"):
        Draft(FailingDisk(1, error=errno.EIO), tmp_path)
