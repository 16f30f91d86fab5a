"""Names and marks that say nothing, or that were meant to be gone before anyone else reads them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tidy.checkout import ROOT, files, python_files, shown

VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "base", "core", "tools", "stuff"}
TOP_LEVEL = {
    "CHANGELOG.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "attachstore",
    "benchmarks",
    "docs",
    "pyproject.toml",
    "requirements-dev.lock",
    "requirements.lock",
    "tests",
}

UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")
# Where files lie on this machine, unless in a place with a name like any other.
PLACES = [str(place) for place in (ROOT, Path.home()) if len(place.parts) > 2]
# That, or where packages come from: true on one desk only.
MACHINE = re.compile(
    "".join(rf"{re.escape(place)}/|" for place in PLACES)
    + r"/root/|/work/(main|shared)|\.\./shared"
    r"|pypi\.org|pythonhosted\.|npmjs\.(org|com)|/simple/"
    r"|(^|\s)--(extra-)?index-url|(^|\s)--find-links"
)


def test_every_module_is_named_after_what_it_holds() -> None:
    vague = [
        shown(path)
        for path in python_files()
        if VAGUE & {part.strip("_") for part in path.relative_to(ROOT).with_suffix("").parts}
    ]

    assert vague == []


def test_the_top_level_holds_what_a_newcomer_looks_for() -> None:
    """Everything else has a room of its own, or is a dotfile."""
    found = {path.relative_to(ROOT).parts[0] for path in files()}

    assert {name for name in found if not name.startswith(".")} <= TOP_LEVEL


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(UNFINISHED, id="unfinished"),
        pytest.param(MACHINE, id="machine"),
    ],
)
def test_no_file_holds_a_mark_that_belongs_to_one_desk(pattern: re.Pattern[str]) -> None:
    marked = [
        f"{shown(path)}:{number}: {line.strip()[:80]}"
        for path in files()
        if path != Path(__file__)  # which names what it looks for
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1)
        if pattern.search(line)
    ]

    assert marked == []


def test_every_line_ends_the_unix_way() -> None:
    """Texts only: no carriage returns, no blanks at the end, one newline at the end of the file."""
    texts = [path for path in files() if path.suffix in {".md", ".py", ".toml", ".yml", ".lock"}]
    untidy = [
        shown(path)
        for path in texts
        if (text := path.read_bytes().decode())
        and (re.search(r"\r|[ \t]$", text, re.MULTILINE) or not re.search(r"\S\n\Z", text))
    ]

    assert untidy == []
