"""Names are labels: kept exactly as given, or refused; never a path, never an extension."""

from __future__ import annotations

import json

import pytest

from attachstore.admission import AdmissionPolicy, admit
from attachstore.attachment import BytesContent
from attachstore.errors import InvalidNameError
from tests.admission.test_cases import CASES

KEPT = [
    "073-path-traversal",
    "076-nfc-nfd",
    "077-narrow-no-break-space",
    "079-windows-reserved",
    "082-name-collides-with-store-layout",
]


def named(name: str) -> str | None:
    return admit(BytesContent(b"hello\n"), AdmissionPolicy(), name=name).name


@pytest.mark.parametrize("case", KEPT)
def test_a_reported_name_is_kept_code_point_for_code_point(case: str) -> None:
    names: list[str] = json.loads((CASES / case / "names.json").read_text("utf-8"))

    assert [named(name) for name in names] == names


@pytest.mark.parametrize(
    "name",
    ["", "a\0b", "a\nb", "\x1b[31m", "\u202egnp.exe", "x" * 1024, "ü" * 512, "\U0001f4ce"],
)  # fmt: skip
def test_any_text_of_at_most_1024_bytes_is_kept(name: str) -> None:
    assert named(name) == name


def test_a_name_that_is_no_utf8_is_refused() -> None:
    """Before anything is stored, and as itself: not as an encoding error later on."""
    names = json.loads((CASES / "075-surrogate-names/names.json").read_text("utf-8"))

    for name in [*names, "x" * 1025, "ü" * 513]:
        with pytest.raises(InvalidNameError):
            named(name)


def test_an_extension_is_no_claim() -> None:
    png = (CASES / "005-type-parameters-and-case/a.png").read_bytes()

    attachment = admit(BytesContent(png), AdmissionPolicy(), name="photo.jpg")

    assert attachment.header.media_type == "image/png"
    assert attachment.name == "photo.jpg"


def test_errors_name_the_attachment_without_its_control_characters() -> None:
    with pytest.raises(Exception, match=r"\\x1b\[31mred") as caught:
        admit(BytesContent(b""), AdmissionPolicy(), name="\x1b[31mred")
    assert "\x1b" not in str(caught.value)
