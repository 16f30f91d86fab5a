"""docs/reliability.md: prose from page/, figures from the last run of each rig at full scale.

    page/template.md    the page, with {{tried}} and {{found}} in it
    page/found.md       the faults that the rigs found, and what was done about them
    page/figures.json   what each rig came to, by user and module; written by `python -m tests.rigs`

The page is made of these three and nothing else, so that a test can say whether it is up to date.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.rigs.catalog import RIGS, Rig
from tests.rigs.figures import Figures

FOLDER = Path(__file__).with_name("page")
FIGURES = FOLDER / "figures.json"
USERS = ("root", "an ordinary user")
PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"


def keep(rig: Rig, figures: Figures) -> None:
    """Remember what a rig came to at full scale, in place of what it came to before.

    A soak that is shorter than the last one, and as clean, says less: that one stays.
    """
    kept = kept_figures()
    machine = f"Linux {platform.release().partition('-')[0]}, Python {platform.python_version()}"
    entry = dataclasses.asdict(figures)
    del entry["details"]
    user = USERS[0] if os.geteuid() == 0 else USERS[1]
    before = kept.setdefault(user, {}).get(rig.module, {"violations": [], "seconds": 0})
    soaked_longer = rig.module == "rig_soak" and before["seconds"] > round(figures.seconds)
    if soaked_longer and not figures.violations and not before["violations"]:
        return
    kept[user][rig.module] = {
        **entry,
        "seconds": round(figures.seconds),
        "day": datetime.now(UTC).date().isoformat(),
        "machine": f"{machine}, {os.cpu_count()} processors",
    }
    FIGURES.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


def kept_figures() -> dict[str, dict[str, dict[str, Any]]]:
    """By user, then by module."""
    return json.loads(FIGURES.read_text()) if FIGURES.exists() else {}


def page() -> str:
    """The page as it should be now."""
    kept = kept_figures()
    text = (FOLDER / "template.md").read_text()
    parts = {
        "tried": "\n\n".join(_tried(user, kept[user]) for user in USERS if user in kept),
        "found": (FOLDER / "found.md").read_text().strip(),
    }
    for name, part in parts.items():
        text = text.replace(f"{{{{{name}}}}}", part)
    return text


def write_page() -> None:
    PAGE.write_text(page())


def _tried(user: str, kept: dict[str, dict[str, Any]]) -> str:
    run = [(rig, kept[rig.module]) for rig in RIGS if rig.module in kept]
    machines = "; ".join(sorted({entry["machine"] for _, entry in run}))
    parts = [[f"As {user}, on {machines}:"], _table(run), _notes(run)]
    return "\n\n".join("\n".join(part) for part in parts).strip()


def _table(run: Iterable[tuple[Rig, dict[str, Any]]]) -> Iterable[str]:
    yield "| rig | | tried | at least | violations | seconds | day |"
    yield "|--|--|--:|--:|--:|--:|--|"
    for rig, entry in run:
        name = f"| {rig.number} | {entry['name']} "
        if entry["not_run"]:
            yield f"{name}| not run here: {entry['not_run']} | {rig.at_least:,} | | | |"
            continue
        violations = len(entry["violations"])
        counted = f"{entry['counted']:,} {entry['unit']}"
        measured = f"{entry['seconds']:,} | {entry['day']}"
        yield f"{name}| {counted} | {rig.at_least:,} | {violations} | {measured} |"


def _notes(run: Iterable[tuple[Rig, dict[str, Any]]]) -> Iterable[str]:
    for rig, entry in run:
        if entry["notes"]:
            yield f"- Rig {rig.number}: {'; '.join(entry['notes'])}."
        for violation in entry["violations"]:
            yield f"- **Rig {rig.number}, violation**: {violation}"
