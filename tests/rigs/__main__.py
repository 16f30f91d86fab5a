"""All rigs, at full scale: `python -m tests.rigs [--rig N ...] [--ci] [--page]`.

Prints one line for each and writes docs/reliability.md. Ends with status 1 if a promise was
broken, or if a rig that ran tried less than it must.
"""

from __future__ import annotations

import argparse
import sys

from tests.rigs.catalog import RIGS, Rig
from tests.rigs.figures import SOAK_S, Figures, Scale
from tests.rigs.report import keep, write_page


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.rigs", description=__doc__)
    numbers = sorted({rig.number for rig in RIGS})
    parser.add_argument("--rig", type=int, action="append", choices=numbers, help="only this one")
    parser.add_argument("--ci", action="store_true", help="the sample of the test run; no page")
    parser.add_argument("--page", action="store_true", help="only write the page again")
    parser.add_argument(
        "--soak-seconds",
        type=int,
        default=SOAK_S,
        help="how long rig 13 lasts (%(default)s; the page shows the longest)",
    )
    arguments = parser.parse_args()
    scale = Scale(ci=arguments.ci, soak_s=arguments.soak_seconds)
    failed = False
    for rig in RIGS:
        if arguments.page or (arguments.rig and rig.number not in arguments.rig):
            continue
        figures = rig.run(scale)
        print(_line(rig, figures), flush=True)
        for violation in figures.violations:
            print(f"    {violation}", flush=True)
        too_few = not arguments.ci and not figures.not_run and figures.counted < rig.at_least
        failed = failed or too_few or bool(figures.violations)
        if not arguments.ci:
            keep(rig, figures)
    if not arguments.ci:
        write_page()
    return int(failed)


def _line(rig: Rig, figures: Figures) -> str:
    if figures.not_run:
        return f"rig {rig.number:2}  {figures.name}: not run here: {figures.not_run}"
    result = f"{len(figures.violations)} violations in {figures.seconds:,.0f} s"
    return f"rig {rig.number:2}  {figures.name}: {figures.counted:,} {figures.unit}, {result}"


if __name__ == "__main__":
    sys.exit(main())
