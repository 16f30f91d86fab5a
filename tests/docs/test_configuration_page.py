"""docs/reference/configuration.md shows every setting in its three spellings, with its default."""

from __future__ import annotations

import re

from attachstore.config import SETTINGS
from tests.docs.pages import DOCS

PAGE = DOCS / "reference" / "configuration.md"
ROW = re.compile(
    r"^\| `(?P<key>\w+)` \| `(?P<variable>\w+)` \| `(?P<flag>[\w-]+)` \| ", re.MULTILINE
)


def test_every_setting_is_in_a_table_and_every_row_is_a_setting() -> None:
    found = [match.groups() for match in ROW.finditer(PAGE.read_text())]

    assert sorted(found) == sorted(
        (setting.key, setting.variable, setting.flag) for setting in SETTINGS.values()
    )


def test_the_page_shows_the_defaults() -> None:
    text = PAGE.read_text()
    wrong = [
        setting.key
        for setting in SETTINGS.values()
        if not re.search(
            rf"^\| `{setting.key}` \|[^\n]*\| `?{re.escape(setting.default)}`? \|",
            text,
            re.MULTILINE,
        )
    ]

    assert wrong == []
