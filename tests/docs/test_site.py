"""The pages become a site without a warning, offline."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a dead link, an orphaned page, an unknown anchor all fail."""
    target = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [
            sys.executable,
            *("-m", "mkdocs", "build", "--strict", "--quiet"),
            *("--config-file", str(ROOT / ".mkdocs.yml"), "--site-dir", str(target)),
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return target


def test_the_site_builds_without_a_warning(site: Path) -> None:
    assert (site / "index.html").is_file()


def test_the_site_fetches_nothing(site: Path) -> None:
    """No fonts, scripts or pictures from elsewhere: docs are read where there is no network."""
    fetched = re.compile(r"<(?:script|img|link)\b[^>]*\b(?:src|href)=\"?https?://[^>]*>")

    outside = [
        f"{page.relative_to(site)}: {tag[:120]}"
        for page in site.rglob("*.html")
        for tag in fetched.findall(page.read_text())
        if 'rel="canonical"' not in tag
    ]

    assert outside == []


def test_every_decision_is_in_the_index() -> None:
    index = (DOCS / "decisions" / "index.md").read_text()
    records = {path.name for path in (DOCS / "decisions").glob("[0-9]*.md")}

    assert set(re.findall(r"\]\(([0-9]{4}-[^)]+\.md)\)", index)) == records


def test_every_decision_has_its_parts() -> None:
    """A record without the rejected ways, or without a sign of error, is an announcement."""
    incomplete = {
        f"{path.name}: {part}"
        for path in (DOCS / "decisions").glob("[0-9]*.md")
        for part in ("Status: ", "## Problem", "## Decision", "## Consequences", "## Rejected")
        if part not in path.read_text()
    }

    assert incomplete == set()


def test_every_fragment_says_its_kind() -> None:
    """`<slug>.<kind>.md`, one paragraph: a release is made of them without editing."""
    fragments = [path for path in (DOCS / "changes").glob("*.md") if path.name != "README.md"]
    named = re.compile(r"[a-z0-9-]+\.(added|changed|fixed)\.md")

    assert [path.name for path in fragments if not named.fullmatch(path.name)] == []
    assert [path.name for path in fragments if "\n\n" in path.read_text().strip()] == []
