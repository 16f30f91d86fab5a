"""Stored objects from public bug reports; the number in front is that of the report.

The inputs are in tests/cases. What concerns logs, replay and scans is tested there.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from attachstore.admission.probe import probe
from attachstore.attachment import Attachment, BytesContent
from attachstore.digest import Digest
from attachstore.errors import HeaderMismatchError, ObjectCorruptError, ObjectMissingError
from attachstore.objects.store import CommitOutcome, Committed, ObjectStore
from tests.objects.samples import damage, make_store, names_in

CASES = Path(__file__).parents[1] / "cases"
TAMPERED = ["118-zero-length-object", "120-bit-flip", "121-wrong-but-valid-object"]


@pytest.fixture
def store(memory_path: Path) -> ObjectStore:
    return make_store(memory_path / "store")


def commit(store: ObjectStore, data: bytes, name: str = "good.png") -> Committed:
    header = probe(data, "image/png")
    assert header is not None
    return store.commit(Attachment(content=BytesContent(data), header=header, frames=1, name=name))


def path_of(store: ObjectStore, digest: Digest) -> Path:
    with store.backend.open(digest) as stored:
        return Path(stored.location)


@pytest.mark.parametrize("case", TAMPERED)
@pytest.mark.parametrize("keep_times", [False, True], ids=["new times", "old times"])
def test_tampered_objects_are_never_handed_out_and_heal(
    store: ObjectStore, memory_path: Path, case: str, keep_times: bool
) -> None:
    """118, 120, 121: permission bits, size and times are no proof of anything."""
    good = (CASES / case / "good.png").read_bytes()
    tampered = (CASES / case / "tampered.bin").read_bytes()
    reference = commit(store, good).reference
    path = path_of(store, reference.digest)
    before = path.stat()
    damage(path, tampered)
    if keep_times:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    for read in (
        lambda: store.read(reference),
        lambda: store.read(reference.digest),
        lambda: store.stream(reference),
        lambda: store.copy_out(reference, memory_path / "out.png"),
    ):
        with pytest.raises(ObjectCorruptError) as caught:
            read()
        assert caught.value.where == str(path)
        assert caught.value.digest == str(reference.digest)
        assert caught.value.actual == str(Digest.of(tampered))
        assert caught.value.size_bytes == len(tampered)
    assert not (memory_path / "out.png").exists()
    assert isinstance(store.verify(reference.digest).error, ObjectCorruptError)

    healed = commit(store, good)

    assert healed.outcome is CommitOutcome.HEALED
    assert healed.reference == reference
    assert store.read(reference) == good
    aside = memory_path / "store" / "quarantine"
    assert tampered in [(aside / name).read_bytes() for name in names_in(aside)]


def test_a_missing_object_is_named_with_all_that_is_known(store: ObjectStore) -> None:
    """123."""
    good = (CASES / "123-missing-object" / "good.png").read_bytes()
    reference = commit(store, good, "photo.png").reference
    path_of(store, reference.digest).unlink()

    with pytest.raises(ObjectMissingError) as caught:
        store.read(reference)

    for known in (str(reference.digest), "1906 bytes", "image/png", "photo.png"):
        assert known in str(caught.value)


def test_a_reference_that_disagrees_with_a_whole_object_is_a_mismatch(store: ObjectStore) -> None:
    """126: each field, and one that is missing."""
    good = (CASES / "126-logged-reference-disagrees" / "good.png").read_bytes()
    right = commit(store, good).reference

    def mismatch(**changes: object) -> tuple[tuple[str, str, str], ...]:
        with pytest.raises(HeaderMismatchError) as caught:
            store.read(dataclasses.replace(right, **changes))  # type: ignore[arg-type] - any field
        return caught.value.differences

    assert mismatch(size=1907) == (("size", "1907", "1906"),)
    assert mismatch(width=48, height=64) == (("width", "48", "64"), ("height", "64", "48"))
    assert [field for field, _, _ in mismatch(media_type="image/jpeg")] == ["media_type"]
    assert [field for field, _, _ in mismatch(width=None)] == ["width"]
    assert store.read(right) == good
    assert (right.width, right.height, right.size) == (64, 48, 1906)


@pytest.mark.parametrize(("umask", "expected"), [(0o22, 0o444), (0o27, 0o440), (0o77, 0o400)])
def test_objects_are_read_only_and_as_private_as_the_umask(
    memory_path: Path, umask: int, expected: int
) -> None:
    """128: and read-only objects can still be committed again and healed."""
    good = (CASES / "128-permissions-and-umask" / "good.png").read_bytes()
    before = os.umask(umask)
    try:
        store = make_store(memory_path / "store")
        path = path_of(store, commit(store, good).reference.digest)
        assert path.stat().st_mode & 0o777 == expected
        assert path.parent.stat().st_mode & 0o777 == 0o755 & ~umask
        assert commit(store, good).outcome is CommitOutcome.DUPLICATE
        damage(path)
        assert commit(store, good).outcome is CommitOutcome.HEALED
        assert path.stat().st_mode & 0o777 == expected
    finally:
        os.umask(before)


def test_equal_bytes_of_two_names_are_one_object(store: ObjectStore) -> None:
    """080: no "duplicate content" error, and the second is read and hashed, not believed."""
    good = (CASES / "138-same-content-at-once" / "good.png").read_bytes()

    first, second = commit(store, good, "a.png"), commit(store, good, "b.png")

    assert second.outcome is CommitOutcome.DUPLICATE
    assert (first.reference.name, second.reference.name) == ("a.png", "b.png")
    assert list(store.digests()) == [first.reference.digest]


@pytest.mark.parametrize("name", ["report", "report/versions/notes.txt", "../x", "CON", "a\0b"])
def test_names_are_labels_and_never_paths(store: ObjectStore, memory_path: Path, name: str) -> None:
    """082: a name that looks like a path, or like the store's own layout, touches nothing."""
    before = sorted(memory_path.rglob("*"))

    reference = commit(store, (CASES / "138-same-content-at-once" / "good.png").read_bytes(), name)

    made = set(memory_path.rglob("*")) - set(before)
    assert made == {path_of(store, reference.reference.digest)}
