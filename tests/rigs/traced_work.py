"""What the traced children do (tracing.py calls these by name)."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from tests.rigs import mutation, second_process
from tests.rigs.cut_subjects import SUBJECTS
from tests.rigs.journal import Journal, open_journal, read_journal


def work(name: str, root: str, journal_path: str) -> None:
    """The observed part of a workload, in this process."""
    logging.getLogger("attachstore").setLevel(logging.CRITICAL)  # it warns of what we made it meet
    SUBJECTS[name].run(Path(root), Journal(open_journal(Path(journal_path))))


def go_on(root: str, journal_path: str) -> None:
    """A second process, after the first was killed; what that one said is in the journal."""
    logging.getLogger("attachstore").setLevel(logging.CRITICAL)
    path = Path(journal_path)
    second_process.go_on(
        Path(root), read_journal(path), Journal(open_journal(path), keep_going=True)
    )


def reached(place: str, answer: str) -> None:
    """In a probed child (mutation.py): which sites each workload comes by, and a second process."""
    found: dict[str, dict[str, list[str]]] = {}
    for name in SUBJECTS:
        disk, journal = Path(place, name, "disk"), Path(place, name, "journal")
        disk.mkdir(parents=True)
        journal.write_bytes(b"".join(it.line() for it in SUBJECTS[name].prepare(disk / "store")))
        mutation.hits.clear()
        work(name, str(disk / "store"), str(journal))
        sites = {"cut": sorted(mutation.hits)}
        mutation.hits.clear()
        go_on(str(disk / "store"), str(journal))
        found[name] = sites | {"kill": sorted(mutation.hits)}
    Path(answer).write_text(json.dumps(found))
