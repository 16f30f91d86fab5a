"""One workload in a process of its own: NAME ROOT JOURNAL [--prepare] [--keep-going]."""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.rigs.journal import Journal, open_journal
from tests.rigs.workloads import ALL_WORKLOADS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.rigs.workloads", description=__doc__)
    parser.add_argument("name", choices=ALL_WORKLOADS)
    parser.add_argument("root", type=Path)
    parser.add_argument("journal", type=Path)
    parser.add_argument("--prepare", action="store_true", help="make the store, do not work on it")
    parser.add_argument("--keep-going", action="store_true", help="go on after an error")
    arguments = parser.parse_args()
    workload = ALL_WORKLOADS[arguments.name]
    journal = Journal(open_journal(arguments.journal), keep_going=arguments.keep_going)
    if arguments.prepare:
        journal.extend(workload.prepare(arguments.root))
    else:
        workload.run(arguments.root, journal)


main()
