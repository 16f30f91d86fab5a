"""The how-to on scans lists every kind of finding, as the fault or the note that it is."""

from __future__ import annotations

import re

from attachstore.integrity.report import Kind
from tests.docs.pages import DOCS, section

PAGE = DOCS / "how-to" / "scan-and-repair.md"


def test_every_kind_is_listed_as_what_it_is() -> None:
    faults, _, notes = section(PAGE, "What a scan finds").partition("**Notes**")
    listed = [
        set(re.findall(r"^\| `([a-z-]+)` \|", part, re.MULTILINE)) for part in (faults, notes)
    ]

    assert listed == [
        {kind.value for kind in Kind if kind.is_fault},
        {kind.value for kind in Kind if not kind.is_fault},
    ]
