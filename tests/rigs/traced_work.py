"""What the traced children do (tracing.py calls these by name)."""

from __future__ import annotations

import logging
from pathlib import Path

from tests.rigs import second_process
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
