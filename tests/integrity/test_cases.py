"""Objects damaged as public bug reports tell it: what a scan says of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from attachstore.integrity import Kind, Use
from attachstore.reference import Reference
from tests.integrity.workshop import Workshop, on_disk

CASES = Path(__file__).parents[1] / "cases"
OTHER = b"another object"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def shop(root: Path) -> Workshop:
    return on_disk(root)


def attach(shop: Workshop, case: str) -> Reference:
    """The case's good file, in a log together with another object."""
    reference = shop.put((CASES / case / "good.png").read_bytes(), "image/png", "good.png")
    shop.log("s-1", {"file": reference}, {"file": shop.put(OTHER)})
    return reference


@pytest.mark.parametrize(
    "case", ["118-zero-length-object", "120-bit-flip", "121-wrong-but-valid-object"]
)
def test_changed_objects_are_corrupt_until_the_file_is_attached_again(
    shop: Workshop, root: Path, case: str
) -> None:
    """The other object is checked all the same."""
    reference = attach(shop, case)
    (path,) = (root / "objects" / "blake3").glob(f"*/{reference.digest.hex}")
    before = path.stat()
    path.chmod(0o644)
    path.write_bytes((CASES / case / "tampered.bin").read_bytes())
    path.chmod(before.st_mode)

    report = shop.scan()
    attach(shop, case)
    healed = shop.scan()

    (finding,) = report.findings
    assert (finding.kind, finding.digest) == (Kind.OBJECT_CORRUPT, reference.digest)
    assert finding.uses == (Use("s-1", 1, "/file"),)
    assert report.objects == 2
    assert healed.clean


def test_a_missing_object_is_told_with_what_its_reference_knows(shop: Workshop, root: Path) -> None:
    reference = attach(shop, "123-missing-object")
    (path,) = (root / "objects" / "blake3").glob(f"*/{reference.digest.hex}")
    path.unlink()

    (finding,) = shop.scan().findings

    assert finding.kind is Kind.DANGLING_REFERENCE
    assert f"image/png, {reference.size} bytes" in finding.what
    assert finding.uses == (Use("s-1", 1, "/file"),)


@pytest.mark.parametrize(
    ("edit", "fields"),
    [
        ({"media_type": "image/jpeg"}, ["media_type"]),
        ({"size": 1907}, ["size"]),
        ({"width": 48, "height": 64}, ["width", "height"]),
        ({"width": None}, ["width"]),
        ({}, []),
    ],
    ids="abcde",
)
def test_a_reference_that_disagrees_names_the_fields(
    shop: Workshop, edit: dict[str, object], fields: list[str]
) -> None:
    good = attach(shop, "126-logged-reference-disagrees")
    body = good.to_json()["$attach"] | edit
    wrong = Reference.from_json(
        {"$attach": {key: value for key, value in body.items() if value is not None}}
    )
    shop.log("s-2", wrong)

    report = shop.scan()

    assert [[name for name, _, _ in found.differences] for found in report.findings] == (
        [fields] if fields else []
    )
    assert all(found.kind is Kind.HEADER_MISMATCH for found in report.findings)
    assert all(found.uses == (Use("s-2", 1, ""),) for found in report.findings)
