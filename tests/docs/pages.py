"""The pages of the documentation, and the fenced blocks and headings in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(
    r"(?:<!--\s*not run:\s*(?P<reason>[^>]*?)\s*-->\s*\n+)?"
    r"^(?P<indent>[ ]*)```(?P<language>[a-z]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: where it starts, what it is, and why it is not run, if it says so."""

    page: Path
    line: int
    language: str
    text: str
    reason: str | None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """What users read: the site's pages and README.md; fragments are not pages yet."""
    inner = [page for page in DOCS.rglob("*.md") if page.parent.name != "changes"]
    return [ROOT / "README.md", *sorted(inner)]


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(
            page=page,
            line=text.count("\n", 0, match.start("language")) + 1,
            language=match["language"],
            text=_dedent(match["text"], len(match["indent"])),
            reason=match["reason"],
        )
        for match in _FENCE.finditer(text)
    ]


def headings(page: Path, level: int) -> list[str]:
    """The text of each heading of that level, without code marks."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [
        found.replace("`", "").strip()
        for found in re.findall(rf"^{'#' * level} (.+)$", text, re.MULTILINE)
    ]


def section(page: Path, heading: str) -> str:
    """What stands under a heading, up to the next of the same or a higher level."""
    text = page.read_text()
    start = re.search(rf"^(#+) `?{re.escape(heading)}`?$", text, re.MULTILINE)
    assert start is not None, f"{page.relative_to(ROOT)} has no heading {heading!r}"
    rest = text[start.end() :]
    end = re.search(rf"^#{{1,{len(start[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def _dedent(text: str, width: int) -> str:
    return "".join(line[width:] for line in text.splitlines(keepends=True)) if width else text
